from headgate.core import say_reason


def test_a_slug_is_put_into_words_and_a_sentence_keeps_the_names_of_tools() -> None:
    missing = 'write the plan first: call plan_tasks with action "create"'
    told = [say_reason(reason) for reason in ("max_turns", "some_new_reason", missing, "")]
    assert told == ["its turns are used up", "some new reason", missing, ""]

"""Views, case by case: what goes first, what stays, and what is left of too much."""

import json
from dataclasses import replace

import pytest

from headgate.core import Message, ToolCall, ViewPolicy, build_view, size_of
from headgate.core.view import INTERRUPTED, LEAST_CHARS

HEAD = [Message("system", "rules"), Message("user", "task")]


def call(number: int) -> ToolCall:
    return ToolCall(f"call_{number}", "read_file", json.dumps({"path": f"{number}.py"}))


def exchange(number: int, size: int = 50, reasoning: str = "") -> list[Message]:
    return [
        Message("assistant", "", (call(number),), reasoning=reasoning),
        Message("tool", "x" * size, call_id=f"call_{number}"),
    ]


def several(*numbers: int, size: int = 50) -> list[Message]:
    calls = tuple(map(call, numbers))
    return [
        Message("assistant", "", calls),
        *(Message("tool", "x" * size, call_id=one.id) for one in calls),
    ]


def test_full_history_is_the_same_objects() -> None:
    transcript = [*HEAD, *exchange(1), *exchange(2)]
    view = build_view(transcript, ViewPolicy())
    assert all(mine is theirs for mine, theirs in zip(view, transcript, strict=True))


def test_tail_keeps_the_head_and_the_latest_exchanges() -> None:
    transcript = [*HEAD, *exchange(1), *exchange(2), *exchange(3)]
    view = build_view(transcript, ViewPolicy(history="tail", max_messages=6))
    assert view == [*HEAD, *exchange(2), *exchange(3)]


def test_without_keep_first_a_tail_lets_the_first_message_go_and_never_the_system_message() -> None:
    transcript = [*HEAD, *exchange(1), *exchange(2), *exchange(3)]
    view = build_view(transcript, ViewPolicy(history="tail", max_messages=5, keep_first=False))
    assert view == [HEAD[0], *exchange(2), *exchange(3)]


def test_a_full_history_keeps_the_first_message_whatever_the_budget() -> None:
    view = build_view([*HEAD, *exchange(1, 5_000), *exchange(2)], ViewPolicy(keep_first=False), 300)
    assert view == [*HEAD, *exchange(2)]


def test_a_reply_with_more_calls_than_the_tail_has_room_for_keeps_the_latest() -> None:
    view = build_view([*HEAD, *several(1, 2, 3, 4, 5)], ViewPolicy(history="tail", max_messages=5))
    assert view == [*HEAD, *several(4, 5)]


def test_a_message_after_the_last_exchange_does_not_push_it_out() -> None:
    transcript = [*HEAD, *several(1, 2, 3, 4, 5), Message("user", "go on")]
    view = build_view(transcript, ViewPolicy(history="tail", max_messages=5))
    assert view == [*HEAD, *several(5), Message("user", "go on")]


def test_a_tail_too_small_for_anything_keeps_the_head_and_one_call_with_its_result() -> None:
    view = build_view([*HEAD, *exchange(1), *several(2, 3)], ViewPolicy(history="tail", max_messages=2))
    assert view == [*HEAD, *several(3)]


def test_old_results_are_shortened_and_the_last_ones_not() -> None:
    transcript = [*HEAD, *exchange(1, 1_000), *exchange(2, 1_000)]
    view = build_view(transcript, ViewPolicy(truncate_chars=200, truncate_keep_last=1))
    assert [len(message.content) for message in view if message.role == "tool"] == [200, 1_000]


@pytest.mark.parametrize("length", [*range(195, 245), 1_037, 1_038, 1_039, 1_040, 10_000])
def test_a_shortened_result_says_exactly_how_much_is_gone(length: int) -> None:
    transcript = [*HEAD, *exchange(1, length)]
    view = build_view(transcript, ViewPolicy(truncate_chars=200, truncate_keep_last=0))
    text = view[-1].content
    assert len(text) == min(length, 200)
    if length > 200:
        gone = int(text.partition("[... ")[2].partition(" characters")[0])
        assert text.count("x") == length - gone


def test_reasoning_goes_from_older_exchanges_only() -> None:
    transcript = [
        *HEAD,
        *exchange(1, reasoning="old"),
        Message("user", "next"),
        *exchange(2, reasoning="new"),
    ]
    view = build_view(transcript, ViewPolicy(strip_thinking=True))
    assert [message.reasoning for message in view if message.role == "assistant"] == ["", "new"]
    kept = build_view(transcript, ViewPolicy(strip_thinking=False))
    assert [message.reasoning for message in kept if message.role == "assistant"] == ["old", "new"]


def test_the_providers_copy_of_old_reasoning_goes_with_it() -> None:
    signed = Message("assistant", "done", reasoning="old", opaque='[{"type":"thinking"}]')
    view = build_view([*HEAD, signed, Message("user", "next"), signed], ViewPolicy())
    assert view == [*HEAD, Message("assistant", "done"), Message("user", "next"), signed]


def test_an_unanswered_call_is_answered() -> None:
    view = build_view([*HEAD, Message("assistant", "", (call(1), call(2)))], ViewPolicy())
    assert [(message.call_id, message.content) for message in view[3:]] == [
        ("call_1", INTERRUPTED),
        ("call_2", INTERRUPTED),
    ]


def test_strays_and_doubles_are_dropped() -> None:
    reply, result = exchange(1)
    doubled = Message("assistant", "", (call(1), call(1)))
    view = build_view(
        [result, *HEAD, result, doubled, result, result, Message("user", "on"), result], ViewPolicy()
    )
    assert view == [*HEAD, reply, result, Message("user", "on")]


def test_characters_go_from_the_oldest_exchanges_first() -> None:
    transcript = [*HEAD, *exchange(1, 500), *exchange(2, 500), *exchange(3, 500)]
    view = build_view(transcript, ViewPolicy(), 1_200)
    assert view == [*HEAD, *exchange(2, 500), *exchange(3, 500)]


def test_long_results_of_the_last_exchange_are_shortened_and_short_ones_left() -> None:
    calls = (call(1), call(2), call(3))
    results = [
        Message("tool", "x" * size, call_id=f"call_{number}")
        for number, size in enumerate((90, 9_000, 9_000), 1)
    ]
    view = build_view([*HEAD, Message("assistant", "", calls), *results], ViewPolicy(), 2_000)
    assert view[:4] == [*HEAD, Message("assistant", "", calls), results[0]]
    assert len(view[4].content) == len(view[5].content) > 800
    assert 1_990 < size_of(view) <= 2_000


def test_too_long_a_reply_loses_reasoning_then_text_and_its_arguments_stay_json() -> None:
    arguments = json.dumps({"path": "a.py", "content": "line\n" * 5_000, "mode": 7})
    reply = Message(
        "assistant", "y" * 3_000, (ToolCall("1", "write_file", arguments),), reasoning="z" * 3_000
    )
    view = build_view([*HEAD, reply, Message("tool", "written", call_id="1")], ViewPolicy(), 1_000)
    assert size_of(view) <= 1_000
    assert view[3] == Message("tool", "written", call_id="1")
    assert view[2].reasoning == ""
    assert view[2].content.startswith("yyy")
    kept = json.loads(view[2].calls[0].arguments)
    assert (kept["path"], kept["mode"]) == ("a.py", 7)
    assert "characters cut here" in kept["content"]


def test_long_reasoning_goes_before_any_call_of_the_last_exchange() -> None:
    reply, *results = several(1, 2, 3, 4)
    thoughtful = replace(reply, reasoning="z" * 3_000)
    assert build_view([*HEAD, thoughtful, *results], ViewPolicy(), 1_000) == [*HEAD, reply, *results]


@pytest.mark.parametrize(
    "arguments", ["{broken " * 999, "[" * 9_999, json.dumps([1] * 999), json.dumps({"k" * 999: 1})]
)
def test_arguments_that_cannot_be_shortened_say_their_size(arguments: str) -> None:
    reply = Message("assistant", "", (ToolCall("1", "shell", arguments),))
    view = build_view([*HEAD, reply, Message("tool", "no", call_id="1")], ViewPolicy(), 500)
    assert json.loads(view[2].calls[0].arguments) == {"cut": f"{len(arguments)} characters"}


def test_a_head_larger_than_the_budget_stays_whole_beside_the_least_of_the_last_exchange() -> None:
    head = [Message("system", "rules"), Message("user", "t" * 5_000)]
    view = build_view([*head, *exchange(1), *exchange(2, 9_000)], ViewPolicy(), 1_000)
    assert view[:3] == [*head, exchange(2)[0]]
    assert size_of(view) == size_of(head) + LEAST_CHARS

"""What counts as a question, and what is a polite request."""

import pytest

from headgate.core import Task, is_question


@pytest.mark.parametrize(
    "text",
    [
        "How does slug() work?",
        "Why does test_a fail?\n",
        'Is "n" right?)',
        "Can total() be negative?",
        "\u5417\uff1f",
    ],
)
def test_a_text_that_ends_with_a_question_mark_is_a_question(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "Add a parameter.",
        "Is it right? Fix it.",
        "Can you add a parameter?",
        "could  we drop Python 3.8?",
        "- Would you rename it?",
        "Will you fix that?",
        "Please add a parameter, will you?",
        "Add a parameter, PLEASE?",
    ],
)
def test_a_request_is_no_question(text: str) -> None:
    assert not is_question(text)


def test_only_the_submitted_text_makes_a_question() -> None:
    assert not Task(id="t2", text="Add it.", goal="Add it.", added="Is that clear?").is_question
    assert Task(id="t2", text="Is it right?", goal="Is it right?", added="Look at a.py.").is_question

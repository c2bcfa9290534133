"""A real session, with aborted and unanswered calls, through every policy and at many of its points."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice, product

import pytest

from headgate.core import Message, ViewPolicy, build_view, size_of
from headgate.core.view import INTERRUPTED
from views import check_view, load_session

POLICIES = [
    ViewPolicy(
        history=history,
        max_messages=max_messages,
        keep_first=keep_first,
        strip_thinking=strip_thinking,
        truncate_chars=truncate_chars,
        truncate_keep_last=truncate_keep_last,
    )
    for history, max_messages, keep_first, strip_thinking, truncate_chars, truncate_keep_last in product(
        ("full", "tail"), (2, 5, 12, 40, 200), (True, False), (True, False), (0, 100, 2_000), (0, 3)
    )
]
BUDGETS = (None, 0, 1_000, 20_000, 200_000)


@pytest.fixture(scope="module")
def session() -> list[Message]:
    return load_session()


def test_every_policy_and_budget_at_points_all_over_the_session(session: list[Message]) -> None:
    checked = 0
    for (policy, max_chars), length in zip(product(POLICIES, BUDGETS), _lengths(len(session)), strict=False):
        check_view(session[:length], policy, max_chars)
        checked += 1
    assert checked == len(POLICIES) * len(BUDGETS) == 1_200


def test_every_point_of_the_session(session: list[Message]) -> None:
    policies = cycle(islice(POLICIES, 0, None, 7))
    for length in range(0, len(session) + 1, 3):
        check_view(session[max(length - 150, 0) : length], next(policies), 20_000 if length % 2 else None)


def test_the_whole_session_has_its_unanswered_calls_answered(session: list[Message]) -> None:
    view = build_view(session, ViewPolicy(strip_thinking=False))
    calls = sum(len(message.calls) for message in view)
    results = [message for message in view if message.role == "tool"]
    interrupted = [message for message in results if message.content == INTERRUPTED]
    assert (calls, len(results), len(interrupted)) == (391, 391, 18)
    assert [message for message in view if message.content != INTERRUPTED] == session


def test_one_aborted_reply_with_sixteen_calls_is_larger_than_the_budget(session: list[Message]) -> None:
    end = next(index for index, message in enumerate(session) if len(message.calls) == 16)
    transcript = session[: end + 2]
    view = check_view(transcript, ViewPolicy(history="tail", max_messages=6))
    kept = session[end].calls[-3:]
    assert view == [
        session[0],
        replace(session[end], calls=kept),
        *(Message("tool", INTERRUPTED, call_id=call.id, failed=True) for call in kept),
        session[end + 1],
    ]
    squeezed = check_view(transcript, ViewPolicy(), 1_500)
    assert 1_000 < size_of(squeezed) <= 1_500
    assert [call.id for call in squeezed[1].calls] == [kept[-1].id]


def _lengths(longest: int) -> Iterator[int]:
    """Lengths from all over the session, more of them from its first quarter, which is cheaper."""
    position = 0
    while True:
        yield position
        position = (position + 97) % (longest + 1) if position % 3 else (position + 31) % (longest // 4)

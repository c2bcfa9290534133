"""When calls are a loop, and when they only look like one."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from headgate.core import Budget, due_nudge, is_lost
from headgate.core.loops import CallMemory

BUDGET = Budget(identical_calls=3, idle_reads=4, idle_thoughts=2, loop_patience=2)
Call = tuple[str, Literal["read", "write", "run", "reasoning"], str, bool]


def after(*turns: list[Call]) -> CallMemory:
    memory = CallMemory()
    for calls in turns:
        memory.begin_turn()
        for key, category, result, ok in calls:
            memory.take(key, key, category, result, ok=ok, progress=ok and category == "write")
    return memory


READ: Call = ("a", "read", "x", True)


def test_identical_calls_with_identical_results() -> None:
    assert due_nudge(after([READ], [READ]), BUDGET, can_write=False) is None
    assert due_nudge(after([READ], [READ], [READ]), BUDGET, can_write=False) == ("identical", 3)
    assert not is_lost(after(*[[READ]] * 4), BUDGET, can_write=False)
    assert is_lost(after(*[[READ]] * 5), BUDGET, can_write=False)


def test_another_result_begins_anew() -> None:
    polls: list[list[Call]] = [[("a", "run", str(number), True)] for number in range(20)]
    assert due_nudge(after(*polls), BUDGET, can_write=False) is None


def test_a_change_begins_anew_and_a_failed_one_does_not() -> None:
    change: Call = ("w", "write", "ok", True)
    failed: Call = ("w", "write", "no match", False)
    assert due_nudge(after([READ], [READ], [change], [READ], [READ]), BUDGET, can_write=False) is None
    assert due_nudge(after([failed], [failed], [failed]), BUDGET, can_write=True) == ("identical", 3)


def test_reading_what_is_known_is_a_loop_only_where_writing_is_possible() -> None:
    again: list[list[Call]] = [[(str(number), "read", "x", True)] for number in range(9)]
    assert due_nudge(after(*again[:4]), BUDGET, can_write=True) is None
    assert due_nudge(after(*again[:5]), BUDGET, can_write=True) == ("reads", 4)
    assert due_nudge(after(*again), BUDGET, can_write=False) is None
    assert (is_lost(after(*again[:8]), BUDGET, True), is_lost(after(*again), BUDGET, True)) == (False, True)


def test_reading_something_new_is_never_a_loop() -> None:
    reads: list[list[Call]] = [[(str(number), "read", str(number), True)] for number in range(50)]
    assert due_nudge(after(*reads), BUDGET, can_write=True) is None


def test_tests_run_again_after_another_command_are_no_loop() -> None:
    check: Call = ("check", "run", "FAIL", True)
    edits: list[Call] = [(f"sed {number}", "run", "", True) for number in range(9)]
    assert due_nudge(after(*([edit, check] for edit in edits)), BUDGET, can_write=True) is None
    assert due_nudge(after(*[[check]] * 3), BUDGET, can_write=True) == ("identical", 3)


def test_thinking_beside_reading_is_not_idle_thinking() -> None:
    thought: Call = ("t", "reasoning", "ok", True)
    thoughts: list[list[Call]] = [[(str(number), "reasoning", "ok", True)] for number in range(2)]
    assert due_nudge(after(*thoughts), BUDGET, can_write=False) == ("thoughts", 2)
    assert due_nudge(after([READ, thought], [thought, ("b", "read", "y", True)]), BUDGET, False) is None


def test_zero_turns_each_off() -> None:
    off = Budget(identical_calls=0, idle_reads=0, idle_thoughts=0)
    memory = after(*[[READ]] * 50)
    assert (due_nudge(memory, off, True), is_lost(memory, off, True)) == (None, False)


calls = st.tuples(
    st.sampled_from("abc"),
    st.sampled_from(["read", "run", "reasoning"]),
    st.sampled_from("xy"),
    st.booleans(),
)


@given(st.lists(st.lists(calls, min_size=1, max_size=3), max_size=30), st.booleans())
def test_nobody_is_lost_who_was_not_told_first(turns: list[list[Call]], can_write: bool) -> None:
    told = False
    for number in range(1, len(turns) + 1):
        memory = after(*turns[:number])
        lost = is_lost(memory, BUDGET, can_write)
        told = told or due_nudge(memory, BUDGET, can_write) is not None
        assert told or not lost
        if lost:
            return


@given(st.lists(st.lists(calls, min_size=1, max_size=3), max_size=20))
def test_after_a_change_nothing_counts(turns: list[list[Call]]) -> None:
    memory = after(*turns, [("w", "write", "ok", True)])
    assert due_nudge(memory, BUDGET, can_write=True) is None

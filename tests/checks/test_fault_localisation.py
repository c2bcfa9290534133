"""Which functions and lines are suspect, by what tests ran and where the trace went."""

from math import sqrt

from hypothesis import given
from hypothesis import strategies as st

from headgate.checks import Suspect, likely_lines, rank_functions, score_lines, suspect_lines
from headgate.checks.fault_localisation import MOST_TIED, NAMED_BONUS, TRACE_BONUS

SOURCE = """\
def used(a):
    b = a + 1
    if b > 2:
        return b - 1
    return b


def other(a):
    return a


def unused(a): return a
"""
lines = st.dictionaries(st.sampled_from(["a.py", "b.py"]), st.frozensets(st.integers(1, 9), max_size=5))


def ran(*numbers: int, path: str = "m.py") -> dict[str, frozenset[int]]:
    return {path: frozenset(numbers)}


def test_a_line_is_as_suspect_as_the_share_of_failing_tests_among_those_that_ran_it() -> None:
    failed = [ran(2, 3, 4), ran(2, 3, 4)]
    passed = [ran(2, 3, 5), ran(9)]
    assert score_lines(failed, passed) == {
        ("m.py", 2): 2 / sqrt(2 * 3),
        ("m.py", 3): 2 / sqrt(2 * 3),
        ("m.py", 4): 1.0,
    }


def test_without_failing_tests_nothing_is_suspect() -> None:
    assert score_lines([], [ran(1, 2)]) == {}
    assert rank_functions({"m.py": SOURCE}, {}) == ()


@given(st.lists(lines, max_size=4), st.lists(lines, max_size=4))
def test_scores_lie_between_0_and_1(
    failed: list[dict[str, frozenset[int]]], passed: list[dict[str, frozenset[int]]]
) -> None:
    scores = score_lines(failed, passed)
    assert set(scores) == {(path, line) for test in failed for path in test for line in test[path]}
    assert all(0 < score <= 1 for score in scores.values())


def test_functions_are_ranked_by_their_worst_line() -> None:
    scores = score_lines([ran(2, 3, 4, 9)], [ran(2, 3, 5), ran(9), ran(9)])
    first, second = rank_functions({"m.py": SOURCE, "empty.py": "x = 1\n"}, scores)
    assert (first.place, first.first, first.last, first.score) == ("m.py: used", 1, 5, 1.0)
    assert first.lines[0] == 4
    assert set(first.lines) <= {2, 3, 4}
    assert (second.place, second.score, second.lines) == ("m.py: other", 1 / sqrt(3), (9,))


def test_the_trace_breaks_ties_and_finds_what_nothing_measured() -> None:
    scores = score_lines([ran(4, 9)], [])
    found = rank_functions({"m.py": SOURCE}, scores, [("m.py", 9), ("n.py", 4)])
    assert [(suspect.function, suspect.score) for suspect in found] == [
        ("other", 1 + TRACE_BONUS),
        ("used", 1.0),
    ]
    by_trace = rank_functions({"m.py": SOURCE}, {}, [("m.py", 9), ("m.py", 3), ("m.py", 12)])
    assert [suspect.function for suspect in by_trace] == ["unused", "used", "other"]  # the innermost first
    assert all(suspect.lines == () for suspect in by_trace)


def test_what_the_task_names_comes_first_among_equals() -> None:
    scores = score_lines([ran(4, 9), ran(4, 9, path="n.py")], [])
    sources = {"m.py": SOURCE, "n.py": SOURCE}
    for named, first in [("n.py", "n.py: used"), ("other", "m.py: other"), ("no", "m.py: used")]:
        assert rank_functions(sources, scores, named={named})[0].place == first
    lines = suspect_lines(rank_functions(sources, scores, named={"n.py"}))
    assert [line.place for line in lines][:2] == ["n.py:4", "n.py:9"]
    assert lines[0].score == lines[2].score + NAMED_BONUS


def test_places_as_people_are_told() -> None:
    assert Suspect("m.py").place == "m.py"
    assert Suspect("m.py", "C.f").place == "m.py: C.f"
    assert Suspect("m.py", "C.f", line=3).place == "m.py:3"


def suspect(name: str, score: float, *lines: int) -> Suspect:
    return Suspect("m.py", name, min(lines, default=1), max(lines, default=0), score, lines)


def lines_of(found: list[Suspect]) -> list[str]:
    return [f"{each.path}:{each.line} in {each.function}" for each in found]


def test_one_line_of_each_function_that_stands_out_is_likely() -> None:
    found = [suspect("a", 1.0, 3, 2), suspect("b", 0.7, 12), suspect("c", 0.5, 20), suspect("d", 0.49, 30)]
    assert lines_of(likely_lines(found)) == ["m.py:3 in a", "m.py:12 in b", "m.py:20 in c"]
    assert likely_lines([]) == []


def test_what_is_no_more_suspect_than_a_place_that_is_named_anyway_is_not_told() -> None:
    found = [suspect("a", 1.0, 22), suspect("b", 1.0), suspect("c", 0.9, 2, 4), suspect("d", 0.9, 12)]
    assert lines_of(likely_lines(found, [("m.py", 3), ("n.py", 22)])) == ["m.py:22 in a"]
    assert lines_of(likely_lines(found, [("n.py", 3)])) == ["m.py:22 in a", "m.py:2 in c", "m.py:12 in d"]


def test_of_many_that_are_equally_suspect_none_is_told() -> None:
    many = [suspect(f"f{number}", 0.8, 10 * number + 1) for number in range(MOST_TIED + 1)]
    assert likely_lines(many) == []
    assert lines_of(likely_lines([suspect("a", 1.0, 999), *many])) == ["m.py:999 in a"]
    assert len(likely_lines(many[1:])) == MOST_TIED

"""Finding blocks of lines, and the rules for their indentation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.tools.matching import (
    EXACT,
    INDENTATION,
    SPACING,
    TRAILING,
    TYPOGRAPHY,
    Level,
    LineIndex,
    TextLines,
    align,
    indent_rule,
    list_places,
    show_lines,
)

TEXT = ["def f():", "    a = 1 ", "    b = 2", "", "def g():", "    a = 1 ", "    say(“x”)"]


def places(wanted: list[str], start: int = 0) -> list[tuple[int, int, Level]]:
    return [(match.start, match.end, match.level) for match in LineIndex(TEXT).find(wanted, start)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["    a = 1 "], [(1, 2, EXACT), (5, 6, EXACT)]),
        (["    a = 1"], [(1, 2, TRAILING), (5, 6, TRAILING)]),
        (["a = 1", "b = 2"], [(1, 3, INDENTATION)]),
        (["a  =  1", "b = 2"], [(1, 3, SPACING)]),
        (['say("x")'], [(6, 7, TYPOGRAPHY)]),
        (["def f():", "a = 1"], []),
        ([""], [(3, 4, EXACT)]),
        (["  "], []),
        (["def g():", *TEXT], []),
        ([], []),
    ],
)
def test_levels(wanted: list[str], expected: list[tuple[int, int, Level]]) -> None:
    assert places(wanted) == expected


@pytest.mark.parametrize(
    ("pairs", "indent", "expected"),
    [
        ([("", "  ")], "  ", "    "),
        ([("", "\t"), ("  ", "\t  ")], "    ", "\t    "),
        ([("    ", ""), ("      ", "  ")], "        ", "    "),
        ([("    ", "")], "  ", None),
        ([("", ""), ("    ", "\t")], "        ", "\t\t"),
        ([("", ""), ("    ", "\t")], "      ", None),
        ([("", ""), ("    ", "\t")], "\t", None),
        ([("", "\t"), ("    ", "\t\t")], "        ", "\t\t\t"),
        ([("    ", "\t")], "        ", "\t\t"),
        ([("\t", "  "), ("\t\t", "    ")], "\t\t\t", "      "),
        ([("", ""), ("    ", "  ")], "    ", "  "),
        ([("", ""), ("    ", "  ")], "        ", None),
        ([("", ""), ("    ", "  "), ("        ", "    ")], "            ", "      "),
    ],
)
def test_indent_rules(pairs: list[tuple[str, str]], indent: str, expected: str | None) -> None:
    rule = indent_rule(pairs)
    assert rule is not None
    assert rule(indent) == expected
    assert all(rule(wanted) == own for wanted, own in pairs)


@pytest.mark.parametrize(
    "pairs",
    [
        [("", "    "), ("        ", "        ")],
        [("  ", "  "), ("  ", "    ")],
        [("", ""), (" ", "\t")],
        [("  ", "    "), ("    ", "  ")],
        [("\t  ", "      "), ("", "")],
        [("", "\t"), ("        ", "\t\t")],
    ],
)
def test_indentation_without_a_rule(pairs: list[tuple[str, str]]) -> None:
    assert indent_rule(pairs) is None


def test_nearest() -> None:
    index = LineIndex(TEXT)
    assert index.nearest(["def g():", "    a = 3"]) == (4, 6)
    assert index.nearest(["    say(x, y)"]) == (6, 7)
    assert index.nearest(["completely different words"]) is None
    assert index.nearest([""]) is None
    assert LineIndex([]).nearest(["a"]) is None


def test_align() -> None:
    assert list(align(["a", "b", "c"], ["a", "x", "b", "c", "d"])) == [
        (0, 0),
        (None, 1),
        (1, 2),
        (2, 3),
        (None, 4),
    ]
    assert list(align(["a"], [])) == []


def test_shown_lines() -> None:
    assert show_lines(TEXT, 4, 6) == "5: def g():\n6:     a = 1 "
    assert show_lines(["x" * 300, "\udcff"], 0, 2) == "1: " + "x" * 200 + "...\n2: \ufffd"
    assert show_lines(["x"] * 30, 0, 30).endswith("20: x\n... (10 more lines)")


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([3], "line 3"), ([3, 3], "line 3"), ([1, 2, 3], "lines 1, 2 and 3")],
)
def test_listed_places(numbers: list[int], expected: str) -> None:
    assert list_places(numbers) == expected
    assert list_places(list(range(1, 31))).endswith("20 and 10 more")


@given(st.text(alphabet="a\r\n\x0c\u2028", max_size=30))
def test_lines_join_to_what_they_were(text: str) -> None:
    lines = TextLines.split(text)
    assert lines.join() == text
    assert all(lines.endings[:-1])


BLOCKS = st.lists(st.sampled_from(["a", "b", " a", "a ", "", "a  b", "“"]), max_size=8)


@given(BLOCKS, BLOCKS)
def test_matches_are_what_a_plain_search_finds(text: list[str], wanted: list[str]) -> None:
    matches = LineIndex(text).find(wanted)
    for match in matches:
        fold = match.level.fold
        assert [fold(line) for line in text[match.start : match.end]] == [fold(line) for line in wanted]
    exact = [at for at in range(len(text)) if wanted and text[at : at + len(wanted)] == wanted]
    if exact:
        assert [match.start for match in matches] == exact


@given(BLOCKS, BLOCKS)
def test_alignment_keeps_order_and_covers_the_new_lines(old: list[str], new: list[str]) -> None:
    pairs = list(align(old, new))
    assert [index for _, index in pairs] == list(range(len(new)))
    kept = [source for source, _ in pairs if source is not None]
    assert kept == sorted(set(kept))
    assert all(old[source] == new[index] for source, index in pairs if source is not None)

"""Small changes to one line: what is tried, in which order, and that it always parses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.reading.source_text import parse_python
from headgate.repair.mutations import mutations


def changed(line: str, before: str = "def f(a, b):\n    c = a\n", after: str = "") -> list[str]:
    """What becomes of a line of a function."""
    source = f"{before}    {line}\n{after}"
    number = before.count("\n") + 1
    found = [mutation.source.removeprefix(before) for mutation in mutations(source, number)]
    return [text.split("\n")[0].strip() for text in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", ["return a <= b", "return a > b", "return a >= b", "return a + 1 < b"]),
        ("return a == b", ["return a != b", "return a < b", "return a <= b"]),
        ("c = a[1:]", ["c = a[2:]", "c = a[0:]"]),
        ("c = a + 2", ["c = a + 3", "c = a + 1", "c = a + 0", "c = a - 2", "c = a * 2", "c = a", "c = 2"]),
        ("return a // b", ["return a // b + 1", "return a // b - 1", "return a % b"]),
        ("c = a and b", ["c = a or b", "c = b", "c = a"]),
        ("c = min(a, b)", ["c = max(a, b)", "c = min(b, a)", "c = min(b)", "c = min(a)"]),
        ("c = abs(a)", ["c = a", "c += abs(a)", "c = abs(a)", "c = abs(c)", "c = abs(b)"]),
        ("c += a", ["c -= a", "c *= a", "c = a"]),
        ("return a[0] / b[1]", ["return a[1] / b[1]"]),
        (
            "return a.ljust(2)",
            ["return a.ljust(3)", "return a.ljust(1)", "return a.ljust(0)", "return a.rjust(2)"],
        ),
        ("return True", ["return False"]),
        ("a.sort()", ["a"]),
        ("pass", []),
    ],
)
def test_what_is_tried_first(line: str, expected: list[str]) -> None:
    assert changed(line)[: len(expected)] == expected


def test_conditions_are_negated_and_names_stay_in_scope() -> None:
    assert "if not a:" in changed("if a:", after="        pass\n")
    assert not any("print" in text and "other" in text for text in changed("print(a)", after="other = 1\n"))


def test_a_statement_moves_behind_its_block() -> None:
    source = "def f(a):\n    for b in a:\n        g(b)\n        return b\n    return a\n"
    moved = "def f(a):\n    for b in a:\n        g(b)\n    return b\n    return a\n"
    assert moved in [mutation.source for mutation in mutations(source, 4)]


def test_a_base_case_is_added() -> None:
    source = 'def f(a):\n    """Text."""\n    return a[0]\n'
    guarded = source.replace("    return", "    if not a:\n        return None\n    return")
    (found,) = [mutation for mutation in mutations(source, 3) if mutation.source == guarded]
    assert (found.before, found.after) == ("", "if not a: return None")


LINES = [
    "é = 'ä' if a < b else b",
    "return {a: b}",
    "x, y = b, a",
    "self.a = self.b[a:b]",
    "while a: break",
    "del a",
]
lines = st.lists(st.sampled_from(LINES), min_size=1, max_size=4)


@given(lines, st.integers(0, 6))
def test_everything_parses_and_is_new_and_always_the_same(body: list[str], number: int) -> None:
    source = "def f(self, a, b):\n" + "".join(f"    {line}\n" for line in body)
    found = [mutation.source for mutation in mutations(source, number)]
    assert all(parse_python(text) for text in found)
    assert source not in found
    assert len(set(found)) == len(found)
    assert found == [mutation.source for mutation in mutations(source, number)]
    assert list(mutations("def (", number)) == []

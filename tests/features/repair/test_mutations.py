"""Small changes to one line: what is tried, in which order, and that it always parses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.features.repair.mutations import mutations
from headgate.reading import parse_python


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
        ("c = abs(a)", ["c = a", "c += abs(a)"]),
        ("c += a", ["c -= a", "c *= a", "c = a"]),
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


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a * b[a] / b[c]", "return a * b[c] / b[a]"),
        ("c = a // b", "c = (a + b - 1) // b"),
        ("c = copy.copy(a)", "c = copy.deepcopy(a)"),
        ("c = a.pop()", "c = a.pop(0)"),
        ("c = a.pop(0)", "c = a.pop()"),
        ("a.items = b", "a.items = list(b)"),
    ],
)
def test_what_is_tried_as_well(line: str, expected: str) -> None:
    assert expected in changed(line)


def test_names_come_after_everything_but_base_cases() -> None:
    found = list(mutations("def f(a, b):\n    return a + b\n", 2))
    ranks = [mutation.rank for mutation in found]
    assert ranks == sorted(ranks)
    (name,) = [each.rank for each in found if each.source.endswith("return b + b\n")]
    (removed,) = [each.rank for each in found if each.after == "removed"]
    assert removed < name


CLASS = """\
class Cache:
    def put(self, key, value):
        self.items[key] = value
        self.items.move_to_end(key)
        self.log(value)

    def get(self, key):
        found = self.items[key]
        return found
"""
ORDER = "def f(a):\n    g(a)\n    h(a)\n    if a:\n        raise ValueError\n"
CONDITION = "def f(a):\n    if a:\n        # always\n        g(a)\n        h(a)\n    return a\n"
TWICE = "def f(a):\n    total = sum(a)\n    return [b / total for b in a]\n"
LOOP = "def f(a):\n    for b in a:\n        g(b)\n        return b\n    return a\n"


@pytest.mark.parametrize(
    ("source", "line", "changed"),
    [
        # What another method does may be missing.
        (CLASS, 9, CLASS.replace("        return", "        self.items.move_to_end(key)\n        return")),
        # The order of statements changes.
        (ORDER, 4, "def f(a):\n    g(a)\n    if a:\n        raise ValueError\n    h(a)\n"),
        (ORDER, 4, "def f(a):\n    if a:\n        raise ValueError\n    g(a)\n    h(a)\n"),
        (ORDER, 2, "def f(a):\n    h(a)\n    g(a)\n    if a:\n        raise ValueError\n"),
        (ORDER, 2, "def f(a):\n    h(a)\n    if a:\n        raise ValueError\n    g(a)\n"),
        # A condition and a statement are removed.
        (CONDITION, 2, "def f(a):\n    # always\n    g(a)\n    h(a)\n    return a\n"),
        (CONDITION, 5, CONDITION.replace("        h(a)\n", "")),
        # An argument that is read twice becomes a list.
        (TWICE, 2, TWICE.replace("    total =", "    a = list(a)\n    total =")),
        # A statement moves behind its block.
        (LOOP, 4, "def f(a):\n    for b in a:\n        g(b)\n    return b\n    return a\n"),
    ],
)
def test_what_is_tried_with_statements(source: str, line: int, changed: str) -> None:
    texts = [mutation.source for mutation in mutations(source, line)]
    assert changed in texts
    assert not any("self.log(value)\n        return" in text for text in texts), "`value` is not known there"


def test_a_base_case_is_added() -> None:
    source = 'def f(a):\n    """Text."""\n    return a[0]\n'
    guarded = source.replace("    return", "    if not a:\n        return None\n    return")
    (found,) = [mutation for mutation in mutations(source, 3) if mutation.source == guarded]
    assert (found.before, found.after) == ("", "if not a: return None")


def statement_changes(source: str, line: int, after: str) -> list[str]:
    """The files that come of one kind of change."""
    return [mutation.source for mutation in mutations(source, line) if mutation.after == after]


def test_without_its_condition_an_elif_is_an_else() -> None:
    source = "def f(a, b):\n    if a:\n        g()\n    elif b:\n        h()\n"
    assert statement_changes(source, 4, "the condition removed") == [source.replace("elif b:", "else:")]
    short = "def f(a, b):\n    if a: g()\n    elif b: h()\n"
    expected = "def f(a, b):\n    if a: g()\n    else:\n        h()\n"
    assert statement_changes(short, 3, "the condition removed") == [expected]


def test_a_string_keeps_its_value_where_its_statement_gets_another_indentation() -> None:
    text = 'x = """\nfirst\n        second"""\n'
    source = f"def f(a):\n    if a:\n        g()\n        {text}    return a\n"
    assert statement_changes(source, 4, "moved up") == [
        f"def f(a):\n    if a:\n        {text}        g()\n    return a\n"
    ]
    assert statement_changes(source, 4, "moved behind the block") == [
        f"def f(a):\n    if a:\n        g()\n    {text}    return a\n"
    ]
    assert statement_changes(source, 2, "the condition removed") == [
        f"def f(a):\n    g()\n    {text}    return a\n"
    ]


def test_tabs_stay_tabs() -> None:
    source = "def f(a):\n\tif a:\n\t\tg()\n\t\th()\n\treturn a\n"
    moved = "def f(a):\n\tif a:\n\t\tg()\n\th()\n\treturn a\n"
    assert statement_changes(source, 4, "moved behind the block") == [moved]
    assert statement_changes(source, 2, "a = list(a)") == [
        source.replace("\tif a:", "\ta = list(a)\n\tif a:")
    ]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def f(a):\n    for b in a:\n        if b: c += 1\n", 3),
        ("def f(a):\n    g(a); c += 1\n    return c\n", 2),
    ],
)
def test_a_statement_that_shares_its_line_stays(source: str, line: int) -> None:
    found = list(mutations(source, line))
    assert found
    assert "c += 1" not in [mutation.before for mutation in found]
    assert not [mutation for mutation in found if mutation.after == "removed"]


def test_what_python_would_refuse_is_not_tried() -> None:
    source = "def f(a):\n    for b in a:\n        g(b)\n        break\n    return a\n"
    assert statement_changes(source, 4, "moved behind the block") == []
    loop = "def f(a):\n    for b in a:\n        if b: continue\n\ndef g(a, b):\n    return a\n"
    assert statement_changes(loop, 6, "if b:\n    continue") == []


def test_operators_without_a_likely_other_one_and_a_mark_at_the_beginning_do_no_harm() -> None:
    assert "a = b" in changed("a @= b")
    marked = [mutation.source for mutation in mutations("\ufeffab < c\n", 1)]
    assert marked[0] == "\ufeffab <= c\n"


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


def test_what_reaches_files_and_processes_is_not_copied() -> None:
    body = "".join(f"    {line}\n" for line in ("shutil.rmtree(a)", "a.unlink()", "print(a)", "b.clear()"))
    source = f"import shutil\n\n\ndef clean(a, b):\n{body}\n\ndef keep(a, b):\n    return a\n"
    added = {mutation.after for mutation in mutations(source, 12) if not mutation.before}
    assert "b.clear()" in added
    assert not added & {"shutil.rmtree(a)", "a.unlink()", "print(a)"}

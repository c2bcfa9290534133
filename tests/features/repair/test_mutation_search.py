"""Small changes as they are written: line ends, leftovers, and code that reaches outside."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.checks import Suspect
from headgate.features.repair.mutation_search import Candidate, with_line_ends
from headgate.features.repair.mutations import Mutation
from headgate.features.repair.outside_effects import outside_modules, reaches_out
from headgate.tree import FileChange

_LINES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "", "  c"]), st.sampled_from(["\n", "\r\n"])), min_size=1
)


@given(_LINES, _LINES, st.data())
def test_lines_that_stay_keep_their_ends(
    lines: list[tuple[str, str]], new: list[tuple[str, str]], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    before = "".join(text + end for text, end in lines)
    plain = before.replace("\r\n", "\n").split("\n")
    after = "\n".join([*plain[:first], *(text for text, _ in new), *plain[last:]])
    written = with_line_ends(before, after)
    assert written.replace("\r\n", "\n") == after
    if {end for _, end in lines} == {"\r\n"}:
        assert written == after.replace("\n", "\r\n")
    assert with_line_ends(before, before.replace("\r\n", "\n")) == before


def test_one_line_of_a_file_with_mixed_ends() -> None:
    before = "a\r\nb\nc\r\nd\n"
    assert with_line_ends(before, "a\nb\nC\nd\n") == "a\r\nb\nC\r\nd\n"
    assert with_line_ends(before, "a\nB\nc\nd\n") == "a\r\nB\nc\r\nd\n"


def test_what_leaves_dead_code_behind_comes_last() -> None:
    def candidate(after: str, rank: int) -> Candidate:
        change = FileChange("a.py", b"def f():\n    return 1\n", after.encode())
        return Candidate((Suspect("a.py"),), (Mutation(after, "", "", rank),), (change,), after)

    dead = candidate("def f():\n    return 2\n    return 1\n", 0)
    clean = candidate("def f():\n    return 2\n", 5)
    assert min([dead, clean], key=lambda each: each.rank) is clean


@pytest.mark.parametrize(
    ("source", "reaches"),
    [
        ("import os\nos.remove(name)", True),
        ("import os as o\no.replace(a, b)", True),
        ("from shutil import rmtree\nrmtree(root)", True),
        ("from pathlib import Path\nPath(name).unlink()", True),
        ("log.append(path.unlink())", True),
        ("self.client.delete(name)", True),
        ("self.last = subprocess.run(['ls'])", True),
        ("open(name, 'w')", True),
        ("if eval(text): pass", True),
        ("import os\nos.path.join(a, b)", False),
        ("from os.path import join\njoin(a, b)", False),
        ("items.remove(1)", False),
        ("text.replace('a', 'b')", False),
        ("import math\nmath.floor(2.5)", False),
    ],
)
def test_what_reaches_outside_the_program(source: str, reaches: bool) -> None:
    module = ast.parse(source)
    assert reaches_out(module, outside_modules(module)) is reaches

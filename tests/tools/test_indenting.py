"""Replacements whose first line has left its indentation out: the lines below it are indented to fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.tools.editing import edit_text

CODE = """\
import os


def total(items):
    x = sum(items)
    if x > 3:
        x = 3
    return x


class Box:
    def size(self):
        return self.n
"""


def edit(text: str, old: str, new: str, name: str = "a.py", **options: bool) -> str:
    return edit_text(text, old, new, name=name, **options).text


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        pytest.param(
            "return x", "y = x + 1\nreturn y", "    y = x + 1\n    return y\n", id="written from column 0"
        ),
        pytest.param(
            "return x",
            "y = x + 1\n    return y",
            "    y = x + 1\n    return y\n",
            id="written as in the file",
        ),
        pytest.param(
            "return x",
            "if x:\n    return x\nreturn 0",
            "    if x:\n        return x\n    return 0\n",
            id="a block, from column 0",
        ),
        pytest.param(
            "return x",
            "if x:\n        return x\n    return 0",
            "    if x:\n        return x\n    return 0\n",
            id="a block, as in the file",
        ),
        pytest.param("return x", "y = x\n\nreturn y", "    y = x\n\n    return y\n", id="an empty line"),
        pytest.param("return x\n", "y = x\nreturn y\n", "    y = x\n    return y\n", id="whole lines"),
        pytest.param(
            "return x",
            "def inner():\n    return x\nreturn inner()",
            "    def inner():\n        return x\n    return inner()\n",
            id="a nested function first",
        ),
        pytest.param(
            "return x",
            "y = x\ndef inner():\n    return y\nreturn inner()",
            "    y = x\n    def inner():\n        return y\n    return inner()\n",
            id="a nested function in the middle",
        ),
        pytest.param(
            "return x",
            "return x\n\n\ndef other():\n    return 2",
            "    return x\n\n\ndef other():\n    return 2\n",
            id="another function below",
        ),
        pytest.param(
            "return x",
            "y = x\nreturn y\n\n\ndef other():\n    return 2",
            "    y = x\n    return y\n\n\ndef other():\n    return 2\n",
            id="more lines and another function below",
        ),
    ],
)
def test_the_last_line_of_a_function(old: str, new: str, result: str) -> None:
    assert edit(CODE, old, new) == CODE.replace("    return x\n", result)


def test_the_beginning_of_a_line() -> None:
    edited = edit(CODE, "x = sum", "items = list(items)\nx = sum")
    assert edited == CODE.replace("    x = sum", "    items = list(items)\n    x = sum")


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("x = 3", "x = 3\nprint(x)", "        x = 3\n        print(x)\n"),
        ("x = 3", "x = 3\n    print(x)", "        x = 3\n    print(x)\n"),
        ("x = 3", "x = 3\n        print(x)", "        x = 3\n        print(x)\n"),
        ("x = 3", "for i in items:\n    x = i", "        for i in items:\n            x = i\n"),
    ],
)
def test_a_nested_block(old: str, new: str, result: str) -> None:
    assert edit(CODE, old, new) == CODE.replace("        x = 3\n", result)


def test_a_method_below_a_method() -> None:
    edited = edit(CODE, "return self.n", "return self.n\n\ndef grow(self):\n    self.n += 1")
    assert edited == CODE + "\n    def grow(self):\n        self.n += 1\n"
    edited = edit(CODE, "return self.n", "return self.n\n\n    def grow(self):\n        self.n += 1")
    assert edited == CODE + "\n    def grow(self):\n        self.n += 1\n"


def test_a_main_block_below_a_method() -> None:
    edited = edit(CODE, "return self.n", 'return self.n\n\n\nif __name__ == "__main__":\n    Box()')
    assert edited == CODE + '\n\nif __name__ == "__main__":\n    Box()\n'


def test_a_definition_that_does_not_end_its_block_is_nested() -> None:
    edited = edit(CODE, "x = sum(items)", "x = sum(items)\n\ndef cap(n):\n    return n")
    assert edited == CODE.replace(
        "    x = sum(items)\n", "    x = sum(items)\n\n    def cap(n):\n        return n\n"
    )


def test_tabs() -> None:
    text = "def f():\n\tif a:\n\t\treturn 1\n"
    assert edit(text, "return 1", "b = 1\nreturn b") == "def f():\n\tif a:\n\t\tb = 1\n\t\treturn b\n"
    assert edit(text, "return 1", "b = 1\n\t\treturn b") == "def f():\n\tif a:\n\t\tb = 1\n\t\treturn b\n"
    spaces = "if b:\n    return 1\nreturn 2"
    assert edit(text, "return 1", spaces) == ("def f():\n\tif a:\n\t\tif b:\n\t\t\treturn 1\n\t\treturn 2\n")


def test_windows_line_endings() -> None:
    text = "def f():\r\n    return 1\r\n"
    for new in ("a = 1\nreturn a", "a = 1\r\nreturn a", "a = 1\r\n    return a"):
        assert edit(text, "return 1", new) == "def f():\r\n    a = 1\r\n    return a\r\n"


def test_every_place_by_its_own_indentation() -> None:
    text = "def f():\n    go()\n    if a:\n        go()\ngo()\n"
    assert edit(text, "go()", "stop()\ngo()", replace_all=True) == (
        "def f():\n    stop()\n    go()\n    if a:\n        stop()\n        go()\nstop()\ngo()\n"
    )


def test_other_languages() -> None:
    yaml = "jobs:\n  test:\n    name: a\n    steps: []\n"
    assert edit(yaml, "name: a", "name: a\nneeds: b", "ci.yml") == yaml.replace(
        "    name: a\n", "    name: a\n    needs: b\n"
    )
    assert edit(yaml, "name: a", "name: a\n    needs: b", "ci.yml") == yaml.replace(
        "    name: a\n", "    name: a\n    needs: b\n"
    )
    script = "function f() {\n  return 1;\n}\n"
    assert edit(script, "return 1;", "if (a) {\n  return 2;\n}\nreturn 1;", "a.js") == (
        "function f() {\n  if (a) {\n    return 2;\n  }\n  return 1;\n}\n"
    )
    make = "all:\n\techo a\n"
    assert edit(make, "echo a", "echo a\necho b", "Makefile") == "all:\n\techo a\n\techo b\n"


def test_the_middle_of_a_line_is_taken_literally() -> None:
    assert edit("    a = b\n", "b", "(\nc)", "a.txt") == "    a = (\nc)\n"
    assert edit("a = b\n", "a", "x\ny", "a.txt") == "x\ny = b\n"


def test_what_did_not_parse_before_is_judged_by_its_look() -> None:
    text = "def f(:\n    return 1\n"
    assert edit(text, "return 1", "a = 1\nreturn a") == "def f(:\n    a = 1\n    return a\n"


def test_the_model_is_told() -> None:
    edited = edit_text(CODE, "return x", "y = x\nreturn y", name="a.py")
    assert edited.note.startswith("Note: the new lines after the first were indented")
    assert edit_text(CODE, "return x", "y = x\n    return y", name="a.py").note == ""


def test_found_without_its_spacing() -> None:
    text = "def f():\n    return 1  +  2\n"
    for new in ("a = 3\nreturn a", "a = 3\n    return a"):
        assert edit(text, "return 1 + 2", new) == "def f():\n    a = 3\n    return a\n"


BLOCKS = st.sampled_from(["y = 1", "if y:\n    y = 2", "for i in y:\n    y = 3\n\ny = 4", "y = [\n    1,\n]"])


@given(st.sampled_from(["    ", "\t", "  ", "        "]), BLOCKS, BLOCKS, st.booleans())
def test_both_ways_to_write_it_give_the_same(unit: str, one: str, two: str, as_in_file: bool) -> None:
    new = f"{one}\n{two}".replace("    ", unit)
    text = f"def f(y):\n{unit}y = 0\n{unit}z = y\n"
    shown = "\n".join(unit + line if line.strip() else line for line in new.split("\n"))
    written = shown.removeprefix(unit) if as_in_file else new
    assert edit(text, "y = 0", written) == f"def f(y):\n{shown}\n{unit}z = y\n"

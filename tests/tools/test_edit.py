"""`edit_file`: the one place that can be meant, or the reason why not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from memory_workspace import MemoryWorkspace, call

from headgate.errors import ToolArgsInvalid, ToolDenied, ToolError, ToolFailed
from headgate.tools import edit_file
from headgate.tools.editing import Edited, edit_text
from headgate.tree import FileChange

DATA = yaml.safe_load(Path(__file__).with_name("edits.yaml").read_text("utf-8"))
CODE = DATA["texts"]["greeter"]


def edit(text: str, old: str, new: str, *, name: str = "the file", replace_all: bool = False) -> str:
    return edit_text(text, old, new, replace_all=replace_all, name=name).text


def refusal(text: str, old: str, new: str, **options: bool) -> str:
    with pytest.raises(ToolFailed) as caught:
        edit_text(text, old, new, **options)
    return str(caught.value)


@pytest.mark.parametrize("case", DATA["cases"])
def test_case(case: dict[str, Any]) -> None:
    text = DATA["texts"][case["in"]] if "in" in case else case["text"]
    given, options = (text, case["old"], case["new"]), {"replace_all": case.get("all", False)}
    if "told" in case:
        assert case["told"] in refusal(*given, **options)
        return
    edited = edit_text(*given, **options, name=case.get("file", "the file"))
    expected = text.replace(*case["changes"]) if "changes" in case else case["gives"]
    assert (edited.text, edited.how) == (expected, case.get("how", ""))


def test_where_an_edit_was() -> None:
    assert edit_text("a = 1\nb = 2\n", "2", "3") == Edited("a = 1\nb = 3\n", ((2, 2),), 2, 2)
    assert edit_text("a\nb\nc\n", "b\n", "") == Edited("a\nc\n", ((2, 2),), 2, 1)
    edited = edit_text("a b a\nc\na\n", "a", "x\ny", replace_all=True)
    assert edited == Edited("x\ny b x\ny\nc\nx\ny\n", ((1, 1), (1, 1), (3, 3)), 1, 2)
    assert edit("a\nb\n", "b", "c", replace_all=True) == "a\nc\n"
    assert edit("a" * 2000, "a", "b", replace_all=True) == "b" * 2000


def test_an_insertion_made_twice_is_noted() -> None:
    once = edit("import os\n\nmain()\n", "import os\n", "import os\nimport sys\n")
    twice = edit_text(once, "import os\n", "import os\nimport sys\n")
    assert twice.note == "Note: the new text was already at line 1, so it may now be there twice."


def test_bytes_that_are_not_utf8_survive() -> None:
    text = b"name = '\xe9t\xe9'\nage = 1\n".decode("utf-8", "surrogateescape")
    shown = "name = '\ufffdt\ufffd'\nage = 1\n"
    edited = edit(text, shown, shown.replace("1", "2"))
    assert edited.encode("utf-8", "surrogateescape") == b"name = '\xe9t\xe9'\nage = 2\n"
    assert "bytes that are not UTF-8" in refusal(text, shown, "names = '\ufffdt\ufffd'\nage = 1\n")


def test_counting_and_looking_are_bounded() -> None:
    assert "occurs at least 1000 times" in refusal("a" * 2000, "a", "b")
    assert "Too many places look like this" in refusal("x\n" * 3000, "  x\n  x\n", "  y\n")


@pytest.mark.parametrize("form", ["{}: {}", "{} | {}", "{:>6}\t{}", "{}:{}", "{:4}→{}"])
def test_line_numbers_are_dropped(form: str) -> None:
    old = "\n".join(form.format(n, line) for n, line in enumerate(CODE.splitlines()[2:4], 3))
    edited = edit_text(CODE, old, "        return 1")
    assert edited.text == CODE.replace(
        '        name = self.name\n        return f"hello {name}"', "        return 1"
    )
    assert edited.how == "line numbers"


def test_windows_line_endings() -> None:
    text = "def f():\r\n    return 1\r\n"
    for new in ("a = 1\nreturn a", "a = 1\r\nreturn a", "a = 1\r\n    return a"):
        assert edit(text, "return 1", new, name="a.py") == "def f():\r\n    a = 1\r\n    return a\r\n"


def test_the_model_is_told_what_was_indented() -> None:
    module = DATA["texts"]["module"]
    edited = edit_text(module, "return x", "y = x\nreturn y", name="a.py")
    assert edited.note.startswith("Note: the new lines after the first were indented")
    assert edit_text(module, "return x", "y = x\n    return y", name="a.py").note == ""


def test_what_is_shown_is_bounded() -> None:
    text = "".join(f"value_{n} = {n}\n" for n in range(30_000))
    old = "".join(f"value_{n} = {n + 1}\n" for n in range(10_000, 11_000))
    with pytest.raises(ToolFailed) as caught:
        edit_text(text, old, "x\n")
    assert "+ 10001: value_10000 = 10000" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 25


class TestTool:
    def test_result(self) -> None:
        workspace = MemoryWorkspace({"src/a.py": CODE}, modes={"src/a.py": 0o755})
        old, new = 'return f"bye {name}"', 'print("bye")\nreturn None'
        outcome = call(edit_file, workspace, path="./src/a.py", old=old, new=new)
        after = CODE.replace(old, 'print("bye")\n        return None').encode()
        assert outcome.changes == (FileChange("src/a.py", CODE.encode(), after),)
        assert outcome.text == (
            "Edited src/a.py: replaced line 8, now lines 8-9.\n"
            "6:     def bye(self):\n"
            "7:         name = self.name\n"
            '8:         print("bye")\n'
            "9:         return None\n"
            "Note: the new lines after the first were indented to match the replaced line."
        )

    def test_how_and_warning(self) -> None:
        workspace = MemoryWorkspace({"a.py": "def f():\n    return 1\n"})
        outcome = call(
            edit_file, workspace, path="a.py", old="  def f():\n      return 1\n", new="  def f()\n"
        )
        assert outcome.text == (
            "Edited a.py: replaced lines 1-2, now line 1 (matched ignoring indentation).\n"
            "1: def f()\n"
            "Warning: a.py no longer parses: line 1: expected ':'"
        )

    def test_a_long_excerpt_is_cut(self) -> None:
        workspace = MemoryWorkspace({"a.txt": "x\n"})
        text = "".join(f"{n}\n" for n in range(100))
        outcome = call(edit_file, workspace, path="a.txt", old="x\n", new=text)
        assert len(outcome.text.splitlines()) == 13

    def test_creates_a_missing_file(self) -> None:
        workspace = MemoryWorkspace()
        outcome = call(edit_file, workspace, path="new/a.txt", old="", new="one\ntwo\n")
        assert workspace.data == {"new/a.txt": b"one\ntwo\n"}
        assert outcome.text == "Created new/a.txt: 2 lines."

    def test_fills_an_empty_file(self) -> None:
        workspace = MemoryWorkspace({"a.txt": ""})
        outcome = call(edit_file, workspace, path="a.txt", old="", new="one")
        assert outcome.changes == (FileChange("a.txt", b"", b"one"),)

    def test_an_empty_old_for_a_file_with_content(self) -> None:
        with pytest.raises(ToolFailed, match="Use write_file to replace the whole file"):
            call(edit_file, MemoryWorkspace({"a.txt": "x"}), path="a.txt", old="", new="one")

    @pytest.mark.parametrize(
        ("path", "old", "new", "error", "told"),
        [
            ("a.txt", "same", "same", ToolArgsInvalid, "are the same"),
            ("missing.txt", "a", "b", ToolFailed, "does not exist"),
            ("../x", "a", "b", ToolDenied, "outside"),
            ("bin", "a", "b", ToolFailed, "bin is a binary file"),
            ("a.txt", "x", "\ud800", ToolArgsInvalid, "surrogate"),
            ("a.txt", "x", "\0", ToolArgsInvalid, "NUL"),
            ("new.txt", "", "\udcff", ToolArgsInvalid, "surrogate"),
            ("dir", "", "x", ToolFailed, "is a directory"),
            ("odd\nname", "a", "b", ToolFailed, '`old` is not in "odd\\nname"'),
        ],
    )
    def test_refusals(self, path: str, old: str, new: str, error: type[ToolError], told: str) -> None:
        files: dict[str, bytes | str] = {"a.txt": "x", "bin": b"a\0b", "dir/f": "", "odd\nname": "zzz\n"}
        workspace = MemoryWorkspace(files)
        before = dict(workspace.data)
        with pytest.raises(error) as caught:
            call(edit_file, workspace, path=path, old=old, new=new)
        assert told in str(caught.value)
        assert workspace.data == before

    def test_what_the_model_is_shown(self) -> None:
        assert edit_file.spec.category == "write"
        assert edit_file.usage() == "path, old, new, replace_all?"


LINES = st.lists(st.sampled_from(["a", "b", "  a", "", "  ", "x = 1", "\ta", "'q'", "é"]), max_size=12)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@given(TEXTS, TEXTS, TEXTS)
def test_a_unique_text_is_replaced_literally(before: str, old: str, after: str) -> None:
    text = before + old + after
    assume(old and sum(text.startswith(old, place) for place in range(len(text))) == 1)
    assert edit(text, old, "new\ntext") == before + "new\ntext" + after


@given(TEXTS, TEXTS, TEXTS, st.booleans())
def test_crlf_and_lf_files_are_edited_alike(text: str, old: str, new: str, replace_all: bool) -> None:
    try:
        edited = edit(text, old, new, replace_all=replace_all)
    except ToolError as error:
        with pytest.raises(type(error)):
            edit(text.replace("\n", "\r\n"), old, new, replace_all=replace_all)
    else:
        if "\n" in text:
            assert edit(text.replace("\n", "\r\n"), old, new, replace_all=replace_all) == edited.replace(
                "\n", "\r\n"
            )


@given(st.text(max_size=80), st.text(max_size=20), st.text(max_size=20), st.booleans())
def test_any_text_is_edited_or_refused(text: str, old: str, new: str, replace_all: bool) -> None:
    try:
        edited = edit_text(text, old, new, replace_all=replace_all)
    except (ToolFailed, ToolArgsInvalid):
        return
    assert edited.text != text


@given(LINES, LINES, LINES, st.sampled_from(["  ", "    ", "\t"]))
def test_a_shifted_block_is_found_and_its_replacement_shifted(
    before: list[str], block: list[str], after: list[str], shift: str
) -> None:
    block = ["start", *block, "end"]
    text = "\n".join([*before, *(shift + line if line.strip() else line for line in block), *after]) + "\n"
    edited = edit(text, "\n".join(block) + "\n", "\n".join([*block, "more", "  deeper"]) + "\n")
    inserted = [shift + "more", shift + "  deeper"]
    kept = text.split("\n")
    place = len(before) + len(block)
    assert edited.split("\n") == kept[:place] + inserted + kept[place:]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_around_an_edit_survive(before: bytes, after: bytes) -> None:
    assume(b"unique" not in before + after)
    text = (before + b"\nunique line\n" + after).decode("utf-8", "surrogateescape")
    result = edit(text, "unique line", "other")
    assert result.encode("utf-8", "surrogateescape") == before + b"\nother\n" + after


BLOCKS = st.sampled_from(["y = 1", "if y:\n    y = 2", "for i in y:\n    y = 3\n\ny = 4", "y = [\n    1,\n]"])


@given(st.sampled_from(["    ", "\t", "  ", "        "]), BLOCKS, BLOCKS, st.booleans())
def test_both_ways_to_write_it_give_the_same(unit: str, one: str, two: str, as_in_file: bool) -> None:
    new = f"{one}\n{two}".replace("    ", unit)
    text = f"def f(y):\n{unit}y = 0\n{unit}z = y\n"
    shown = "\n".join(unit + line if line.strip() else line for line in new.split("\n"))
    written = shown.removeprefix(unit) if as_in_file else new
    assert edit(text, "y = 0", written, name="a.py") == f"def f(y):\n{shown}\n{unit}z = y\n"

"""`edit_file`: the one place that can be meant, or the reason why not."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from memory_workspace import MemoryWorkspace, call

from headgate.errors import ToolArgsInvalid, ToolDenied, ToolError, ToolFailed
from headgate.tools import edit_file
from headgate.tools.editing import Edited, edit_text
from headgate.tree import FileChange

CODE = """\
class Greeter:
    def hello(self):
        name = self.name
        return f"hello {name}"

    def bye(self):
        name = self.name
        return f"bye {name}"
"""


def edit(text: str, old: str, new: str, **options: bool) -> str:
    return edit_text(text, old, new, **options).text


def refusal(text: str, old: str, new: str, **options: bool) -> str:
    with pytest.raises(ToolFailed) as caught:
        edit_text(text, old, new, **options)
    return str(caught.value)


class TestExact:
    def test_part_of_a_line(self) -> None:
        assert edit_text("a = 1\nb = 2\n", "2", "3") == Edited("a = 1\nb = 3\n", ((2, 2),), 2, 2)

    def test_deletion(self) -> None:
        assert edit_text("a\nb\nc\n", "b\n", "") == Edited("a\nc\n", ((2, 2),), 2, 1)
        assert edit("a\nb\nc\n", "b", "") == "a\n\nc\n"
        assert edit("only", "only", "") == ""

    def test_the_final_newline_stays_as_it_is(self) -> None:
        assert edit("a\nb", "a", "x") == "x\nb"
        assert edit("a\nb", "b", "x\ny") == "a\nx\ny"

    def test_the_final_newline_changes_when_the_edit_covers_it(self) -> None:
        assert edit("a\nb\n", "b\n", "c") == "a\nc"
        assert edit("a\nb", "b", "c\n") == "a\nc\n"

    def test_several_places_are_refused_and_listed(self) -> None:
        assert refusal(CODE, "        name = self.name\n", "x\n") == (
            "`old` occurs 2 times in the file: lines 3 and 7. "
            "Add surrounding lines so that it occurs once, or set replace_all."
        )

    def test_overlapping_places_are_several(self) -> None:
        assert "occurs 2 times" in refusal("aaa\n", "aa", "b")

    def test_counting_is_bounded(self) -> None:
        assert "occurs at least 1000 times" in refusal("a" * 2000, "a", "b")
        assert edit("a" * 2000, "a", "b", replace_all=True) == "b" * 2000

    def test_replace_all(self) -> None:
        edited = edit_text("a b a\nc\na\n", "a", "x\ny", replace_all=True)
        assert edited == Edited("x\ny b x\ny\nc\nx\ny\n", ((1, 1), (1, 1), (3, 3)), 1, 2)

    def test_an_insertion_made_twice_is_noted(self) -> None:
        once = edit("import os\n\nmain()\n", "import os\n", "import os\nimport sys\n")
        twice = edit_text(once, "import os\n", "import os\nimport sys\n")
        assert twice.note == "Note: the new text was already at line 1, so it may now be there twice."


class TestLineEndings:
    def test_crlf_is_kept(self) -> None:
        assert edit("a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\ny\n") == "a\r\nx\r\ny\r\nc\r\n"
        assert edit("a\r\nb\r\n", "b", "x\ny") == "a\r\nx\r\ny\r\n"
        assert edit("a\nb\n", "a\r\nb\r\n", "x\r\ny\r\n") == "x\ny\n"

    def test_mixed_endings_stay_where_nothing_changes(self) -> None:
        assert edit("a\r\nb\nc\rd\r\n", "b\nc", "b\nx\nc") == "a\r\nb\nx\r\nc\rd\r\n"

    def test_an_edit_of_the_endings_themselves(self) -> None:
        assert edit("a\r\nb\r\n", "a\r\n", "a\n") == "a\nb\r\n"
        assert "only in line endings" in refusal("a\nb\n", "a\r\n", "a\n")

    def test_byte_order_mark(self) -> None:
        assert edit("\ufeffa\nb\n", "a\n", "x\n") == "\ufeffx\nb\n"
        assert edit("\ufeffa\nb\n", "\ufeffa\n", "\ufeffx\n") == "\ufeffx\nb\n"


class TestTolerance:
    def test_trailing_whitespace(self) -> None:
        edited = edit_text("if x:  \n    y()\t\nz\n", "if x:\n    y()\n", "if x:\n    w()\n")
        assert (edited.text, edited.how) == ("if x:  \n    w()\nz\n", "trailing whitespace")

    def test_missing_final_newline(self) -> None:
        assert edit("a\nb", "a\nb\n", "a\nc\n") == "a\nc"

    def test_shifted_right(self) -> None:
        old = "def bye(self):\n    name = self.name\n"
        new = "def bye(self):\n    # leave\n\n    name = self.name.title()\n"
        edited = edit_text(CODE, old, new)
        shifted = "    def bye(self):\n        # leave\n\n        name = self.name.title()\n"
        assert edited.text == CODE.replace("    def bye(self):\n        name = self.name\n", shifted)
        assert edited.how == "indentation"

    def test_spaces_for_tabs(self) -> None:
        old, new = (
            "def f():\n    if x:\n        y()\n",
            "def f():\n    if x:\n        for z in x:\n            y()\n",
        )
        assert (
            edit("def f():\n\tif x:\n\t\ty()\n", old, new)
            == "def f():\n\tif x:\n\t\tfor z in x:\n\t\t\ty()\n"
        )

    def test_indentation_that_cannot_be_carried_over(self) -> None:
        told = refusal("  a:\n    b\n", "      a:\n        b\n", "      a:\n  c\n")
        assert "the indentation of the new line `c` does not fit there" in told
        assert told.endswith("1:   a:\n2:     b")

    def test_lines_shifted_by_different_amounts_do_not_match(self) -> None:
        told = refusal(
            "def f():\n    a()\n    if b:\n        c()\n", "a()\n    if b:\n            c()\n", "d()\n"
        )
        assert told.startswith("`old` is not in the file; nothing was changed. The nearest lines")

    def test_spaces_inside_lines(self) -> None:
        edited = edit_text("x  =  f( 1 )\ny = 2\n", "x = f( 1 )\ny = 2\n", "x = f( 1 )\ny = 3\n")
        assert (edited.text, edited.how) == ("x  =  f( 1 )\ny = 3\n", "whitespace")

    def test_typography(self) -> None:
        text = "It’s “so” – he\u00a0said…\nnext\n"
        edited = edit_text(text, 'It\'s "so" - he said...\nnext\n', 'It\'s "so" - he said...\nlast\n')
        assert edited.text == "It’s “so” – he\u00a0said…\nlast\n"
        assert edited.how == "whitespace and typographic characters"

    def test_bytes_that_are_not_utf8_survive(self) -> None:
        text = b"name = '\xe9t\xe9'\nage = 1\n".decode("utf-8", "surrogateescape")
        shown = "name = '\ufffdt\ufffd'\nage = 1\n"
        edited = edit(text, shown, shown.replace("1", "2"))
        assert edited.encode("utf-8", "surrogateescape") == b"name = '\xe9t\xe9'\nage = 2\n"
        assert "bytes that are not UTF-8" in refusal(text, shown, "names = '\ufffdt\ufffd'\nage = 1\n")

    def test_several_tolerant_places(self) -> None:
        text = "  a(1)\n  b()\n    a(1)\n    b()\n"
        told = refusal(text, "\ta(1)\n\tb()\n", "\tc()\n")
        assert "`old` matches 2 places in the file ignoring indentation: lines 1 and 3." in told
        told = refusal(text, "\ta(1)\n\tb()\n", "\tc()\n", replace_all=True)
        assert "They differ" in told

    def test_a_text_of_equal_lines(self) -> None:
        assert "Too many places look like this" in refusal("x\n" * 3000, "  x\n  x\n", "  y\n")

    def test_replace_all_of_alike_places(self) -> None:
        edited = edit("  a()\n  b()\nx\n  a()\n  b()\n", "a()\nb()\n", "a()\nc()\n", replace_all=True)
        assert edited == "  a()\n  c()\nx\n  a()\n  c()\n"

    def test_blank_text_is_never_matched_loosely(self) -> None:
        assert "is not in the file" in refusal("a\n  \nb\n", "\t\n", "x\n")


class TestLineNumbers:
    @pytest.mark.parametrize("form", ["{}: {}", "{} | {}", "{:>6}\t{}", "{}:{}", "{:4}→{}"])
    def test_prefixes_are_dropped(self, form: str) -> None:
        old = "\n".join(form.format(n, line) for n, line in enumerate(CODE.splitlines()[2:4], 3))
        edited = edit_text(CODE, old, "        return 1")
        assert edited.text == CODE.replace(
            '        name = self.name\n        return f"hello {name}"', "        return 1"
        )
        assert edited.how == "line numbers"

    def test_prefixes_in_both(self) -> None:
        assert edit("a\nb\n", "1: a\n2: b\n", "1: a\n2: c\n") == "a\nc\n"

    @pytest.mark.parametrize("old", ["8080: web", "1: web", "1: a\n5: b\n", "1: a\nb\n"])
    def test_other_numbers_are_no_line_numbers(self, old: str) -> None:
        assert "is not in the file" in refusal("website: 1\na\nb\n", old, "x")

    def test_text_that_has_numbers_is_left_alone(self) -> None:
        assert edit("1: one\n2: two\n", "2: two", "2: three") == "1: one\n2: three\n"


class TestNoMatch:
    def test_the_nearest_lines_are_shown(self) -> None:
        told = refusal(CODE, '        name = self.name\n        return f"good bye {name}"\n', "x\n")
        assert told == (
            "`old` is not in the file; nothing was changed. "
            "The nearest lines (`-` is your `old`, `+` is the file):\n"
            "  3:         name = self.name\n"
            '-         return f"good bye {name}"\n'
            '+ 4:         return f"hello {name}"'
        )

    def test_nothing_alike(self) -> None:
        told = refusal(CODE, "SELECT * FROM users", "x")
        assert told.endswith("Nothing in its 8 lines is similar. Read the file first.")

    def test_applied_already(self) -> None:
        told = refusal(CODE, "    def good_bye(self):\n", "    def bye(self):\n")
        assert "`new` is already at line 6: the edit may already be applied." in told

    def test_what_is_shown_is_bounded(self) -> None:
        text = "".join(f"value_{n} = {n}\n" for n in range(30_000))
        old = "".join(f"value_{n} = {n + 1}\n" for n in range(10_000, 11_000))
        told = refusal(text, old, "x\n")
        assert "+ 10001: value_10000 = 10000" in told
        assert len(told.splitlines()) <= 25

    def test_empty_file(self) -> None:
        assert "Nothing in its 0 lines" in refusal("", "a", "b")

    def test_a_match_that_changes_nothing(self) -> None:
        assert "Nothing changed" in refusal("x = 1\ny\n", "x  = 1\ny\n", "x = 1\ny\n")


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

"""`apply_patch`: hunks go where they belong, and nothing changes when one cannot."""

from difflib import SequenceMatcher, unified_diff

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from memory_workspace import MemoryWorkspace, call
from test_patch_format import GARBAGE

from headgate.errors import ToolArgsInvalid, ToolFailed
from headgate.tools import apply_patch
from headgate.tools.patch_format import UpdateFile, parse_patch
from headgate.tools.patching import patch_text
from headgate.tree import FileChange

CODE = """\
class A:
    def run(self):
        x = 1
        return x

    def stop(self):
        return 0


class B:
    def run(self):
        x = 1
        return x
"""


def patched(text: str, *hunks: str) -> str:
    """The text after an update with these hunks."""
    (operation,) = parse_patch("*** Begin Patch\n*** Update File: f\n" + "\n".join(hunks) + "\n*** End Patch")
    assert isinstance(operation, UpdateFile)
    return patch_text(text, operation.hunks).text


def refusal(text: str, *hunks: str) -> str:
    with pytest.raises(ToolFailed) as caught:
        patched(text, *hunks)
    return str(caught.value)


class TestPlace:
    def test_an_ambiguous_hunk_is_refused(self) -> None:
        assert refusal(CODE, "@@\n-        x = 1\n+        x = 2") == (
            "the file, hunk 1 of 1: its lines can be at lines 3 and 12. Add unchanged lines around the "
            "change, or `@@ ` and a line above it that occurs only there.\nNothing was changed."
        )

    def test_a_header_tells_the_place(self) -> None:
        after = CODE[:-40] + CODE[-40:].replace("x = 1", "x = 2")
        assert patched(CODE, "@@ class B:\n-        x = 1\n+        x = 2") == after
        assert patched(CODE, "@@ class B\n-        x = 1\n+        x = 2") == after
        assert patched(CODE, "@@ class B:\n@@     def run(self):\n-        x = 1\n+        x = 2") == after

    def test_a_header_that_is_nowhere(self) -> None:
        told = refusal(CODE, "@@ class Bee:\n-        x = 1\n+        x = 2")
        assert "no line matches its `@@` line, `class Bee:`. Nearest:\n- class Bee:\n+ " in told

    def test_lines_that_are_not_below_the_header(self) -> None:
        told = refusal(CODE, "@@ class B:\n-        return 0\n+        return 1")
        assert "its lines are at line 7, which is not below `@@ class B:` (line 10)." in told

    def test_hunks_go_in_order(self) -> None:
        second = "@@\n-        x = 1\n+        x = 2"
        after = patched(CODE, "@@\n-        return 0\n+        return 1", second)
        assert after == CODE.replace("return 0", "return 1")[:-40] + CODE[-40:].replace("x = 1", "x = 2")

    def test_hunks_out_of_order_are_refused(self) -> None:
        told = refusal(CODE, "@@\n-class B:\n+class C:", "@@\n-        return 0\n+        return 1")
        assert "hunk 2 of 2: its lines are at line 7, not below hunk 1. Put hunks in file order." in told

    def test_end_of_file(self) -> None:
        hunk = "@@\n-        x = 1\n+        x = 2\n         return x\n*** End of File"
        assert patched(CODE, hunk) == CODE[:-40] + CODE[-40:].replace("x = 1", "x = 2")

    def test_a_line_number_tells_the_place(self) -> None:
        hunk = "@@ -{} +1 @@\n-        x = 1\n+        x = 2"
        first = CODE.replace("x = 1", "x = 2", 1)
        assert patched(CODE, hunk.format(3)) == first
        assert patched(CODE, hunk.format(5)) == first
        assert patched(CODE, hunk.format(14)) != first
        assert "lines 3 and 12" in refusal(CODE, hunk.format(8))


class TestAddedLines:
    @pytest.mark.parametrize("hunk", ["@@\n+c\n+d", "+c\n+d", "@@\n a\n-b\n+B\n@@\n+c\n+d"])
    def test_without_a_place_they_are_refused(self, hunk: str) -> None:
        why = refusal("a\nb\n", hunk)
        assert "does not say where they go" in why
        assert all(way in why for way in ("unchanged lines around", "`@@ `", "`*** End of File`"))

    def test_at_the_end_if_that_is_said(self) -> None:
        assert patched("a\nb", "@@\n+c\n+d\n*** End of File") == "a\nb\nc\nd\n"

    def test_an_empty_file_has_one_place(self) -> None:
        assert patched("", "@@\n+c") == "c\n"

    def test_below_a_header(self) -> None:
        assert patched("a\nb\nc\n", "@@ b\n+x") == "a\nb\nx\nc\n"
        assert "its `@@` line can be at lines 1 and 3" in refusal("b\na\nb\n", "@@ b\n+x")

    def test_a_blank_line_is_no_place(self) -> None:
        assert "its unchanged lines are all blank" in refusal("a\n\nb\n", "@@\n\n+x")
        assert patched("a\n\nb\n", "@@ a\n\n+x") == "a\n\nx\nb\n"

    def test_a_line_number_alone_is_no_place(self) -> None:
        assert "it only adds lines" in refusal("a\nb\n", "@@ -1,0 +2 @@\n+x")
        assert patched("", "@@ -0,0 +1 @@\n+x") == "x\n"


class TestTolerance:
    def test_indentation_is_carried_over(self) -> None:
        hunk = "@@\n def stop(self):\n-    return 0\n+    if self:\n+        return 1"
        after = CODE.replace("        return 0\n", "        if self:\n            return 1\n")
        assert patched(CODE, hunk) == after

    def test_indentation_that_does_not_fit(self) -> None:
        told = refusal("a:\n  b\n", "@@\n     a:\n-      b\n+  c")
        assert "the indentation of the added line `c` does not fit. The file has:\n1: a:\n2:   b" in told

    def test_bytes_that_are_not_utf8(self) -> None:
        text = b"\xe9 one\ntwo\n".decode("utf-8", "surrogateescape")
        assert patched(text, "@@\n \ufffd one\n-two\n+2") == text.replace("two", "2")
        assert "not UTF-8" in refusal(text, "@@\n-\ufffd one\n+\ufffd 1\n two")


class TestFinalNewline:
    def test_added_lines_end_with_one(self) -> None:
        assert patched("a\nb", "@@\n-b\n+c") == "a\nc\n"

    def test_lines_that_stay_keep_theirs(self) -> None:
        assert patched("a\nb", "@@\n-a\n+x") == "x\nb"
        assert patched("a\nb", "@@\n-a\n+x\n b") == "x\nb"

    def test_a_diff_can_say_otherwise(self) -> None:
        assert patched("a\nb\n", "@@\n-b\n+c\n\\ No newline at end of file") == "a\nc"
        assert patched("a\nb", "@@\n-b\n\\ No newline at end of file\n+b") == "a\nb\n"

    def test_byte_order_mark(self) -> None:
        assert patched("\ufeffa\r\n", "@@\n-a\n+b\n+c") == "\ufeffb\r\nc\r\n"


class TestExplanations:
    def test_nearest_lines(self) -> None:
        told = refusal(CODE, "@@\n     def stop(self):\n-        return 1\n+        return 2")
        assert told == (
            "the file, hunk 1 of 1: its lines are not in the file. "
            "The nearest lines (`-` is the hunk, `+` is the file):\n"
            "  6:     def stop(self):\n-         return 1\n+ 7:         return 0\nNothing was changed."
        )

    def test_applied_already(self) -> None:
        told = refusal(CODE, "@@\n-        return None\n+        return 0")
        assert "The new lines are already at line 7: the hunk may already be applied." in told

    def test_nothing_alike(self) -> None:
        assert "Nothing in the file is similar:\n- SELECT 1" in refusal(CODE, "@@\n-SELECT 1\n+x")


def run(files: dict[str, bytes | str], patch: str) -> tuple[str, MemoryWorkspace]:
    workspace = MemoryWorkspace(files, modes={"run.sh": 0o755})
    return call(apply_patch, workspace, patch=f"*** Begin Patch\n{patch}\n*** End Patch").text, workspace


class TestTool:
    def test_report(self) -> None:
        patch = (
            "*** Update File: a.py\n@@\n-x = 1\n+x = (\n"
            "*** Update File: b.txt\n@@\n-  one\n+  1\n   two\n"
            "*** Update File: run.sh\n*** Move to: bin/run.sh\n-a\n+b\n"
            "*** Add File: c.txt\n+1\n+2\n"
            "*** Delete File: d.txt"
        )
        files: dict[str, bytes | str] = {
            "a.py": "x = 1\n",
            "b.txt": "one\ntwo\n",
            "run.sh": "a\n",
            "d.txt": b"\0",
        }
        text, workspace = run(files, patch)
        assert text == (
            "Updated a.py at line 1.\n"
            "Updated b.txt at lines 1-2.\nHunk 1 matched ignoring indentation:\n1: 1\n2: two\n"
            "Moved run.sh to bin/run.sh, updated at line 1.\n"
            "Added c.txt: 2 lines.\n"
            "Deleted d.txt.\n"
            "Warning: a.py no longer parses: line 1: '(' was never closed"
        )
        after = {"a.py": b"x = (\n", "b.txt": b"1\ntwo\n", "bin/run.sh": b"b\n", "c.txt": b"1\n2\n"}
        assert workspace.data == after
        assert workspace.modes["bin/run.sh"] == 0o755

    def test_changes(self) -> None:
        workspace = MemoryWorkspace({"run.sh": "a\n"}, modes={"run.sh": 0o755})
        outcome = call(apply_patch, workspace, patch="*** Update File: run.sh\n*** Move to: ./x/../go.sh\n")
        assert outcome.changes == (
            FileChange("run.sh", b"a\n", None, 0o755),
            FileChange("go.sh", None, b"a\n", 0o755),
        )

    @pytest.mark.parametrize(
        ("patch", "after"),
        [
            ("*** Add File: n\n+1\n*** Update File: n\n-1\n+2", {"a": b"1\n2\n", "n": b"2\n"}),
            ("*** Update File: a\n-1\n+x\n*** Update File: a\n-x\n+y", {"a": b"y\n2\n"}),
            ("*** Delete File: a\n*** Add File: a\n+z", {"a": b"z\n"}),
            ("*** Update File: a\n*** Move to: b\n-1\n+x\n*** Update File: b\n-x\n+y", {"b": b"y\n2\n"}),
            ("*** Update File: a\n*** Move to: b\n*** Add File: a\n+z", {"a": b"z\n", "b": b"1\n2\n"}),
            ("*** Update File: a\n*** Move to: a\n-1\n+x", {"a": b"x\n2\n"}),
        ],
    )
    def test_several_operations_on_one_path(self, patch: str, after: dict[str, bytes]) -> None:
        assert run({"a": "1\n2\n"}, patch)[1].data == after

    @pytest.mark.parametrize(
        ("patch", "told"),
        [
            ("*** Add File: n\n+1\n*** Add File: n\n+2", "changes n and then adds it again"),
            ("*** Update File: a\n-1\n+2\n*** Add File: a\n+2", "changes a and then adds it again"),
            ("*** Update File: a\n-1\n+2\n*** Delete File: a", "changes a and then deletes it"),
            ("*** Delete File: a\n*** Update File: a\n-1\n+2", "An earlier part of the patch removes a"),
            ("*** Delete File: a\n*** Delete File: a", "An earlier part of the patch removes a"),
            ("*** Add File: n\n+1\n*** Update File: a\n*** Move to: n\n-1\n+2", "then moves a onto it"),
            ("*** Add File: n\n+1\n*** Update File: no\n-1\n+2", "no does not exist"),
            ("*** Update File: a\n 1", "changes nothing"),
            ("*** Update File: a\n*** Move to: a", "changes nothing"),
            ("*** Update File: bin\n-1\n+2", "bin is a binary file"),
            ("*** Add File: dir\n+1", "dir is a directory"),
            ('*** Update File: "odd\\n"\n-1\n+2', '"odd\\n" does not exist'),
        ],
    )
    def test_refusals_change_nothing(self, patch: str, told: str) -> None:
        workspace = MemoryWorkspace({"a": "1\n", "bin": b"1\0", "dir/f": "1\n"})
        before = dict(workspace.data)
        with pytest.raises(ToolFailed) as caught:
            call(apply_patch, workspace, patch=f"*** Begin Patch\n{patch}\n*** End Patch")
        assert told in str(caught.value)
        assert workspace.data == before

    def test_a_diff_does_not_create_what_is_there(self) -> None:
        with pytest.raises(ToolFailed, match="a already exists"):
            call(
                apply_patch,
                MemoryWorkspace({"a": "1\n"}),
                patch="--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n",
            )

    def test_half_a_surrogate_pair_is_refused(self) -> None:
        with pytest.raises(ToolArgsInvalid, match="surrogate"):
            call(apply_patch, MemoryWorkspace(), patch="*** Add File: a\n+\ud800")

    def test_the_description_shows_the_format(self) -> None:
        description = apply_patch.spec.description
        example = description[description.index("*** Begin") : description.index("*** End Patch") + 13]
        # No path that a small model could take for one of the repository's.
        assert [operation.path for operation in parse_patch(example)] == ["PATH", "PATH", "PATH"]
        assert apply_patch.spec.category == "write"


FILES = st.lists(
    st.sampled_from(["a", "b", "  a", "", "    b", "c", "def f():", "-x", "+y", "@@"]), max_size=14
)


def write_patch(old: list[str], new: list[str], context: int) -> str:
    """A patch whose hunks each have one place: where context does not tell, one hunk holds the whole file."""
    hunks, cursor = [], 0
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(context):
        start, end = group[0][1], group[-1][2]
        block = old[start:end]
        places = [at for at in range(cursor, len(old) - len(block) + 1) if old[at : at + len(block)] == block]
        if not any(block) or len(places) != 1:
            return "@@\n" + "".join([f"-{line}\n" for line in old] + [f"+{line}\n" for line in new])
        cursor = end
        hunks.append("@@\n")
        for tag, a, b, c, d in group:
            if tag == "equal":
                hunks += [f" {line}\n" for line in old[a:b]]
            else:
                hunks += [f"-{line}\n" for line in old[a:b]] + [f"+{line}\n" for line in new[c:d]]
    return "".join(hunks)


@given(FILES, FILES, st.integers(0, 3), st.sampled_from(["\n", "\r\n"]))
def test_a_generated_patch_applies_exactly(old: list[str], new: list[str], context: int, ending: str) -> None:
    assume(old and old != new)
    workspace = MemoryWorkspace({"f": "".join(line + ending for line in old)})
    patch = f"*** Begin Patch\n*** Update File: f\n{write_patch(old, new, context)}*** End Patch\n"
    call(apply_patch, workspace, patch=patch)
    assert workspace.data == {"f": "".join(line + ending for line in new).encode()}


@given(FILES, FILES, st.integers(1, 3))
def test_a_generated_diff_applies_exactly(old: list[str], new: list[str], context: int) -> None:
    before, after = ([line + "\n" for line in lines] for lines in (old, new))
    assume(old and old != new)
    diff = "".join(unified_diff(before, after, "a/f", "b/f", n=context))
    assume("@@ -0,0" not in diff)
    workspace = MemoryWorkspace({"f": "".join(before)})
    call(apply_patch, workspace, patch=diff)
    assert workspace.data == {"f": "".join(after).encode()}


@settings(max_examples=150)
@given(GARBAGE, st.sampled_from(["", "a\n", "a\nb\na\n", "x\n\n\ufeff"]))
def test_garbage_is_applied_or_refused(patch: str, text: str) -> None:
    workspace = MemoryWorkspace({"a": text, "c": text})
    try:
        call(apply_patch, workspace, patch=patch)
    except (ToolFailed, ToolArgsInvalid):
        assert workspace.data == {"a": text.encode(), "c": text.encode()}

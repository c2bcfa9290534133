"""`apply_patch`: hunks go where they belong, and nothing changes when one cannot."""

from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from memory_workspace import MemoryWorkspace, call
from test_patch_format import GARBAGE

from headgate.errors import ToolArgsInvalid, ToolFailed
from headgate.tools import apply_patch
from headgate.tools.patch_format import UpdateFile, parse_patch
from headgate.tools.patching import patch_text
from headgate.tree import FileChange

DATA = yaml.safe_load(Path(__file__).with_name("patches.yaml").read_text("utf-8"))


def patched(text: str, *hunks: str) -> str:
    """The text after an update with these hunks."""
    (operation,) = parse_patch("*** Begin Patch\n*** Update File: f\n" + "\n".join(hunks) + "\n*** End Patch")
    assert isinstance(operation, UpdateFile)
    return patch_text(text, operation.hunks).text


def refusal(text: str, *hunks: str) -> str:
    with pytest.raises(ToolFailed) as caught:
        patched(text, *hunks)
    return str(caught.value)


@pytest.mark.parametrize("case", DATA["cases"])
def test_case(case: dict[str, Any]) -> None:
    text = DATA["texts"][case["in"]] if "in" in case else case["text"]
    hunks = case["hunks"] if isinstance(case["hunks"], list) else [case["hunks"]]
    if "told" in case:
        assert case["told"] in refusal(text, *hunks)
        return
    expected = text.replace(*case["changes"]) if "changes" in case else case["gives"]
    assert patched(text, *hunks) == expected


def test_bytes_that_are_not_utf8() -> None:
    text = b"\xe9 one\ntwo\n".decode("utf-8", "surrogateescape")
    assert patched(text, "@@\n \ufffd one\n-two\n+2") == text.replace("two", "2")
    assert "not UTF-8" in refusal(text, "@@\n-\ufffd one\n+\ufffd 1\n two")


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

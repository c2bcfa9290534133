"""Reading patches: what they say, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ToolFailed
from headgate.tools.patch_format import AddFile, DeleteFile, Hunk, UpdateFile, parse_patch, read_header

UPDATE = UpdateFile("a.py", (Hunk(((" ", "one"), ("-", "two"), ("+", "three"))),))
BODY = "*** Update File: a.py\n@@\n one\n-two\n+three\n"
UNIFIED = "--- a/a.py\n+++ b/a.py\n@@ -3,2 +3,2 @@ def f():\n one\n-two\n+three\n"
UNIFIED_UPDATE = UpdateFile("a.py", (Hunk(UPDATE.hunks[0].lines, number=3),))


@pytest.mark.parametrize(
    "patch",
    [
        f"*** Begin Patch\n{BODY}*** End Patch",
        f"*** Begin Patch\n{BODY}*** End Patch\n",
        f"*** Begin Patch\n{BODY}",
        BODY,
        f"\n\n*** Begin Patch\n\n{BODY}\n\n*** End Patch\n\n",
        f"```diff\n*** Begin Patch\n{BODY}*** End Patch\n```\n",
        f"```\n{BODY}```",
        f"apply_patch <<'EOF'\n*** Begin Patch\n{BODY}*** End Patch\nEOF\n",
        f"apply_patch << EOF\n*** Begin Patch\n{BODY}EOF",
        f"Here is the patch:\n*** Begin Patch\n{BODY}*** End Patch\nDone!",
        f"*** Begin Patch\n{BODY}*** End Patch".replace("\n", "\r\n"),
        "*** Begin Patch\n*** Update File: a.py\n one\n-two\n+three\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.py\n--- a/a.py\n+++ b/a.py\n@@\n one\n-two\n+three",
        "*** Begin Patch\n*** Update File: a.py\n@@ ... @@\n one\n-two\n+three\n\n*** End Patch",
    ],
)
def test_wrapping_is_dropped(patch: str) -> None:
    assert parse_patch(patch) == (UPDATE,)


@pytest.mark.parametrize(
    "patch",
    [
        UNIFIED,
        f"```diff\n{UNIFIED}```\n",
        f"diff --git a/a.py b/a.py\nindex 123..456 100644\n{UNIFIED}",
        UNIFIED.replace("a.py\n", "a.py\t2024-01-01 00:00:00\n"),
        UNIFIED.replace("a/a.py", "a.py").replace("b/a.py", "a.py"),
        f"From abc\nSubject: [PATCH] x\n\n---\n a.py | 2 +-\n\n{UNIFIED}-- \n2.40.1\n\n",
    ],
)
def test_unified_diffs(patch: str) -> None:
    assert parse_patch(patch) == (UNIFIED_UPDATE,)


def test_every_operation() -> None:
    patch = (
        "*** Begin Patch\n"
        "*** Add File: new dir/a.txt\n+one\n+\n\n+two\n"
        "*** Delete File: gone.txt\n"
        "*** Update File: old.txt\n*** Move to: new.txt\n"
        "@@ class A\n@@   def f(self):\n-x\n+y\n*** End of File\n"
        "@@\n z\n"
        '*** Update File: "caf\\303\\251 \\"x\\""\n*** Move to: plain\n'
        "*** Add File: empty\n"
        "*** End Patch"
    )
    assert parse_patch(patch) == (
        AddFile("new dir/a.txt", "one\n\n\ntwo\n"),
        DeleteFile("gone.txt"),
        UpdateFile(
            "old.txt",
            (
                Hunk((("-", "x"), ("+", "y")), ("class A", "  def f(self):"), at_end=True),
                Hunk(((" ", "z"),)),
            ),
            "new.txt",
        ),
        UpdateFile('café "x"', (), "plain"),
        AddFile("empty", ""),
    )


def test_two_patches_in_one() -> None:
    text = f"*** Begin Patch\n{BODY}*** End Patch\n\n*** Begin Patch\n*** Delete File: b\n*** End Patch\n"
    assert parse_patch(text) == (UPDATE, DeleteFile("b"))


def test_markers_inside_a_hunk_are_text() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: doc.md\n"
        " *** Begin Patch\n-*** Update File: x\n+*** Update File: y\n *** End of File\n *** End Patch\n ```\n"
        "*** End Patch\n"
    )
    lines = (
        (" ", "*** Begin Patch"),
        ("-", "*** Update File: x"),
        ("+", "*** Update File: y"),
        (" ", "*** End of File"),
        (" ", "*** End Patch"),
        (" ", "```"),
    )
    assert parse_patch(patch) == (UpdateFile("doc.md", (Hunk(lines),)),)


def test_git_operations() -> None:
    patch = (
        "diff --git a/run.sh b/run.sh\nnew file mode 100755\n"
        "--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
        "diff --git a/old.txt b/old.txt\ndeleted file mode 100644\n"
        "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/p/q.txt b/p/r.txt\nsimilarity index 100%\nrename from p/q.txt\nrename to p/r.txt\n"
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 000..e69\n"
        "diff --git a/m.sql b/m.sql\n--- a/m.sql\n+++ b/m.sql\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n x\n"
        "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+n\n"
    )
    assert parse_patch(patch) == (
        AddFile("run.sh", "a\nb", 0o755, is_new=True),
        DeleteFile("old.txt"),
        UpdateFile("p/q.txt", (), "p/r.txt"),
        AddFile("empty", "", is_new=True),
        UpdateFile("m.sql", (Hunk((("-", "-- old"), ("+", "++ new"), (" ", "x")), number=1),)),
        AddFile("n.txt", "n\n", is_new=True),
    )


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("", "This is not a patch"),
        ("change a to b", "This is not a patch"),
        ("*** Begin Patch\n*** End Patch", "contains no file operation"),
        ("*** Begin Patch\n*** Rename File: x\n*** End Patch", "Line 2 of the patch, `*** Rename File: x`"),
        ("*** Begin Patch\n*** Add File:\n+x\n*** End Patch", "the path is missing"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "each line of an added file begins with `+`"),
        ("*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch", "Line 4 of the patch, `x`"),
        ("*** Begin Patch\n*** Update File: a\n@@ f\n*** End Patch", "the hunk has no lines"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "the update has no hunk"),
        ("*** Begin Patch\n*** End Patch\n*** Delete File: a", "after `*** End Patch`"),
        ("--- a/x\n+++ b/x\n", "no hunk for x"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n", "the hunk has no lines"),
        ("--- x only\n@@ -1 +1 @@\n-a\n+b\n", "no file is named"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "the file's name is missing"),
        ("--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "do not begin with `+`"),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "mode changes"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "binary"),
    ],
)
def test_refusals(patch: str, told: str) -> None:
    with pytest.raises(ToolFailed) as caught:
        parse_patch(patch)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("@@", ("", None)),
        ("@@ def f():", ("def f():", None)),
        ("@@     indented", ("    indented", None)),
        ("@@ class A: @@", ("class A:", None)),
        ("@@ -12,3 +14,5 @@ def f():", ("", 12)),
        ("@@ -0,0 +1 @@", ("", 0)),
        ("@@ ... @@", ("", None)),
        ("@@ -1,3 @@", ("", None)),
    ],
)
def test_headers(line: str, expected: tuple[str, int | None]) -> None:
    assert read_header(line) == expected


PIECES = st.sampled_from(
    [
        *("*** Begin Patch", "*** End Patch", "*** Update File: a", "*** Add File: b", "*** Delete File: c"),
        *(
            "*** Move to: d",
            "*** End of File",
            "*** Update File:",
            "@@",
            "@@ x",
            "@@ -1,2 +1,2 @@",
            "--- a/a",
        ),
        *("+++ b/a", "--- /dev/null", "diff --git a/a b/a", "rename from a", "new file mode 100755", "```"),
        *(" a", "-a", "+b", "", "\\ No newline at end of file", "a", "-- ", "<<EOF", "EOF", " *** End Patch"),
    ]
)
GARBAGE = st.one_of(
    st.text(max_size=60),
    st.lists(PIECES, max_size=15).map("\n".join),
    st.lists(PIECES, max_size=6).map(lambda pieces: "\n".join(["*** Update File: a", *pieces])),
    st.lists(PIECES, max_size=6).map(lambda pieces: "\n".join(["--- a/a", "+++ b/a", "@@", *pieces])),
)


@given(GARBAGE)
def test_anything_is_read_or_refused(text: str) -> None:
    try:
        operations = parse_patch(text)
    except ToolFailed:
        return
    assert operations

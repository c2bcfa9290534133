"""One reader of diffs: those that git writes are taken at their word, those that models imitate are not."""

import pytest

from headgate.reading import DiffHunk, read_diff, read_git_diff, read_place
from headgate.reading.diffs import HunkPlace

GIT = """diff --git a/src/a b/b.py b/src/a b/b.py
index 1..2 100644
--- a/src/a b/b.py
+++ b/src/a b/b.py
@@ -1,2 +1,2 @@ def f():
--- old
+++ new
@@ -9 +9 @@
-y
+z
\\ No newline at end of file
diff --git a/gone.py b/kept.py
similarity index 100%
rename from gone.py
rename to kept.py
"""


def test_what_git_writes_is_read_as_it_is() -> None:
    changed, moved = read_git_diff(GIT)
    assert (changed.old, changed.new, changed.first, changed.last) == ("src/a b/b.py", "src/a b/b.py", 1, 11)
    assert list(changed.hunks) == [
        DiffHunk(
            header="@@ -1,2 +1,2 @@ def f():",
            place=HunkPlace("@@ -1,2 +1,2 @@", 1, 2, 1, 2),
            lines=(("-", "-- old"), ("+", "++ new")),
            no_final_newline=False,
            last=7,
            stray=None,
        ),
        DiffHunk(
            "@@ -9 +9 @@", HunkPlace("@@ -9 +9 @@", 9, 1, 9, 1), (("-", "y"), ("+", "z")), True, 11, None
        ),
    ]
    assert (moved.old, moved.new, moved.header("similarity index "), list(moved.hunks)) == (
        "gone.py", "kept.py", "100%", [],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("header", "is_new", "is_deleted", "is_executable"),
    [
        ("new file mode 100755", True, False, True),
        ("new file mode 100644", True, False, False),
        ("deleted file mode 100644", False, True, None),
        ("new mode 100755", False, False, True),
        ("index 1..2 100644", False, False, None),
    ],
)
def test_headers_say_what_becomes_of_a_file(
    header: str, is_new: bool, is_deleted: bool, is_executable: bool | None
) -> None:
    (file,) = read_git_diff(f"diff --git a/x b/x\n{header}\n")
    assert (file.path, file.is_new, file.is_deleted, file.is_executable) == (
        "x", is_new, is_deleted, is_executable,
    )  # fmt: skip


def test_in_an_imitation_names_begin_a_file_and_strays_are_marked() -> None:
    lines = [
        "@@ -1 +1 @@",
        "--- x.py",
        "+++ x.py\t2024",
        "@@",
        " a",
        "oops",
        "-b",
        "",
        "--- a/y",
        "+++ /dev/null",
    ]
    nameless, changed, deleted = read_diff(lines)
    assert (nameless.first, nameless.path) == (1, "")
    assert (changed.old, changed.new, changed.hunks[0].stray) == ("x.py", "x.py", 6)
    assert changed.hunks[0].lines == ((" ", "a"), ("-", "b"))
    assert (deleted.old, deleted.new, deleted.is_deleted) == ("y", None, True)


def test_a_header_without_numbers_names_no_place() -> None:
    assert read_place("@@ def f():") is None

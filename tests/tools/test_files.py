"""The file tools, on a real directory."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import show_path
from headgate.errors import ToolArgsInvalid, ToolDenied, ToolError, ToolFailed
from headgate.guard import Boundaries, SecretFiles
from headgate.tools import (
    Outcome,
    Tool,
    ToolContext,
    excerpt,
    find_files,
    ls,
    read_file,
    read_files,
    share_room,
    think,
    write_file,
)
from headgate.tree import DiskWorkspace, File, FileChange


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    (tmp_path / "README.md").write_text("# Title\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "x.log").write_text("log\n")
    return tmp_path


def call(tool: Tool, root: Path, limit: int = 16_000, **arguments: Any) -> Outcome:
    context = ToolContext(
        DiskWorkspace(root, [SecretFiles(root=root)]), lambda text: "saved", result_chars=limit
    )
    outcome = tool.function(context, tool.parse(arguments))
    assert isinstance(outcome, Outcome)
    assert len(outcome.text) <= limit
    outcome.text.encode()
    return outcome


def test_names_and_categories() -> None:
    assert [
        (tool.name, tool.spec.category, tool.usage()) for tool in (ls, read_file, read_files, find_files)
    ] == [
        ("ls", "read", "path?"),
        ("read_file", "read", "path, start_line?, end_line?"),
        ("read_files", "read", "paths"),
        ("find_files", "read", "glob"),
    ]
    assert (write_file.name, write_file.spec.category, write_file.usage()) == (
        "write_file",
        "write",
        "path, content",
    )
    assert (think.name, think.spec.category, think.usage()) == ("think", "reasoning", "text")


def test_think(repo: Path) -> None:
    assert call(think, repo, text="hm") == Outcome("ok")


class TestLs:
    def test_root(self, repo: Path) -> None:
        (repo / "link").symlink_to("src")
        os.mkfifo(repo / "pipe")
        assert call(ls, repo).text.splitlines() == [
            "./ (6 entries):",
            ".gitignore (6 bytes)",
            "README.md (8 bytes)",
            "link (symbolic link)",
            "pipe (special file)",
            "src/",
            "x.log (4 bytes)",
        ]

    def test_below_and_empty(self, repo: Path) -> None:
        (repo / "empty").mkdir()
        assert call(ls, repo, path="src/").text == "src/ (1 entry):\na.py (26 bytes)"
        assert call(ls, repo, path="empty").text == "empty/ is empty."

    def test_long(self, repo: Path) -> None:
        for number in range(200):
            (repo / "src" / f"file{number:03}").touch()
        text = call(ls, repo, limit=500, path="src").text
        assert text.startswith("src/ (201 entries):\na.py")
        assert text.endswith("more; narrow it down]")


class TestReadFile:
    def test_whole(self, repo: Path) -> None:
        assert call(read_file, repo, path="src/a.py") == Outcome(
            "src/a.py (lines 1-3 of 3)\none = 1\ntwo = 2\nthree = 3", read=("src/a.py",)
        )

    @pytest.mark.parametrize(
        ("start", "end", "text"),
        [
            (2, 2, "src/a.py (line 2 of 3)\ntwo = 2"),
            (2, None, "src/a.py (lines 2-3 of 3)\ntwo = 2\nthree = 3"),
            (None, 2, "src/a.py (lines 1-2 of 3)\none = 1\ntwo = 2"),
            (0, -1, "src/a.py (lines 1-3 of 3)\none = 1\ntwo = 2\nthree = 3"),
            (3, 99, "src/a.py (line 3 of 3)\nthree = 3"),
        ],
    )
    def test_range(self, repo: Path, start: int | None, end: int | None, text: str) -> None:
        assert call(read_file, repo, path="src/a.py", start_line=start, end_line=end).text == text

    @pytest.mark.parametrize(
        ("arguments", "header"),
        [
            ({"offset": 2, "limit": 1}, "src/a.py (line 2 of 3)"),
            ({"offset": 0, "limit": 2}, "src/a.py (lines 1-2 of 3)"),
            ({"offset": "2", "limit": "5"}, "src/a.py (lines 2-3 of 3)"),
            ({"offset": 2.0, "limit": 1.0}, "src/a.py (line 2 of 3)"),
            ({"limit": 2}, "src/a.py (lines 1-2 of 3)"),
            ({"offset": 3}, "src/a.py (line 3 of 3)"),
            ({"offset": -5, "limit": 2}, "src/a.py (lines 1-2 of 3)"),
            ({"offset": None, "limit": None}, "src/a.py (lines 1-3 of 3)"),
            ({"offset": 2, "limit": 0}, "src/a.py (lines 2-3 of 3)"),
            ({"start_line": 2, "end_line": 2, "limit": 9}, "src/a.py (line 2 of 3)"),
            ({"start_line": 0, "end_line": 1}, "src/a.py (line 1 of 3)"),
            ({"start_line": 0, "end_line": 0}, "src/a.py (lines 1-3 of 3)"),
            ({"line_start": 2, "line_end": 3}, "src/a.py (lines 2-3 of 3)"),
            ({"startLine": 2, "endLine": 2}, "src/a.py (line 2 of 3)"),
            ({"view_range": [2, -1]}, "src/a.py (lines 2-3 of 3)"),
        ],
    )
    def test_range_by_learnt_names(self, repo: Path, arguments: dict[str, Any], header: str) -> None:
        args = read_file.parse({"filePath": "src/a.py", **arguments})
        assert call(read_file, repo, **args.model_dump()).text.splitlines()[0] == header

    @pytest.mark.parametrize("arguments", [{"limit": "many"}, {"limit": True}, {"view_range": [1, 2, 3]}])
    def test_range_that_cannot_be_meant(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ToolArgsInvalid, match="there is no argument"):
            read_file.parse({"path": "src/a.py", **arguments})

    def test_what_is_wrong_with_a_value_is_told(self) -> None:
        with pytest.raises(ToolArgsInvalid, match="`path`: input should be a valid string"):
            read_file.parse({"path": 3})

    def test_range_that_is_not_there(self, repo: Path) -> None:
        with pytest.raises(ToolFailed, match=r"src/a\.py has 3 lines; start_line 9 is past the end"):
            call(read_file, repo, path="src/a.py", start_line=9)
        with pytest.raises(ToolFailed, match="start_line 3 is after end_line 1"):
            call(read_file, repo, path="src/a.py", start_line=3, end_line=1)

    def test_long_file_goes_on(self, repo: Path) -> None:
        (repo / "long").write_text("".join(f"line {number}\n" for number in range(1, 501)))
        read: list[str] = []
        start = 1
        while start <= 500:
            lines = call(read_file, repo, limit=1000, path="long", start_line=start).text.splitlines()
            assert lines[0].startswith(f"long (lines {start}-")
            body = [line for line in lines[1:] if not line.startswith("[")]
            read += body
            start += len(body)
            if start <= 500:
                assert lines[-1] == f"[cut here; to continue, call read_file with start_line={start}]"
        assert read == [f"line {number}" for number in range(1, 501)]

    def test_very_long_line(self, repo: Path) -> None:
        (repo / "min.js").write_text("x" * 100_000 + "\nnext\n")
        text = call(read_file, repo, path="min.js").text
        assert "[... 96,000 more characters in this line]\nnext" in text
        assert "[... cut]" in call(read_file, repo, limit=1000, path="min.js").text

    @pytest.mark.parametrize(
        ("data", "answer"),
        [
            (b"", "f is empty."),
            (b"\x89PNG\r\n\x1a\n\0\0", "f is a binary file (PNG image, 10 bytes)."),
            (b"a\0b", "f is a binary file (3 bytes)."),
            (
                "hi".encode("utf-16"),
                "f is UTF-16 text, not UTF-8 (6 bytes); convert it with iconv to read it.",
            ),
            (b"\xef\xbb\xbfa\r\nb\r\n", "f (lines 1-2 of 2)\na\nb"),
            (b"\n", "f (line 1 of 1)\n"),
            (b"odd \xff\n", "f (line 1 of 1)\nodd \ufffd"),
            (b"a\x0cb\x85c\n", "f (line 1 of 1)\na\x0cb\ufffdc"),
        ],
    )
    def test_kinds(self, repo: Path, data: bytes, answer: str) -> None:
        (repo / "f").write_bytes(data)
        assert call(read_file, repo, path="f").text == answer

    def test_secrets(self, repo: Path) -> None:
        (repo / ".env").write_text("X=1\n")
        with pytest.raises(ToolDenied, match=r"\.env may contain secrets"):
            call(read_file, repo, path=".env")

    def test_names_are_shown_so_that_they_can_be_given_back(self, repo: Path) -> None:
        for name in ("a b", 'quo"te', "new\nline", "odd\udcff"):
            (repo / name).write_text("x\n")
            assert call(read_file, repo, path=show_path(name)).text == f"{show_path(name)} (line 1 of 1)\nx"

    @given(st.binary(max_size=400), st.integers(0, 500), st.integers(-2, 12), st.integers(-2, 12))
    def test_never_too_long(self, data: bytes, limit: int, start: int, end: int) -> None:
        try:
            text = excerpt(File("some/path", data, 0o644), limit, start, end)
        except ToolFailed:
            return
        assert len(text) <= limit


class TestReadFiles:
    def test_missing_one_does_not_matter(self, repo: Path) -> None:
        outcome = call(read_files, repo, paths=["README.md", "src/b.py", "src/a.py"])
        assert outcome == Outcome(
            "README.md (line 1 of 1)\n# Title\n\n"
            "src/b.py does not exist. Did you mean src/a.py?\n\n"
            "src/a.py (lines 1-3 of 3)\none = 1\ntwo = 2\nthree = 3",
            read=("README.md", "src/a.py"),
        )

    def test_none_there(self, repo: Path) -> None:
        with pytest.raises(ToolFailed, match=r"zzzzz does not exist\.\n\n\.\./q points outside"):
            call(read_files, repo, paths=["zzzzz", "../q"])
        with pytest.raises(ToolArgsInvalid):
            call(read_files, repo, paths=[])

    def test_room_is_shared(self, repo: Path) -> None:
        for name in ("big1", "big2"):
            (repo / name).write_text("".join(f"{name} {number}\n" for number in range(2000)))
        text = call(read_files, repo, limit=3000, paths=["big1", "README.md", "big2"]).text
        assert "# Title" in text
        assert abs(text.count("big1 ") - text.count("big2 ")) <= 2
        assert text.count("[cut here; to continue, call read_file with start_line=") == 2

    def test_too_many(self, repo: Path) -> None:
        text = call(read_files, repo, limit=1000, paths=["README.md"] * 10).text
        assert text.endswith("[7 more were not read]")

    @given(st.lists(st.integers(0, 1000), min_size=1), st.integers(0, 5000))
    def test_shares(self, wishes: list[int], room: int) -> None:
        shares = share_room(wishes, room)
        assert sum(shares) <= room
        assert all(share <= wish for share, wish in zip(shares, wishes, strict=True))
        if sum(wishes) <= room:
            assert shares == wishes


class TestFindFiles:
    @pytest.mark.parametrize(
        ("glob", "found"),
        [
            ("*.py", ["src/a.py", "src/deep/b.py"]),
            ("src/*.py", ["src/a.py"]),
            ("src/**/*.py", ["src/a.py", "src/deep/b.py"]),
            ("./**/b.py", ["src/deep/b.py"]),
            ("*.{md,py}", ["README.md", "src/a.py", "src/deep/b.py"]),
            ("deep", ["src/deep/b.py"]),
            ("src/deep/", ["src/deep/b.py"]),
            ("/README.md", ["README.md"]),
            ("**/.gitignore", [".gitignore"]),
        ],
    )
    def test_globs(self, repo: Path, glob: str, found: list[str]) -> None:
        (repo / "src" / "deep").mkdir()
        (repo / "src" / "deep" / "b.py").touch()
        lines = call(find_files, repo, glob=glob).text.splitlines()
        assert lines == [f"{len(found)} file{'s' * (len(found) > 1)} found:", *found]

    def test_nothing(self, repo: Path) -> None:
        assert call(find_files, repo, glob="*.log").text == "No file matches *.log (3 files checked)."
        assert call(find_files, repo, glob="[").text == "No file matches [ (3 files checked)."
        with pytest.raises(ToolArgsInvalid):
            call(find_files, repo, glob=" ")

    @pytest.mark.parametrize(
        ("glob", "hint"),
        [
            ("lib/**/*.py", " In other directories:\nsrc/a.py"),
            ("src/README.{md,rst}", " In other directories:\nREADME.md"),
            ("lib/**/*.rs", ""),
            ("lib/**", ""),
            ("lib/", ""),
        ],
    )
    def test_a_wrong_directory_is_told_from_a_wrong_name(self, repo: Path, glob: str, hint: str) -> None:
        text = call(find_files, repo, glob=glob).text
        assert text == f"No file matches {glob} (3 files checked).{hint}"


class TestWriteFile:
    def test_create(self, repo: Path) -> None:
        outcome = call(write_file, repo, path="./new//dir/x.txt", content="a\nb\n")
        assert outcome == Outcome(
            "Created new/dir/x.txt (2 lines).", changes=(FileChange("new/dir/x.txt", None, b"a\nb\n"),)
        )
        assert not (repo / "new").exists()

    def test_overwrite(self, repo: Path) -> None:
        outcome = call(write_file, repo, path="README.md", content="# New\n\ntext")
        assert outcome == Outcome(
            "Overwrote README.md (was 1 line, is 3 lines).",
            changes=(FileChange("README.md", b"# Title\n", b"# New\n\ntext"),),
        )

    def test_same_content(self, repo: Path) -> None:
        assert call(write_file, repo, path="README.md", content="# Title\n") == Outcome(
            "Nothing changed: README.md already has this content."
        )

    def test_line_endings_and_byte_order_mark_are_kept(self, repo: Path) -> None:
        (repo / "win.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
        (change,) = call(write_file, repo, path="win.txt", content="x\ny\n").changes
        assert change.after == b"\xef\xbb\xbfx\r\ny\r\n"
        (repo / "mixed.txt").write_bytes(b"a\r\nb\n")
        (change,) = call(write_file, repo, path="mixed.txt", content="x\ny\n").changes
        assert change.after == b"x\ny\n"

    def test_syntax_errors_are_told(self, repo: Path) -> None:
        outcome = call(write_file, repo, path="bad.py", content="def f(:\n")
        assert outcome.text.startswith("Created bad.py (1 line).\n")
        assert "line 1" in outcome.text
        assert len(outcome.changes) == 1

    def test_encoding_is_told(self, repo: Path) -> None:
        (repo / "latin").write_bytes(b"caf\xe9\n")
        assert call(write_file, repo, path="latin", content="café\n").text.endswith(
            "It was not UTF-8 before; it is now."
        )

    @pytest.mark.parametrize(
        ("path", "content", "error"),
        [
            ("src", "x", "src is a directory"),
            ("src/", "x", "is a directory"),
            (".", "x", "is the repository root"),
            ("a.txt", "\ud800", "half of a surrogate pair"),
            ("a.txt", "\0", "NUL character"),
            ("../x", "x", "outside the repository"),
            (".git/hooks/x", "x", "must not"),
            (".env", "A=1", "may contain secrets"),
        ],
    )
    def test_refusals(self, repo: Path, path: str, content: str, error: str) -> None:
        with pytest.raises(ToolError, match=error):
            call(write_file, repo, path=path, content=content)

    def test_boundaries_hold_when_it_is_applied(self, repo: Path) -> None:
        workspace = DiskWorkspace(repo, [Boundaries(["src/**"])])
        context = ToolContext(workspace, lambda text: "saved")
        outcome = write_file.function(context, write_file.parse({"path": "src/a.py", "content": "x = 1\n"}))
        assert isinstance(outcome, Outcome)
        with pytest.raises(ToolDenied, match=r"src/a\.py is out of bounds for this task"):
            workspace.apply(outcome.changes)

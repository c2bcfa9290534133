"""Search shows what matches, and ends whatever the pattern is."""

from pathlib import Path
from typing import Any

import pytest

from headgate.errors import ToolArgsInvalid, ToolDenied, ToolFailed
from headgate.guard import SecretFiles
from headgate.tools import Outcome, ToolContext, search
from headgate.tools.searching import SearchHits, SearchLimits, search_lines
from headgate.tree import DiskWorkspace


def run(root: Path, limit: int = 16_000, **arguments: Any) -> str:
    context = ToolContext(
        DiskWorkspace(root, [SecretFiles(root=root)]),
        lambda text: "saved",
        result_chars=limit,
    )
    outcome = search.function(context, search.parse(arguments))
    assert isinstance(outcome, Outcome)
    assert len(outcome.text) <= limit
    outcome.text.encode()
    return outcome.text


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    files = {
        "src/a.py": b"import os\n\ndef load_files(x):\n    return x\n",
        "src/b.py": b"import sys\r\nDEF = 1\r\n",
        "src/deep/c.txt": "größe = 1\ndef ünï(): pass\n".encode(),
        ".hidden/d.py": b"import hidden\n",
        ".gitignore": b"ignored/\n*.log\n",
        "ignored/e.py": b"import ignored\n",
        "f.log": b"import log\n",
        ".env": b"import secret\n",
        "binary": b"import \0 binary\n",
        "latin": b"import caf\xe9\n",
        "with space.py": b"import space\n",
        "-dash.py": b"import dash\n",
        ".git/config": b"import config\n",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


class TestSearch:
    def test_everything_that_may_be_seen(self, repo: Path) -> None:
        assert run(repo, pattern="import").splitlines() == [
            "-dash.py:1: import dash",
            ".hidden/d.py:1: import hidden",
            "latin:1: import caf\ufffd",
            "src/a.py:1: import os",
            "src/b.py:1: import sys",
            "with space.py:1: import space",
        ]

    @pytest.mark.parametrize(
        ("pattern", "lines"),
        [
            (r"^def \w+\(", ["src/a.py:3: def load_files(x):", "src/deep/c.txt:2: def ünï(): pass"]),
            (
                r"(?i)^def",
                [
                    "src/a.py:3: def load_files(x):",
                    "src/b.py:2: DEF = 1",
                    "src/deep/c.txt:2: def ünï(): pass",
                ],
            ),
            (r"sys$", ["src/b.py:1: import sys"]),
            (r"1\Z", ["src/b.py:2: DEF = 1", "src/deep/c.txt:1: größe = 1"]),
            (r"(?<=return )x", ["src/a.py:4:     return x"]),
            (r"(s)y\1", ["src/b.py:1: import sys"]),
            (r"gr[äöü]ße", ["src/deep/c.txt:1: größe = 1"]),
            (r"\bünï\b", ["src/deep/c.txt:2: def ünï(): pass"]),
            (r"caf.$", ["latin:1: import caf\ufffd"]),
            (r"import\s+(?:os|sys)", ["src/a.py:1: import os", "src/b.py:1: import sys"]),
            (r"^\s*$", ["src/a.py:2: "]),
        ],
    )
    def test_patterns(self, repo: Path, pattern: str, lines: list[str]) -> None:
        assert run(repo, pattern=pattern).splitlines() == lines

    def test_place(self, repo: Path) -> None:
        expected = "src/a.py:1: import os"
        assert run(repo, pattern="import", path="src/a.py") == expected
        assert run(repo, pattern="import", path="src", glob="a.*") == expected
        assert run(repo, pattern="import", glob="src/{a,c}*") == expected
        assert run(repo, pattern="import", path="src", glob="/a.py") == expected
        assert run(repo, pattern="import", path="ignored") == "ignored/e.py:1: import ignored"
        assert run(repo, pattern="import", path="f.log") == "f.log:1: import log"
        (repo / ".headgate" / "outputs").mkdir(parents=True)
        (repo / ".headgate" / "outputs" / "1.txt").write_text("import saved\n")
        saved = ".headgate/outputs/1.txt:1: import saved"
        assert run(repo, pattern="saved", path=".headgate/outputs") == saved
        assert run(repo, pattern="saved", path=".headgate/outputs/1.txt") == saved
        assert run(repo, pattern="saved") == "No match in 9 files."

    def test_nothing_found(self, repo: Path) -> None:
        assert run(repo, pattern="nowhere") == "No match in 9 files."
        assert run(repo, pattern="import", path="binary") == "No match in 1 file."
        assert run(repo, pattern=r"os\ndef") == "No match in 9 files. Patterns match within one line."

    def test_not_a_regular_expression(self, repo: Path) -> None:
        lines = run(repo, pattern="load_files(").splitlines()
        assert lines[0] == "src/a.py:3: def load_files(x):"
        assert lines[1].startswith("[searched as plain text: not a valid regular expression (missing )")
        assert len(lines) == 2
        assert "searched as plain text" in run(repo, pattern="x{99999999999999999999}")
        assert "searched as plain text" in run(repo, pattern="(" * 5000 + ")" * 5000)

    def test_too_much(self, repo: Path) -> None:
        (repo / "many").write_text("needle\n" * 500)
        (repo / "more").write_text("needle\n")
        lines = run(repo, pattern="needle").splitlines()
        assert len(lines) == 201
        assert lines[0] == "many:1: needle"
        assert lines[-1] == "[200 of 501 matches in 2 files shown; narrow it down]"
        assert run(repo, limit=300, pattern="needle").endswith(
            " of 501 matches in 2 files shown; narrow it down]"
        )

    def test_long_lines_show_where_the_match_is(self, repo: Path) -> None:
        (repo / "min.js").write_text("a" * 5000 + "needle" + "b" * 5000)
        text = run(repo, pattern="needle")
        assert text.startswith("min.js:1: ...aaa")
        assert "needle" in text
        assert text.endswith("bbb...")
        assert len(text) < 350

    def test_refusals(self, repo: Path) -> None:
        with pytest.raises(ToolArgsInvalid, match="empty"):
            run(repo, pattern="")
        with pytest.raises(ToolDenied, match="secrets"):
            run(repo, pattern="x", path=".env")
        with pytest.raises(ToolDenied, match="outside"):
            run(repo, pattern="x", path="..")
        with pytest.raises(ToolFailed, match=r"srcs does not exist\. Did you mean src\?"):
            run(repo, pattern="x", path="srcs")


def test_pattern_that_never_ends_is_stopped() -> None:
    """Backtracking over this line would take longer than the universe has been there."""
    contents = {"a": b"fine\n", "b": b"a" * 200 + b"!\n", "c": b"fine\n"}
    limits = SearchLimits(shown=10, width=100, seconds=1.0)
    found = search_lines(r"^(a+)+$|fine", contents.__getitem__, list(contents), limits)
    assert found == SearchHits(lines=[("a", 1, "fine")], matches=1, files=1, left=2)


def test_file_that_cannot_be_read_is_told(repo: Path) -> None:
    (repo / "large").write_bytes(b"import\n" * 100)
    workspace = DiskWorkspace(repo, max_bytes=500)
    context = ToolContext(workspace, lambda text: "saved")
    outcome = search.function(context, search.parse({"pattern": "import", "glob": "{large,latin}"}))
    assert isinstance(outcome, Outcome)
    assert outcome.text == "latin:1: import caf\ufffd\n[1 files were skipped: too large or unreadable]"

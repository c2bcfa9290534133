"""Search gives the same with ripgrep and without, and ends whatever the pattern is."""

import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headgate.errors import ToolArgsInvalid, ToolDenied, ToolFailed
from headgate.guard import SecretFiles
from headgate.tools import Outcome, ToolContext, search
from headgate.tools.ripgrep_pattern import prefilter
from headgate.tools.searching import SearchHits, search_lines
from headgate.tree import DiskWorkspace

RIPGREP = shutil.which("rg")
ENGINES = [None, pytest.param(RIPGREP, marks=pytest.mark.skipif(RIPGREP is None, reason="needs ripgrep"))]


def run(root: Path | DiskWorkspace, ripgrep: str | None, limit: int = 16_000, **arguments: Any) -> str:
    context = ToolContext(
        root if isinstance(root, DiskWorkspace) else DiskWorkspace(root, [SecretFiles(root=root)]),
        lambda text: "saved",
        ripgrep=ripgrep,
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


@pytest.mark.parametrize("ripgrep", ENGINES)
class TestSearch:
    def test_everything_that_may_be_seen(self, repo: Path, ripgrep: str | None) -> None:
        assert run(repo, ripgrep, pattern="import").splitlines() == [
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
    def test_patterns(self, repo: Path, ripgrep: str | None, pattern: str, lines: list[str]) -> None:
        assert run(repo, ripgrep, pattern=pattern).splitlines() == lines

    def test_place(self, repo: Path, ripgrep: str | None) -> None:
        expected = "src/a.py:1: import os"
        assert run(repo, ripgrep, pattern="import", path="src/a.py") == expected
        assert run(repo, ripgrep, pattern="import", path="src", glob="a.*") == expected
        assert run(repo, ripgrep, pattern="import", glob="src/{a,c}*") == expected
        assert run(repo, ripgrep, pattern="import", path="src", glob="/a.py") == expected
        assert run(repo, ripgrep, pattern="import", path="ignored") == "ignored/e.py:1: import ignored"
        assert run(repo, ripgrep, pattern="import", path="f.log") == "f.log:1: import log"
        (repo / ".headgate" / "outputs").mkdir(parents=True)
        (repo / ".headgate" / "outputs" / "1.txt").write_text("import saved\n")
        saved = ".headgate/outputs/1.txt:1: import saved"
        assert run(repo, ripgrep, pattern="saved", path=".headgate/outputs") == saved
        assert run(repo, ripgrep, pattern="saved", path=".headgate/outputs/1.txt") == saved
        assert run(repo, ripgrep, pattern="saved") == "No match in 9 files."

    def test_nothing_found(self, repo: Path, ripgrep: str | None) -> None:
        assert run(repo, ripgrep, pattern="nowhere") == "No match in 9 files."
        assert run(repo, ripgrep, pattern="import", path="binary") == "No match in 1 file."
        assert (
            run(repo, ripgrep, pattern=r"os\ndef") == "No match in 9 files. Patterns match within one line."
        )

    def test_not_a_regular_expression(self, repo: Path, ripgrep: str | None) -> None:
        lines = run(repo, ripgrep, pattern="load_files(").splitlines()
        assert lines[0] == "src/a.py:3: def load_files(x):"
        assert lines[1].startswith("[searched as plain text: not a valid regular expression (missing )")
        assert len(lines) == 2
        assert "searched as plain text" in run(repo, ripgrep, pattern="x{99999999999999999999}")
        assert "searched as plain text" in run(repo, ripgrep, pattern="(" * 5000 + ")" * 5000)

    def test_too_much(self, repo: Path, ripgrep: str | None) -> None:
        (repo / "many").write_text("needle\n" * 500)
        (repo / "more").write_text("needle\n")
        lines = run(repo, ripgrep, pattern="needle").splitlines()
        assert len(lines) == 201
        assert lines[0] == "many:1: needle"
        assert lines[-1] == "[200 of 501 matches in 2 files shown; narrow it down]"
        assert run(repo, ripgrep, limit=300, pattern="needle").endswith(
            " of 501 matches in 2 files shown; narrow it down]"
        )

    def test_long_lines_show_where_the_match_is(self, repo: Path, ripgrep: str | None) -> None:
        (repo / "min.js").write_text("a" * 5000 + "needle" + "b" * 5000)
        text = run(repo, ripgrep, pattern="needle")
        assert text.startswith("min.js:1: ...aaa")
        assert "needle" in text
        assert text.endswith("bbb...")
        assert len(text) < 350

    def test_refusals(self, repo: Path, ripgrep: str | None) -> None:
        with pytest.raises(ToolArgsInvalid, match="empty"):
            run(repo, ripgrep, pattern="")
        with pytest.raises(ToolDenied, match="secrets"):
            run(repo, ripgrep, pattern="x", path=".env")
        with pytest.raises(ToolDenied, match="outside"):
            run(repo, ripgrep, pattern="x", path="..")
        with pytest.raises(ToolFailed, match=r"srcs does not exist\. Did you mean src\?"):
            run(repo, ripgrep, pattern="x", path="srcs")


def test_pattern_that_never_ends_is_stopped() -> None:
    """Backtracking over this line would take longer than the universe has been there."""
    contents = {"a": b"fine\n", "b": b"a" * 200 + b"!\n", "c": b"fine\n"}
    found = search_lines(r"^(a+)+$|fine", contents.__getitem__, lambda literally: list(contents), 1.0)
    assert found == SearchHits(lines=[("a", 1, "fine")], matches=1, files=1, left=2)


def test_file_that_cannot_be_read_is_told(repo: Path) -> None:
    (repo / "large").write_bytes(b"import\n" * 100)
    workspace = DiskWorkspace(repo, max_bytes=500)
    context = ToolContext(workspace, lambda text: "saved")
    outcome = search.function(context, search.parse({"pattern": "import", "glob": "{large,latin}"}))
    assert isinstance(outcome, Outcome)
    assert outcome.text == "latin:1: import caf\ufffd\n[1 files were skipped: too large or unreadable]"


CHARS = "aAbiIkKsS_1 .-\t\r²éſıİK\u0301\x1c\u2028"
LINE = st.binary(max_size=4) | st.text(alphabet=CHARS, max_size=8).map(str.encode)
DATA = st.lists(LINE, max_size=4).map(b"\n".join) | st.lists(LINE, max_size=3).map(b"\r\n".join)
ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "i",
        "k",
        "s",
        "S",
        "_",
        "1",
        " ",
        "é",
        "ı",
        "²",
        ".",
        r"\w",
        r"\W",
        r"\d",
        r"\D",
        r"\s",
        r"\S",
        r"\b",
        r"\B",
    ]
) | st.sampled_from(
    [
        "^",
        "$",
        "[ab]",
        "[^a]",
        r"[\w-]",
        r"[^\s]",
        "[a-k]",
        "[éa]",
        "[^é]",
        r"\.",
        r"\t",
        "(a|b)",
        "(?:i)",
        "(?P<n>k)",
        "|",
    ]
)
PATTERNS = st.builds(
    lambda flags, parts: flags + "".join(atom + repeat for atom, repeat in parts),
    st.sampled_from(["", "", "(?i)", "(?m)", "(?a)", "(?ai)"]),
    st.lists(
        st.tuples(ATOMS, st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{,2}", "{1,}", "+?", "*+"])),
        min_size=1,
        max_size=4,
    ),
)


@pytest.mark.skipif(RIPGREP is None, reason="needs ripgrep")
@settings(max_examples=40)
@given(st.lists(DATA, min_size=1, max_size=6), PATTERNS)
def test_same_with_and_without_ripgrep(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], pattern: str
) -> None:
    try:
        re.compile(pattern)
    except re.error:
        assume(False)
    root = tmp_path_factory.mktemp("trees")
    for number, data in enumerate(contents):
        (root / f"f{number}").write_bytes(data)
    assert run(root, RIPGREP, pattern=pattern) == run(root, None, pattern=pattern)


@pytest.mark.parametrize("ripgrep", ENGINES)
def test_every_change_shows_in_a_tree_that_was_at_rest(repo: Path, ripgrep: str | None) -> None:
    time.sleep(2.2)  # from now on the times of these folders tell whether they have changed
    workspace = DiskWorkspace(repo, [SecretFiles(root=repo)])

    def found() -> list[str]:
        lines = run(workspace, ripgrep, pattern="^import ").splitlines()
        return [line.partition(":")[0] for line in lines]

    first = ["-dash.py", ".hidden/d.py", "latin", "src/a.py", "src/b.py", "with space.py"]
    assert (found(), found()) == (first, first)
    (repo / "src/deep/c.txt").write_text("import c\n")
    assert found() == [*first[:-1], "src/deep/c.txt", "with space.py"]
    (repo / ".gitignore").write_text("*.log\nsrc/*.py\n")
    (repo / "ignored/new.py").write_text("import new\n")
    ignored = ["ignored/e.py", "ignored/new.py"]
    assert found() == [*first[:2], *ignored, "latin", "src/deep/c.txt", "with space.py"]


def test_ripgrep_is_really_used_for_common_patterns() -> None:
    """Each of these has a wider form; a pattern without one is searched by Python alone."""
    for pattern in ("import", r"def \w+\(", r"^class .*:$", r"(?i)todo", r"foo|bar", r"x{2,3}", r"[^abc]+"):
        assert prefilter(pattern) is not None
    for pattern in (r"(?<=a)b", r"(a)\1", r"(?x)a", r"a\nb", r"\x41", r"(?(1)a|b)", "(?s:a)"):
        assert prefilter(pattern) is None

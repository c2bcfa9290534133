"""What a model is told of a repository before it has looked."""

from pathlib import Path

import pytest

from headgate.guard import SecretFiles
from headgate.run.first_messages import LISTED, LISTED_CHARS, list_files
from headgate.tree import DiskWorkspace


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    for name in (".git/HEAD", "node_modules/a/index.js", "src/deep/a.py", ".gitignore", ".env", "b c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("node_modules\n")
    (tmp_path / "empty").mkdir()
    return tmp_path


def told(repo: Path) -> list[str]:
    return list_files(DiskWorkspace(repo, [SecretFiles(root=repo)])).splitlines()


def test_a_few_files_are_all_told(repo: Path) -> None:
    assert told(repo) == ["Files in the repository:", ".gitignore", "b c.py", "src/deep/a.py"]


def test_of_many_files_only_the_directories_are_told(repo: Path) -> None:
    for number in range(LISTED):
        (repo / f"test_{number}.py").touch()
    (repo / "tests").mkdir()
    (repo / "tests" / "test_a.py").touch()
    (repo / "tests" / "test_b.py").touch()
    assert told(repo) == [
        "Directories and their number of files:",
        "src/ (1)",
        "tests/ (2)",
    ]


def test_long_names_are_not_all_told(repo: Path) -> None:
    for number in range(30):
        (repo / f"{'x' * 200}{number}.py").touch()
    lines = told(repo)
    assert len("\n".join(lines)) <= LISTED_CHARS
    assert lines[-1].startswith("[... ")


def test_an_empty_repository_is_not_told_of(tmp_path: Path) -> None:
    assert told(tmp_path) == []

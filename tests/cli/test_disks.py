"""A repository on a disk that is full, or mounted read-only: a sentence that says what to do, and exit 3."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import SCRIPT, headgate

Mount = Callable[[str], object]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts the small disk that the repository is on with other options."""
    place = tmp_path / "repo"
    place.mkdir()

    def mount(options: str) -> None:
        subprocess.run(["mount", "-o", options, "-t", "tmpfs", "none", str(place)], check=True)

    words = ["mount", "-o", "size=3m", "-t", "tmpfs", "none", str(place)]
    if os.geteuid() or subprocess.run(words, check=False).returncode:
        pytest.skip("only root can mount a small disk, and only where mounts are allowed")
    try:
        subprocess.run(["git", "init", "-q", str(place)], check=True)
        (place / "script.yaml").write_text(SCRIPT)
        (place / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:script.yaml\n")
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def failure(repo: Path, *words: str) -> str:
    done = headgate(repo, *words)
    assert done.returncode == 3, done
    return " ".join(done.stderr.split()) or done.stdout


def test_a_disk_that_is_mounted_read_only(tmp_path: Path, mount: Mount) -> None:
    repo = tmp_path / "repo"
    assert headgate(repo, "run", "Write new.txt").returncode == 0
    mount("remount,ro")
    advice = "Read-only file system: mount it writable, or work in a copy of the repository elsewhere"
    for words in (["run", "Do it"], ["submit", "Do it"], ["undo"], ["init", "--force"]):
        assert advice in failure(repo, *words)
    assert advice in headgate(repo, "doctor").stdout
    mount("remount,rw")
    subprocess.run(["rm", "-r", str(repo / ".headgate")], check=True)
    mount("remount,ro")
    assert failure(repo, "run", "Do it") == f"headgate: {repo}/.headgate: {advice}."


def test_a_disk_that_is_full(tmp_path: Path, mount: Mount) -> None:
    repo = tmp_path / "repo"
    fill = subprocess.run(
        ["dd", "if=/dev/zero", f"of={repo / 'fill'}"], stderr=subprocess.DEVNULL, check=False
    )
    assert fill.returncode == 1
    assert "free some space and run" in failure(repo, "run", "Do it")
    assert "No space left on device: free some space and run it again." in failure(repo, "init", "--force")

"""What a killed process left running is ended, and nothing that belongs to somebody else is hit."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.process import kill_leftovers, kill_own_commands
from headgate.process.reaper import new_mark

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

STARTER = Path(__file__).with_name("command_starter.py")
PATIENCE = 180.0
"""Seconds after which a test gives up; nothing takes that long unless it hangs."""

Start = Callable[..., "subprocess.Popen[bytes]"]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that its parent has not noticed yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def pids(note: Path, count: int) -> list[int]:
    """The numbers that the processes of a command have written down."""
    until(lambda: note.exists() and len(note.read_text().split()) == count)
    return [int(word) for word in note.read_text().split()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process that runs a command in a directory; what is left of all that is gone at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(directory: Path, command: str, *options: str) -> "subprocess.Popen[bytes]":
        words = [sys.executable, str(STARTER), str(directory), command, *options]
        started.append(subprocess.Popen(words, stdout=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()
    for note in tmp_path.rglob("pids*"):
        for word in note.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(word), 9)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def repository(path: Path) -> Path:
    (path / ".headgate").mkdir(parents=True)
    return path


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def test_nothing_is_left(repo: Path) -> None:
    assert kill_leftovers(repo) == 0


def test_a_command_with_all_that_it_started(repo: Path, start: Start) -> None:
    note = repo / "pids"
    command = (
        f"sleep 600 & echo $! >> {note}; "
        f"setsid sh -c 'echo $$ >> {note}; exec sleep 600' & "  # left the group, kept the mark
        f"env -i /bin/sh -c 'echo $$ >> {note}; exec sleep 600' & "  # kept the group, dropped the mark
        f"echo $$ >> {note}; trap '' TERM; while :; do sleep 0.1; done"  # does not listen
    )
    owner = start(repo, command)
    left = pids(note, 4)
    kill(owner)
    assert [alive(pid) for pid in left] == [True] * 4
    assert kill_leftovers(repo) >= 4
    until(lambda: not any(map(alive, left)))
    assert kill_leftovers(repo) == 0


def test_a_command_in_a_package_of_the_repository(repo: Path, start: Start) -> None:
    (repo / "packages" / "api").mkdir(parents=True)
    owner = start(repo / "packages" / "api", f"echo $$ > {repo}/pids; exec sleep 600")
    (pid,) = pids(repo / "pids", 1)
    kill(owner)
    assert kill_leftovers(repo) == 1
    assert not alive(pid)


def test_the_repository_under_another_name(repo: Path, start: Start) -> None:
    link = repo.parent / "link"
    link.symlink_to(repo)
    owner = start(link, f"echo $$ > {repo}/pids; exec sleep 600")
    (pid,) = pids(repo / "pids", 1)
    kill(owner)
    assert kill_leftovers(link) == 1
    assert not alive(pid)


@pytest.mark.parametrize("elsewhere", ["other", "repo-2", "repo/inner", "."])
def test_leftovers_of_another_repository_are_not_ours(
    repo: Path, elsewhere: str, tmp_path: Path, start: Start
) -> None:
    """Beside it, with a name that begins alike, inside it, around it."""
    other = tmp_path / elsewhere
    repository(other)
    owner = start(other, f"echo $$ > {tmp_path}/pids; exec sleep 600")
    (pid,) = pids(tmp_path / "pids", 1)
    kill(owner)
    assert kill_leftovers(repo) == 0
    assert alive(pid)
    assert kill_leftovers(other) == 1
    assert not alive(pid)


def test_a_command_whose_starter_lives_is_no_leftover(repo: Path, start: Start) -> None:
    start(repo, f"echo $$ > {repo}/pids; exec sleep 600")
    (pid,) = pids(repo / "pids", 1)
    assert kill_leftovers(repo) == 0
    assert alive(pid)


def test_of_commands_inside_a_living_command_only_those_without_a_starter_go(
    repo: Path, start: Start
) -> None:
    """A command runs a starter of its own, which dies: what that one started is a leftover, and no more."""
    outer, inner = repo / "pids-outer", repo / "pids-inner"
    nested = f"{sys.executable} {STARTER} {repo} 'echo $$ > {inner}; exec sleep 600' & echo $! $$ > {outer}; "
    start(repo, nested + "wait; exec sleep 600")
    starter, command = pids(outer, 2)
    (pid,) = pids(inner, 1)
    assert kill_leftovers(repo) == 0
    assert [alive(starter), alive(command), alive(pid)] == [True] * 3
    os.kill(starter, 9)
    until(lambda: not alive(starter))
    assert kill_leftovers(repo) == 1
    assert [alive(command), alive(pid)] == [True, False]


def test_everything_inside_a_leftover_goes_with_it(repo: Path, tmp_path: Path, start: Start) -> None:
    """A command that runs a starter in another repository: with the first starter gone, all are leftovers."""
    other, inner = repository(tmp_path / "other"), repo / "pids"
    nested = f"exec {sys.executable} {STARTER} {other} 'echo $PPID $$ > {inner}; exec sleep 600'"
    owner = start(repo, nested)
    left = pids(inner, 2)
    kill(owner)
    assert kill_leftovers(other) == 0
    assert [alive(pid) for pid in left] == [True, True]
    assert kill_leftovers(repo) == 2
    until(lambda: not any(map(alive, left)))  # one that is killed takes a moment to die


def test_who_looks_for_leftovers_does_not_end_itself(repo: Path, start: Start) -> None:
    """A process inside a leftover that takes the repository over."""
    script = (
        "import os, time; from pathlib import Path; from headgate.process.reaper import kill_leftovers\n"
        f"repo = Path({str(repo)!r})\n"
        "while not (repo / 'go').exists(): time.sleep(0.02)\n"
        "(repo / 'new').write_text(str(kill_leftovers(repo))); (repo / 'new').rename(repo / 'killed')\n"
        "time.sleep(600)\n"
    )
    (repo / "look.py").write_text(script)
    owner = start(repo, f"echo $$ > {repo}/pids; {sys.executable} look.py; exec sleep 600")
    (pid,) = pids(repo / "pids", 1)
    kill(owner)
    (repo / "go").touch()
    until((repo / "killed").exists)
    assert (repo / "killed").read_text() == "0"
    assert alive(pid)
    assert kill_leftovers(repo) == 2
    assert not alive(pid)


@pytest.mark.parametrize("value", ["1", "", "0.1.2 {repo}", "x.y.z {repo}", "1.2 {repo}"])
def test_marks_that_say_nothing_are_left_alone(repo: Path, value: str) -> None:
    """Those of another program, or of a process in another container."""
    environment = {**os.environ, "_HEADGATE_COMMAND_other": value.format(repo=repo)}
    with subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True) as process:
        assert kill_leftovers(repo) == 0
        assert process.poll() is None
        process.kill()


def test_a_mark_names_this_process_and_the_place(repo: Path) -> None:
    (name, value), (other, same) = new_mark(repo), new_mark(repo)
    assert name != other
    assert value == same
    assert value.endswith(f" {repo.resolve()}")
    assert f".{os.getpid()}." in value


def test_a_process_kills_its_own_commands_at_once_and_no_others(repo: Path, start: Start) -> None:
    note, other_note = repo / "pids", repo / "pids-other"
    start(repo, f"echo $$ > {other_note}; exec sleep 600")
    (other,) = pids(other_note, 1)
    command = f"trap '' TERM; setsid sh -c 'echo $$ >> {note}; exec sleep 600' & echo $$ >> {note}; sleep 600"
    own = start(repo, command, "forget")
    left = pids(note, 2)
    own.terminate()
    assert own.wait() == 3
    until(lambda: not any(map(alive, left)))
    assert alive(other)
    assert kill_own_commands() == 0
    assert alive(other)

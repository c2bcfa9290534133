"""Ending processes: found in /proc, asked to end, then killed; and what a killed one left running."""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from headgate.core import OWN_FOLDER
from headgate.first_use import dataclass

_GRACE_SECONDS = 1.0
_KILL_ROUNDS = 1000
_PAUSE = 0.01
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process. Its number together with its start is never given to another one."""

    pid: int
    started: int
    """In ticks since the machine was started."""
    parent: int = field(compare=False)
    group: int = field(compare=False)
    session: int = field(compare=False)


def can_see_processes() -> bool:
    """Whether this system tells about its processes."""
    return (_PROC / "self" / "stat").exists()


def find_process(pid: int) -> RunningProcess | None:
    """A process that runs; None if there is none such, or only what is left of one."""
    try:
        # The name in parentheses may hold anything, so the fields are counted from its end.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return None
        parent, group, session = map(int, fields[1:4])
        return RunningProcess(pid, int(fields[19]), parent, group, session)
    except (OSError, ValueError, IndexError):
        return None  # gone by now, or not ours to look at


def running_processes() -> Iterator[RunningProcess]:
    """Every process that runs."""
    with os.scandir(_PROC) as scan:
        for entry in scan:
            if entry.name.isdigit() and (found := find_process(int(entry.name))):
                yield found


def environment_of(pid: int) -> bytes:
    """The variables that a process was started with, each ended by a NUL; nothing where they are hidden."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        if pid == os.getpid():  # a process that has run a command is closed, even to itself
            return b"".join(b"%s=%s\0" % one for one in os.environb.items())
        return b""  # gone by now, or another user's


def send_signal(found: RunningProcess, number: signal.Signals) -> None:
    """Signals a process; its number is held fast first, so no other can be hit."""
    try:
        held = os.pidfd_open(found.pid)
    except (AttributeError, OSError):
        return  # gone; where the kernel has no such call the signal to the group has to do
    try:
        if find_process(found.pid) == found:
            signal.pidfd_send_signal(held, number)
    except OSError:
        return  # gone between the two
    finally:
        os.close(held)


def end_until_gone(
    look: Callable[[], set[RunningProcess]],
    signal_them: Callable[[set[RunningProcess], signal.Signals], None],
    *,
    grace: float = _GRACE_SECONDS,
) -> set[RunningProcess]:
    """Ends whatever `look` finds until it finds nothing; returns all that were met.

    Blocks until they are gone, for about `grace` seconds where they do not listen; without any, they are
    killed at once. A process that the kernel does not let go of is given up after a while.
    """
    met = alive = look()
    if alive and grace:
        deadline = time.monotonic() + grace
        signal_them(alive, signal.SIGTERM)
        while (alive := look()) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
    for _ in range(_KILL_ROUNDS):  # each round also meets what was forked during the last one
        if not alive:
            break
        signal_them(alive, signal.SIGKILL)
        time.sleep(_PAUSE)
        alive = look()
        met = met | alive
    return met


def end_processes(process: "subprocess.Popen[bytes]", marker: str) -> None:
    """Terminates, and shortly after kills, a command's group and all that carry its marker; then reaps it.

    The command itself must not have been reaped yet on Linux: as long as it is not, no other group can have
    its number. Blocks until they are gone, for about a second where they do not listen.
    """

    def signal_them(alive: set[RunningProcess], number: signal.Signals) -> None:
        # Gone by now, or another user's: either way the next look decides.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        for found in alive:
            if found.group != process.pid:
                send_signal(found, number)

    end_until_gone(lambda: _alive(process, marker.encode()), signal_them)
    # A process that the kernel does not let go of (a dead network disk) must not hold the runtime as well.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def _alive(process: "subprocess.Popen[bytes]", marker: bytes) -> set[RunningProcess]:
    """Processes of the group or with the marker that still run."""
    if not can_see_processes():
        return _alive_by_group(process)
    return {
        found
        for found in running_processes()
        if found.group == process.pid or marker in environment_of(found.pid)
    }


def _alive_by_group(process: "subprocess.Popen[bytes]") -> set[RunningProcess]:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return set()
    except PermissionError:
        # macOS says this of a group in which only zombies are left.
        return set()
    return {RunningProcess(process.pid, 0, parent=os.getpid(), group=process.pid, session=process.pid)}


# What a process that was killed leaves running in its repository.


_PREFIX = "_HEADGATE_COMMAND_"


def new_mark(directory: Path) -> tuple[str, str]:
    """The variable that marks a command, and all that it starts: a name of its own, and whose it is.

    The name is what is unique, so commands inside commands carry the marks of all of them.
    """
    return _PREFIX + uuid.uuid4().hex, f"{_owner(os.getpid())} {os.path.realpath(directory)}"


def is_marked() -> bool:
    """Whether this process is a part of a command."""
    return any(name.startswith(_PREFIX) for name in os.environ)


def kill_leftovers(repo: Path) -> int:
    """Ends what processes that are gone left running in a repository; returns how many processes that were.

    Only for who holds the repository's lock. Not hit are commands whose starter lives, those of another
    repository, be it one inside this, and the command, if any, that this process is itself a part of. Blocks
    for about a second where they do not listen. Does nothing on systems that have no /proc.
    """
    root = Path(os.path.realpath(repo))
    inside = {name for name in os.environ if name.startswith(_PREFIX)}

    def is_leftover(name: str, owner: str, place: Path) -> bool:
        return name not in inside and _is_of(root, place) and _is_gone(owner)

    return len(_end_marked(is_leftover))


def is_inside_command(repo: Path) -> bool:
    """Whether a command of this repository has started this process, directly or through others.

    A command that leaves its ancestors and clears its environment is not found; a sandbox stops that one.
    """
    root = Path(os.path.realpath(repo))
    own = os.getpid()
    pids = [own, *(found.pid for found in _ancestry(own))] if can_see_processes() else [own]
    return any(_is_of(root, place) for pid in pids for _, _, place in _marks(pid))


def kill_own_commands() -> int:
    """Kills, without asking first, every command that this process runs with all that they started."""
    own = _owner(os.getpid())
    return len(_end_marked(lambda name, owner, place: owner == own, grace=0))


def _end_marked(is_meant: Callable[[str, str, Path], bool], **options: float) -> set[RunningProcess]:
    """Ends the processes with a mark that is meant, and what shares a session with one of them.

    Each command has a session of its own, so what drops its variables is still known by that.
    """
    if not can_see_processes():
        return set()
    spared = set(_ancestry(os.getpid()))
    own_session = os.getsid(0)

    def look() -> set[RunningProcess]:
        there = set(running_processes()) - spared
        marked = {found for found in there if any(is_meant(*mark) for mark in _marks(found.pid))}
        sessions = {found.session for found in marked} - {own_session}
        return marked | {found for found in there if found.session in sessions}

    def signal_them(alive: set[RunningProcess], number: signal.Signals) -> None:
        for found in alive:
            send_signal(found, number)

    return end_until_gone(look, signal_them, **options)


def _marks(pid: int) -> Iterator[tuple[str, str, Path]]:
    """The marks that a process carries: each one's name, who made it, and where the command ran."""
    for variable in environment_of(pid).split(b"\0"):
        if variable.startswith(_PREFIX.encode()):
            name, _, value = os.fsdecode(variable).partition("=")
            owner, _, place = value.partition(" ")
            if place:
                yield name, owner, Path(place)


def _owner(pid: int) -> str:
    """A process, so that no other is ever taken for it: where its number counts, the number, the start."""
    found = find_process(pid)
    return f"{_namespace()}.{pid}.{found.started}" if found else f"{_namespace()}.{pid}.0"


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0  # no such thing here


def _is_gone(owner: str) -> bool:
    """Whether the process is known not to run any more. Of one in another container nothing is known."""
    try:
        namespace, pid, started = map(int, owner.split("."))
    except ValueError:
        return False
    if namespace != _namespace():
        return False
    found = find_process(pid)
    return found is None or found.started != started


def _is_of(root: Path, place: Path) -> bool:
    """Whether a command that ran in this place was of this repository, and not of one that lies inside it."""
    for folder in (place, *place.parents):
        if folder == root:
            return True
        if (folder / OWN_FOLDER).is_dir() and not _is_worktree(folder):
            return False
    return False


def _is_worktree(folder: Path) -> bool:
    """Whether a task of the repository around a folder works in it."""
    return folder.parent.parts[-2:] == (OWN_FOLDER, "worktrees")


def _ancestry(pid: int) -> Iterator[RunningProcess]:
    """A process, the one that started it, and so on."""
    found = find_process(pid)
    while found:
        yield found
        found = find_process(found.parent)

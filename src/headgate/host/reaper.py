"""Ending processes: found in /proc, asked to end, and shortly after killed."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_GRACE_SECONDS = 1.0
_KILL_ROUNDS = 1000
_PAUSE = 0.01
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Found:
    """A process. Its number together with its start is never given to another one."""

    pid: int
    started: int
    """In ticks since the machine was started."""
    parent: int = field(compare=False)
    group: int = field(compare=False)
    session: int = field(compare=False)


def can_look() -> bool:
    """Whether this system tells about its processes."""
    return (_PROC / "self" / "stat").exists()


def look_at(pid: int) -> Found | None:
    """A process that runs; None if there is none such, or only what is left of one."""
    try:
        # The name in parentheses may hold anything, so the fields are counted from its end.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return None
        parent, group, session = map(int, fields[1:4])
        return Found(pid, int(fields[19]), parent, group, session)
    except (OSError, ValueError, IndexError):
        return None  # gone by now, or not ours to look at


def look_around() -> Iterator[Found]:
    """Every process that runs."""
    with os.scandir(_PROC) as scan:
        for entry in scan:
            if entry.name.isdigit() and (found := look_at(int(entry.name))):
                yield found


def environment_of(pid: int) -> bytes:
    """The variables that a process was started with, each ended by a NUL; nothing where they are hidden."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""  # gone by now, or another user's


def send(found: Found, number: signal.Signals) -> None:
    """Signals a process; its number is held fast first, so no other can be hit."""
    try:
        held = os.pidfd_open(found.pid)
    except (AttributeError, OSError):
        return  # gone; where the kernel has no such call the signal to the group has to do
    try:
        if look_at(found.pid) == found:
            signal.pidfd_send_signal(held, number)
    except OSError:
        return  # gone between the two
    finally:
        os.close(held)


def end_all(
    look: Callable[[], set[Found]],
    signal_them: Callable[[set[Found], signal.Signals], None],
    *,
    grace: float = _GRACE_SECONDS,
) -> set[Found]:
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

    def signal_them(alive: set[Found], number: signal.Signals) -> None:
        # Gone by now, or another user's: either way the next look decides.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        for found in alive:
            if found.group != process.pid:
                send(found, number)

    end_all(lambda: _alive(process, marker.encode()), signal_them)
    # A process that the kernel does not let go of (a dead network disk) must not hold the runtime as well.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def _alive(process: "subprocess.Popen[bytes]", marker: bytes) -> set[Found]:
    """Processes of the group or with the marker that still run."""
    if not can_look():
        return _alive_by_group(process)
    return {
        found for found in look_around() if found.group == process.pid or marker in environment_of(found.pid)
    }


def _alive_by_group(process: "subprocess.Popen[bytes]") -> set[Found]:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return set()
    except PermissionError:
        # macOS says this of a group in which only zombies are left.
        return set()
    return {Found(process.pid, 0, parent=os.getpid(), group=process.pid, session=process.pid)}

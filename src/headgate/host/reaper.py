"""Ending a command with everything that it started."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

_GRACE_SECONDS = 1.0
_KILL_ROUNDS = 200
_PAUSE = 0.01
_PROC = Path("/proc")


def end_processes(process: "subprocess.Popen[bytes]", marker: str) -> None:
    """Terminates, and shortly after kills, a command's group and all that carry its marker; then reaps it.

    The command itself must not have been reaped yet on Linux: as long as it is not, no other group can have
    its number. Blocks until they are gone, for about a second where they do not listen.
    """
    deadline = time.monotonic() + _GRACE_SECONDS
    if _signal_all(process, marker, signal.SIGTERM):
        while _alive(process, marker) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        for _ in range(_KILL_ROUNDS):  # each round also meets what was forked during the last one
            if not _signal_all(process, marker, signal.SIGKILL):
                break
            time.sleep(_PAUSE)
    # A process that the kernel does not let go of (a dead network disk) must not hold the runtime as well.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def _signal_all(process: "subprocess.Popen[bytes]", marker: str, number: signal.Signals) -> bool:
    """Whether there was anybody left to signal."""
    alive = _alive(process, marker)
    if alive:
        # Gone by now, or another user's: either way the next look decides.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        for pid in alive - {process.pid}:
            _signal_marked(pid, marker, number)
    return bool(alive)


def _alive(process: "subprocess.Popen[bytes]", marker: str) -> set[int]:
    """Processes of the group or with the marker that still run; zombies do not."""
    if not (_PROC / "self" / "stat").exists():
        return _alive_by_group(process)
    found = set()
    with os.scandir(_PROC) as scan:
        for entry in scan:
            if entry.name.isdigit() and _belongs(entry.name, process.pid, marker.encode()):
                found.add(int(entry.name))
    return found


def _alive_by_group(process: "subprocess.Popen[bytes]") -> set[int]:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return set()
    except PermissionError:
        # macOS says this of a group in which only zombies are left.
        return set()
    return {process.pid}


def _belongs(pid: str, group: int, marker: bytes) -> bool:
    try:
        # The name in parentheses may hold anything, so the fields are counted from its end.
        state, _, own_group = (_PROC / pid / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        if state in (b"Z", b"X"):
            return False
        return int(own_group) == group or marker in (_PROC / pid / "environ").read_bytes()
    except (OSError, ValueError):
        return False  # gone by now, or not ours to look at


def _signal_marked(pid: int, marker: str, number: signal.Signals) -> None:
    """Signals a process that left the group; its number is held fast first, so no other can be hit."""
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return  # gone; where the kernel has no such call the group signal has to do
    try:
        if marker.encode() in (_PROC / str(pid) / "environ").read_bytes():
            signal.pidfd_send_signal(held, number)
    except OSError:
        return  # gone between the two
    finally:
        os.close(held)

"""Control groups: limits on all processes of a command together, where this user may make such a group.

On systems with systemd, a user may make groups beside the one that the session runs in. Elsewhere, and with
control groups of version 1, only the limits of single processes hold.
"""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from headgate.programs import find_program

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "headgate-"
_TRIES = 50
_PAUSE = 0.02


@cache
def group_parent() -> Path | None:
    """The folder in which a group can be made; None where this user may make none."""
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line.removeprefix("0::") for line in groups if line.startswith("0::"))
        parent = _ROOT / own.strip("/").rpartition("/")[0]
        delegated = (parent / "cgroup.subtree_control").read_text().split()
    except (OSError, StopIteration):
        return None
    usable = {"memory", "pids"} <= {*delegated} and os.access(parent, os.W_OK) and parent != _ROOT
    return parent if usable else None


@contextmanager
def limited_group(memory_mb: int | None, processes: int | None) -> Iterator[list[str]]:
    """The words before a command that put it into a group of its own; none where there can be no group.

    The group is removed at the end. By then the command and all that it started must be gone.
    """
    parent = group_parent()
    limits = {"memory.max": memory_mb and memory_mb << 20, "pids.max": processes}
    wanted = {name: value for name, value in limits.items() if value is not None}
    if parent is None or not wanted:
        yield []
        return
    folder = parent / f"{_PREFIX}{uuid.uuid4().hex[:12]}"
    try:
        with suppress(OSError):  # the limits of single processes hold all the same
            folder.mkdir()
            for name, value in wanted.items():
                (folder / name).write_text(str(value))
        yield _joining(folder) if folder.is_dir() else []
    finally:
        _remove(folder)


def _joining(folder: Path) -> list[str]:
    script = f'echo $$ > "{folder}/cgroup.procs" 2>/dev/null; exec "$@"'
    return [find_program("bash") or "/bin/sh", "-c", script, "group"]


def _remove(folder: Path) -> None:
    """The kernel needs a moment after the last process has ended."""
    for _ in range(_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(_PAUSE)
        else:
            return

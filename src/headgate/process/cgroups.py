"""Control groups: limits on all processes of a command together, where this user may make such a group.

On systems with systemd, a user may make groups beside the one that the session runs in (version 2). As root,
version 1 has a hierarchy for each controller. Where neither can be done, only the limits of single processes
hold.
"""

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from headgate.programs import find_program

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "headgate-"
_TRIES = 50
_PAUSE = 0.02
_FILES = {"memory": ("memory.max", "memory.limit_in_bytes"), "pids": ("pids.max", "pids.max")}
"""The file that holds a limit, in version 2 and in version 1."""


@cache
def group_parents() -> dict[str, Path]:
    """For each controller, the folder in which a group can be made; empty where this user may make none."""
    found: dict[str, Path] = {}
    for line in _own_groups():
        _, controllers, path = line.split(":", maxsplit=2)
        if not controllers:
            parent = _ROOT / path.strip("/").rpartition("/")[0]
            if _can_use(parent, _delegated(parent)):
                return dict.fromkeys(_FILES, parent)
        for name in set(controllers.split(",")) & set(_FILES):
            folder = _ROOT / name / path.strip("/")
            if os.access(folder, os.W_OK) and (folder / _FILES[name][1]).exists() | (path == "/"):
                found[name] = folder
    return found


def _own_groups() -> list[str]:
    try:
        return Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []  # not Linux


def _delegated(parent: Path) -> set[str]:
    try:
        return set((parent / "cgroup.subtree_control").read_text().split())
    except OSError:
        return set()


def _can_use(parent: Path, controllers: set[str]) -> bool:
    return controllers >= set(_FILES) and os.access(parent, os.W_OK) and parent != _ROOT


@contextmanager
def limited_group(memory_mb: int | None, processes: int | None) -> Iterator[list[str]]:
    """The words before a command that put it into a group of its own; none where there can be no group.

    The group is removed at the end. By then the command and all that it started must be gone.
    """
    values = {"memory": memory_mb and memory_mb << 20, "pids": processes}
    made: list[Path] = []
    try:
        for name, parent in group_parents().items():
            if values[name] is not None:
                made += _make(parent, name, int(values[name] or 0), made)
        yield _joining(made)
    finally:
        for folder in made:
            _remove(folder)


def _make(parent: Path, controller: str, value: int, made: Sequence[Path]) -> list[Path]:
    """Sets a limit in a group below a folder. Returns the group if it is a new one."""
    existing = [folder for folder in made if folder.parent == parent]
    folder = existing[0] if existing else parent / f"{_PREFIX}{uuid.uuid4().hex[:12]}"
    try:
        folder.mkdir(exist_ok=True)
        for name in _FILES[controller]:
            if (folder / name).exists():
                (folder / name).write_text(str(value))
                break
    except OSError:
        return [] if existing or not folder.exists() else [folder]
    return [] if existing else [folder]


def _joining(folders: Sequence[Path]) -> list[str]:
    if not folders:
        return []
    script = "".join(f'echo $$ > "{folder}/cgroup.procs" 2>/dev/null; ' for folder in folders)
    return [find_program("bash") or "/bin/sh", "-c", f'{script}exec "$@"', "group"]


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

"""The index in its file. If that is damaged or cannot be written, the map is made anyway."""

import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headgate.features.scouts.index import IndexDamaged, OutlineIndex
from headgate.regular_files import OwnFolder, check_own, lock_within, open_own

_PARTS = ("", "-wal", "-shm", "-journal")
_LOCK_SECONDS = 5.0
_Result = TypeVar("_Result")


def with_index(path: Path | None, work: Callable[[OutlineIndex], _Result]) -> _Result:
    """Does work with the index in a file. A damaged one is made again, in memory if there is no other way."""
    if path is None:
        return _with_own(None, work)
    try:
        OwnFolder(path.parent).make(path.parent)
        lock = open_own(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        return _with_own(None, work)  # no place for it, or something else is in its place
    try:
        for is_first in (True, False):
            try:
                if not lock_within(lock, fcntl.LOCK_SH, _LOCK_SECONDS):
                    break
                for part in _PARTS:
                    check_own(Path(f"{path}{part}"))
                return _with_own(path, work)
            except (sqlite3.Error, IndexDamaged, OSError, UnicodeDecodeError):  # the last: of an error's text
                if is_first and not _remove(path, lock):
                    break
    finally:
        os.close(lock)
    return _with_own(None, work)


def _with_own(path: Path | None, work: Callable[[OutlineIndex], _Result]) -> _Result:
    index = OutlineIndex(path)
    try:
        return work(index)
    finally:
        index.close()


def _remove(path: Path, lock: int) -> bool:
    """Deletes the index, once nobody else uses it; False if that is not possible."""
    fcntl.flock(lock, fcntl.LOCK_UN)  # two that wait for each other would wait for nothing
    if not lock_within(lock, fcntl.LOCK_EX, _LOCK_SECONDS):
        return False
    try:
        for part in _PARTS:
            Path(f"{path}{part}").unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)
    return True

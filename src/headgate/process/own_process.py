"""Closing this process to the commands that it starts: its memory, its environment and its open files."""

import ctypes
from functools import cache

from headgate.process.reaper import is_marked

_SET_DUMPABLE = 4


@cache
def close_own_process() -> bool:
    """Keeps other processes of this user away from what `/proc` shows of this one; False if that failed.

    A program that this process starts is open again. Root, who may trace every process, is not kept away.
    There are no core dumps of this process any more, and a debugger of the same user cannot be attached.
    A process that a command has started stays open: by its environment it is found if it is left behind.
    """
    if is_marked():
        return False
    try:
        return bool(ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False  # no such call: not Linux

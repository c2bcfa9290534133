"""Telling by its status whether a file has changed."""

import os
from collections.abc import Callable
from operator import attrgetter

Stamp = tuple[int, ...]
_COARSEST_CLOCK = 2_000_000_000
"""Nanoseconds. Some file systems count time in steps of two seconds."""
_FINE_CLOCK = 100_000_000
"""Of a file system whose times have microseconds: these follow a clock that moves every 10 ms or sooner."""


stamp_of: Callable[[os.stat_result], Stamp] = attrgetter(
    *("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
)
"""What changes whenever the content, the mode or the owner of a file does."""


def is_settled(stamp: Stamp, now: int) -> bool:
    """Whether a change from now on is sure to give another stamp. `now` is the time in nanoseconds."""
    changed = stamp[-1]
    return changed < now - (_FINE_CLOCK if changed % 1_000_000 else _COARSEST_CLOCK)


def mode_of(stamp: Stamp) -> int:
    """The kind of a file and its rights, as a stamp has them."""
    return stamp[2]

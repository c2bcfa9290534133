"""Telling by its status whether a file has changed."""

import os

Stamp = tuple[int, ...]
_COARSEST_CLOCK = 2_000_000_000
"""Nanoseconds. Some file systems count time in steps of two seconds."""


def stamp_of(status: os.stat_result) -> Stamp:
    """What changes whenever the content, the mode or the owner of a file does."""
    return (
        status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def is_settled(stamp: Stamp, now: int) -> bool:
    """Whether a change from now on is sure to give another stamp. `now` is the time in nanoseconds."""
    return stamp[-1] < now - _COARSEST_CLOCK

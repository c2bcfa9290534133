"""Slots of time, in minutes since midnight."""

from collections.abc import Iterable
from typing import NamedTuple


class Slot(NamedTuple):
    """A stretch of time; the end does not belong to it."""

    start: int
    end: int


def to_minutes(time: str) -> int:
    """Return the minutes since midnight of a time such as 09:30."""
    hours, minutes = time.split(":")
    return int(hours) * 60 + int(minutes)


def to_time(minutes: int) -> str:
    """Return minutes since midnight as a time such as 09:30."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def gaps(busy: Iterable[Slot], day: Slot) -> list[Slot]:
    """Return the parts of `day` that no busy slot covers, in order."""
    found = []
    free_from = day.start
    for slot in sorted(busy):
        free_until = min(slot.start, day.end)
        if free_from < free_until:
            found.append(Slot(free_from, free_until))
        free_from = slot.end
    return found

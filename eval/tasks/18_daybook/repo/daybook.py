"""Meetings of one day and the free time between them."""

from daybook_slots import Slot, gaps, to_minutes, to_time


class DayBook:
    """The meetings of one day within working hours."""

    def __init__(self, opens: str = "09:00", closes: str = "17:00") -> None:
        self._day = Slot(to_minutes(opens), to_minutes(closes))
        self._meetings: dict[str, Slot] = {}

    def add(self, title: str, start: str, end: str) -> None:
        """Note a meeting; meetings may overlap."""
        slot = Slot(to_minutes(start), to_minutes(end))
        if slot.start >= slot.end:
            raise ValueError(f"{title} ends before it starts")
        self._meetings[title] = slot

    def cancel(self, title: str) -> None:
        """Remove a meeting."""
        del self._meetings[title]

    def free(self, minutes: int = 1) -> list[str]:
        """Return the free times of at least so many minutes, such as 09:00-10:30."""
        return [
            f"{to_time(gap.start)}-{to_time(gap.end)}"
            for gap in gaps(self._meetings.values(), self._day)
            if gap.end - gap.start >= minutes
        ]

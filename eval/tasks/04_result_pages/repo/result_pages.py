"""Cutting a list of results into numbered pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class PageError(LookupError):
    """A page was asked for that does not exist."""


@dataclass(frozen=True)
class Page:
    """One page: its items, its number counted from 1, and how many pages there are."""

    items: list[Any]
    number: int
    count: int

    @property
    def has_next(self) -> bool:
        """Tell whether another page follows."""
        return self.number < self.count

    @property
    def has_previous(self) -> bool:
        """Tell whether a page comes before this one."""
        return self.number > 1


def page_count(total: int, size: int) -> int:
    """Return how many pages of `size` items `total` items need; no items need one empty page."""
    if size < 1:
        raise ValueError("a page holds at least one item")
    return max(1, total // size)


def page_of(items: Sequence[Any], number: int, size: int) -> Page:
    """Return page `number` of `items`."""
    count = page_count(len(items), size)
    if not 1 <= number <= count:
        raise PageError(f"page {number} of {count}")
    first = (number - 1) * size
    return Page(list(items[first : first + size]), number, count)

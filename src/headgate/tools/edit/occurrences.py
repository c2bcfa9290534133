"""Where a text occurs in another, by position and by line, and the line numbers that models copy with it."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

MOST_COUNTED = 1000
_NUMBERED = re.compile(r"^[ \t]*(\d{1,7})(?::|[ \t]?\||\t|→)")


def occurrences(text: str, part: str, *, overlapping: bool) -> list[int]:
    """Where a part begins. Overlapping ones are only counted up to a limit: they are never replaced."""
    places: list[int] = []
    start = text.find(part)
    while start >= 0 and not (overlapping and len(places) >= MOST_COUNTED):
        places.append(start)
        start = text.find(part, start + (1 if overlapping else len(part)))
    return places


def group_by_lines(
    spans: Sequence[int], length: int, starts: Sequence[int]
) -> list[tuple[int, int, list[int]]]:
    """Occurrences gathered so that no two groups share a line: (first line, last line, occurrences)."""
    groups: list[tuple[int, int, list[int]]] = []
    for start in spans:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, start + length) - 1
        if groups and first <= groups[-1][1]:
            begin, _, inside = groups.pop()
            inside.append(start)
            groups.append((begin, last, inside))
        else:
            groups.append((first, last, [start]))
    return groups


def inner_breaks(text: str) -> int:
    """The line breaks in a text, less the one that ends it."""
    return text.removesuffix("\n").count("\n")


def line_numbers(text: str, *, in_sequence: bool = True) -> list[int]:
    """The number at the beginning of each line; none at all where a line has none or they do not follow."""
    matches = [_NUMBERED.match(line) for line in text.removesuffix("\n").split("\n")]
    numbers = [int(match[1]) for match in matches if match]
    follow = all(after == before + 1 for before, after in pairwise(numbers))
    return numbers if len(numbers) == len(matches) and (follow or not in_sequence) else []


def without_numbers(text: str, spaces: int) -> str:
    """The text less the line number on each line and at most so many spaces after it."""
    return "\n".join(
        re.sub(rf"^ {{0,{spaces}}}", "", _NUMBERED.sub("", line, 1)) for line in text.split("\n")
    )

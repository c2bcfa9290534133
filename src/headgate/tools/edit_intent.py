"""What an edit means: where its text occurs, line numbers that were copied along, indentation left out."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from headgate.first_use import regex
from headgate.tools.matching import indentation_of
from headgate.tools.syntax import is_sound

MOST_COUNTED = 1000
_NUMBERED = regex(r"^[ \t]*(\d{1,7})(?::|[ \t]?\||\t|→)")
_OPENS = (":", "{", "(", "[")
_DEFINITION = regex(r"(?:async def|def|class)\b|@\w")
_MAIN = regex(r"if __name__\b")
_PYTHON = (".py", ".pyi")


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


def leaves_indentation_out(old: str, new: str) -> bool:
    """Whether `old` is one line without indentation and `new` has lines whose indentation is in question."""
    first, *rest = new.split("\n")
    wanted = old.rstrip("\n")
    stripped = bool(wanted) and "\n" not in wanted and not wanted[0].isspace()
    return stripped and bool(first.strip()) and not first[0].isspace() and any(line.strip() for line in rest)


def indented_readings(new: str, indent: str, outer: str | None = None) -> list[str]:
    """What `new` may mean behind this indentation, the likeliest first.

    `outer` is the indentation of the Python definition that ends with the replaced line, where one does:
    definitions in `new` may then be meant to stand beside it.
    """
    first, *rest = new.split("\n")
    follow = [line for line in rest if line.strip()]
    shifted = _shift(rest, indent)
    found = {"indented": "\n".join([first, *shifted]), "written": new}
    if outer is not None and not _DEFINITION.match(first):
        place = next((at for at, line in enumerate(rest) if _is_definition(line)), None)
        if place is not None:
            main = next((at for at, line in enumerate(rest) if _MAIN.match(line)), len(rest))
            place = min(place, main)
            beside = [outer + line if line.strip() else line for line in rest[place:main]]
            found = {"beside": "\n".join([first, *shifted[:place], *beside, *rest[main:]])} | found
    if _is_written_out(first, follow, indent):
        found = {"written": new} | found
    return list(dict.fromkeys(found.values()))


def readings_behind(new: str, indent: str) -> list[str]:
    """As `indented_readings`, for a place where every line is to have the indentation put before it."""
    first, *rest = new.split("\n")
    if not all(line.startswith(indent) for line in rest if line.strip()):
        return [new]
    bare = "\n".join([first, *(line.removeprefix(indent) for line in rest)])
    return [bare if text == new else new for text in indented_readings(new, indent)]


def choose_sound(name: str, before: str, candidates: Sequence[Callable[[], str]]) -> int:
    """The first candidate, unless a parser of such files refuses that one and takes another."""
    if len(candidates) < 2 or not is_sound(name, before):
        return 0
    return next((at for at, text in enumerate(candidates) if is_sound(name, text())), 0)


def rank_by_rank(meant: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """The first reading of every place, then the second of every place, and so on."""
    for rank in range(max(map(len, meant))):
        yield [places[min(rank, len(places) - 1)] for places in meant]


def outer_definition(bodies: Sequence[str], line: int, name: str) -> str | None:
    """The indentation of the Python definition whose last line this is; None where it is not the last one."""
    if not name.endswith(_PYTHON):
        return None
    own = len(indentation_of(bodies[line]))
    below = next((body for body in bodies[line + 1 :] if body.strip()), "")
    if len(indentation_of(below)) >= own:
        return None
    for body in reversed(bodies[:line]):
        depth = len(indentation_of(body))
        if body.strip() and depth < own:
            if _DEFINITION.match(body.strip()):
                return indentation_of(body)
            own = depth
    return None


def _is_definition(line: str) -> bool:
    return _DEFINITION.match(line) is not None or _MAIN.match(line) is not None


def _is_written_out(first: str, follow: Sequence[str], indent: str) -> bool:
    """Whether the lines below the first look as the file needs them."""
    own = indentation_of(follow[0])
    if first.rstrip().endswith(_OPENS):
        return own.startswith(indent) and len(own) > len(indent)
    return bool(own)


def _shift(lines: Sequence[str], indent: str) -> list[str]:
    """The lines behind the indentation. Spaces become tabs where the file has tabs."""
    widths = {len(indentation_of(line)) for line in lines if line.strip()} - {0}
    spaces = all(indentation_of(line).strip(" ") == "" for line in lines)
    unit = min(widths, default=0)
    if indent.strip("\t") == "" and unit and spaces and all(width % unit == 0 for width in widths):
        lines = ["\t" * (len(own := indentation_of(line)) // unit) + line[len(own) :] for line in lines]
    return [indent + line if line.strip() else line for line in lines]

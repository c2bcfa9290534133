"""What the readers of test output share: the type of a failed test, lines, blocks, the place to name."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from headgate.core import plain
from headgate.first_use import dataclass, regex

_LOOK_AHEAD = 150
"""How many lines about one failure are read."""
_LIBRARY = regex(
    r"(?:^|/)(?:site-packages|dist-packages|node_modules|lib/python[\d.]+|rustc|\.cargo)/"
    r"|/src/(?:runtime|testing|internal)/|^(?:node:|internal/|<)"
)


@dataclass(frozen=True, slots=True)
class FailedTest:
    """One test that failed, or one thing that could not be built. Only the name is always known."""

    name: str
    location: str = ""
    """`file:line`, relative to where the command ran if it is below that."""
    message: str = ""


def plain_lines(text: str) -> list[str]:
    """The lines as a terminal would show them in the end: no colours, overwritten text gone."""
    lines = plain(text).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def block_at(lines: Sequence[str], start: int, ends: Callable[[str], object]) -> Sequence[str]:
    """The lines from one on, up to the first that ends them, as many as are read about one failure."""
    end = start
    while end < min(len(lines), start + _LOOK_AHEAD) and not ends(lines[end]):
        end += 1
    return lines[start:end]


def blocks(
    lines: Sequence[str], heading: re.Pattern[str], ends: Callable[[str], object]
) -> Iterator[tuple[re.Match[str], Sequence[str]]]:
    """Each line that is a heading, and the lines below it up to the first that ends them."""
    for number, line in enumerate(lines):
        if found := heading.fullmatch(line):
            yield found, block_at(lines, number + 1, ends)


def first_said(body: Iterable[str]) -> str:
    """The first line that is not blank."""
    return next((line for line in body if line.strip()), "")


def own_place(places: Iterable[re.Match[str] | None], directory: str) -> str:
    """The first place, of matches with `file` and `line`, that is the project's own code and no library's."""
    for place in filter(None, places):
        path = place["file"].removeprefix("file://").removeprefix("./")
        if directory:
            path = path.removeprefix(f"{directory.rstrip('/')}/")
        foreign = path.startswith(("/", "../")) and bool(directory)
        if not foreign and not _LIBRARY.search(path):
            return f"{path}:{place['line']}"
    return ""


def join_message(*parts: str) -> str:
    """The parts that say something, one after the other."""
    return "; ".join(part.strip() for part in parts if part.strip())

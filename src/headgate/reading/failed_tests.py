"""What the parsers of test output share: the type of a failed test, clean lines, and the location to name."""

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.core import plain
from headgate.patterns import regex

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


def own_location(candidates: Iterable[tuple[str, str]], directory: str) -> str:
    """The first place, of (file, line) pairs, that is the project's own code and not a library's."""
    for file, line in candidates:
        path = file.removeprefix("file://").removeprefix("./")
        if directory:
            path = path.removeprefix(f"{directory.rstrip('/')}/")
        foreign = path.startswith(("/", "../")) and bool(directory)
        if not foreign and not _LIBRARY.search(path):
            return f"{path}:{line}"
    return ""


def join_message(*parts: str) -> str:
    """The parts that say something, on one line."""
    return "; ".join(word for part in parts if (word := " ".join(part.split())))

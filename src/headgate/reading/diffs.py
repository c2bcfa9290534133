"""A git-style diff, file by file: what the looks at a task's own diff read it with."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headgate.core import parse_path

_NEW_START = re.compile(r"@@ -\S+ \+(\d+)")


@dataclass
class FilePart:
    """One file's part of a diff."""

    path: str
    header: list[str] = field(default_factory=list)
    """The lines between the file's first one and its first hunk."""
    hunks: list[list[str]] = field(default_factory=list)
    """The lines of each hunk, with their signs."""
    starts: list[int] = field(default_factory=list)
    """Where each hunk begins in the new file, as git counts its lines."""


@dataclass(frozen=True)
class TaskDiff:
    """What a task has changed so far, or proposes."""

    text: str
    """A git-style diff."""
    versions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The files that were changed, by path: what each was, and what it is. None of those that are new, gone,
    binary or very large."""
    known: frozenset[str] = frozenset()
    """Every path that the repository had, or has now."""
    by_verification: frozenset[str] = frozenset()
    """Files that a verification run made: no doing of the task."""


def read_files(text: str) -> Iterator[FilePart]:
    """The files of a diff, in order."""
    part: FilePart | None = None
    for line in text.split("\n"):
        if line.startswith("diff --git "):
            if part:
                yield part
            part = FilePart(_path_of(line))
        elif part and line.startswith("@@ "):
            part.hunks.append([])
            found = _NEW_START.match(line)
            part.starts.append(int(found[1]) if found else 0)
        elif part and not part.hunks:
            part.header.append(line)
        elif part and line[:1] in ("+", "-", " "):
            part.hunks[-1].append(line)
    if part:
        yield part


def _path_of(header: str) -> str:
    """The second path of `diff --git a/x b/x`; quoted ones are read as git writes them."""
    quoted = re.search(r' ("b/(?:[^"\\]|\\.)*")$', header)
    if quoted:
        return parse_path(quoted[1]).removeprefix("b/")
    return header.rpartition(" b/")[2]

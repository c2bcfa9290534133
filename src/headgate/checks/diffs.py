"""A git-style diff, file by file: what the looks at a task's own diff read it with."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.host.workspace import parse_path


@dataclass
class FilePart:
    """One file's part of a diff."""

    path: str
    header: list[str] = field(default_factory=list)
    """The lines between the file's first one and its first hunk."""
    hunks: list[list[str]] = field(default_factory=list)
    """The lines of each hunk, with their signs."""


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

"""Unified diffs, read into files, hunks and lines: those that git writes, and those that models imitate.

Nothing is refused here. What does not belong is marked with its line, for whoever reads the diff to judge.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from headgate.core import parse_path
from headgate.first_use import dataclass, regex

Sign = Literal[" ", "-", "+"]
_SIGNS: dict[str, Sign] = {"": " ", " ": " ", "+": "+", "-": "-"}
_GIT_LINE = "diff --git "
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_GIT_NAMES = regex(rf"({_QUOTED}|\S.*?) ({_QUOTED}|\S.*)")
_HUNK = regex(r"@@+ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = "\\ No newline"


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


@dataclass(frozen=True, slots=True)
class HunkPlace:
    """Where a hunk belongs, as the numbers in its header say. Lines are counted from 1."""

    text: str
    """The numbers as they are written: `@@ -1,2 +1,3 @@`."""
    old_start: int
    old_count: int
    new_start: int
    new_count: int


def read_place(header: str) -> HunkPlace | None:
    """The place that a `@@` line names; None if it has no numbers."""
    found = _HUNK.match(header)
    if found is None:
        return None
    return HunkPlace(found[0], int(found[1]), int(found[2] or 1), int(found[3]), int(found[4] or 1))


@dataclass
class HunkLines:
    """The lines of a hunk while they are read."""

    taken: list[tuple[Sign, str]] = field(default_factory=list)
    no_final_newline: bool = False
    """The new text ends without a newline."""
    _blank: int = 0
    """How many lines at the end were quite empty: context, or just space before the next header."""

    def add(self, line: str) -> bool:
        """Takes a line; False for one that has no place in a hunk."""
        if line.startswith(_NO_NEWLINE):
            self.no_final_newline = bool(self.taken) and self.taken[-1][0] != "-"
            return True
        sign = _SIGNS.get(line[:1])
        if sign is None:
            return False
        self.taken.append((sign, line[1:]))
        self._blank = 0 if line else self._blank + 1
        return True

    def close(self) -> tuple[tuple[Sign, str], ...]:
        """The lines, each with its sign, without the empty ones at the end."""
        return tuple(self.taken[: len(self.taken) - self._blank])

    def fill(self, place: HunkPlace) -> bool:
        """Whether there are as many lines as the header says."""
        old = sum(1 for sign, _ in self.taken if sign != "+")
        new = sum(1 for sign, _ in self.taken if sign != "-")
        return (old, new) == (place.old_count, place.new_count)


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """One hunk of a diff."""

    header: str
    """The line with `@@`."""
    place: HunkPlace | None
    lines: tuple[tuple[Sign, str], ...]
    no_final_newline: bool
    """The new text ends without a newline."""
    last: int
    """The number of its last line in the diff."""
    stray: int | None
    """The number of the first line that has no place in a hunk."""


@dataclass
class FileDiff:
    """One file's part of a diff."""

    first: int
    """The number of its first line in the diff."""
    last: int
    """The number of its last line."""
    git_line: str = ""
    """The line with `diff --git`."""
    headers: Sequence[str] = ()
    """The lines that follow `git_line`, up to the names or the first hunk."""
    names: tuple[str, str] | None = None
    """What is written after `---` and `+++`. None where git wrote the diff: `git_line` names the file."""
    hunks: Sequence[DiffHunk] = ()
    old: str | None = None
    """The path before. None if there is none, or it is not named."""
    new: str | None = None
    """The path after. git names a path here for a deleted file, too, and before a new one."""
    is_new: bool = False
    is_deleted: bool = False

    @property
    def path(self) -> str:
        return self.new or self.old or ""

    @property
    def is_binary(self) -> bool:
        return "GIT binary patch" in self.headers

    @property
    def is_executable(self) -> bool | None:
        """Whether the file is to be executable; None if that stays."""
        mode = self.header("new file mode ") or self.header("new mode ")
        return None if mode is None else mode.endswith("755")

    def header(self, key: str) -> str | None:
        """What follows a key in the headers, such as `rename from `."""
        found = (line.removeprefix(key) for line in reversed(self.headers) if line.startswith(key))
        return next(found, None)


def read_git_diff(text: str) -> Iterator[FileDiff]:
    """The files of a diff that git wrote, in order. Each one extends to the beginning of the next."""
    return _DiffReader(text.split("\n"), by_git=True).files()


def read_diff(lines: Sequence[str]) -> Iterator[FileDiff]:
    """The files of a diff that anybody may have written, in order. A hunk of no file is one without names."""
    return _DiffReader(lines, by_git=False).files()


class _DiffReader:
    """A position in the lines of a diff.

    Where git wrote it, a file begins with `diff --git` and nothing else, and its names are there. Elsewhere a
    file may begin with `---` and `+++`, and these name it.
    """

    def __init__(self, lines: Sequence[str], *, by_git: bool) -> None:
        self._lines = lines
        self._by_git = by_git
        self._at = 0

    def files(self) -> Iterator[FileDiff]:
        while self._more:
            if self._peek().startswith(_GIT_LINE) or self._is_at_names():
                yield self._file()
            elif self._take().startswith("@@") and not self._by_git:
                yield FileDiff(self._at, self._at)

    @property
    def _more(self) -> bool:
        return self._at < len(self._lines)

    def _peek(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self._lines[index] if index < len(self._lines) else ""

    def _take(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def _is_at_names(self) -> bool:
        return not self._by_git and self._peek().startswith("--- ") and self._peek(1).startswith("+++ ")

    def _file(self) -> FileDiff:
        file = FileDiff(self._at + 1, self._at + 1)
        if self._peek().startswith(_GIT_LINE):
            line = self._take()
            file.git_line = line if self._by_git else line.rstrip()
            file.headers = self._headers()
        if self._is_at_names():
            file.names = self._take()[4:], self._take()[4:]
        file.hunks = self._hunks()
        file.last = self._at
        _name(file)
        return file

    def _headers(self) -> list[str]:
        headers = []
        while self._more and not self._is_at_names() and not self._peek().startswith((_GIT_LINE, "@@")):
            headers.append(self._take())
        return headers

    def _hunks(self) -> list[DiffHunk]:
        hunks = []
        while self._peek().startswith("@@"):
            header = self._take()
            place, lines, stray = read_place(header), HunkLines(), None
            while self._more and not self._ends_hunk(lines, place):
                if not lines.add(self._take()):
                    stray = stray or self._at
            hunks.append(DiffHunk(header, place, lines.close(), lines.no_final_newline, self._at, stray))
        return hunks

    def _ends_hunk(self, lines: HunkLines, place: HunkPlace | None) -> bool:
        line = self._peek()
        if line.startswith(("@@", _GIT_LINE)):
            return True
        if self._is_at_names():
            # Removed and added lines can look like names, too, but names are followed by a hunk.
            after = self._peek(2)
            return after.startswith("@@") or "/dev/null" in line or "/dev/null" in self._peek(1)
        # The signature that git puts below a mailed patch.
        return line in ("-- ", "--") and place is not None and not self._by_git and lines.fill(place)


def _name(file: FileDiff) -> None:
    """Finds out which file it is, and whether it is new or deleted."""
    if named := _names_in(file.git_line):
        file.old, file.new = _without_prefixes(*named)
    if (old := file.header("rename from ")) is not None:
        file.old = parse_path(old)
    if (new := file.header("rename to ")) is not None:
        file.new = parse_path(new)
    file.is_new = file.header("new file mode ") is not None
    file.is_deleted = file.header("deleted file mode ") is not None
    if file.names:
        # A time stamp may follow, after a tab.
        before, after = (name.split("\t")[0].strip() for name in file.names)
        file.old, file.new = _without_prefixes(before, after)
        file.is_new |= file.old is None
        file.is_deleted |= file.new is None


def _names_in(git_line: str) -> tuple[str, str] | None:
    """Both names in `diff --git a/x b/x`. Names with spaces are told apart if they are the same."""
    names = git_line.removeprefix(_GIT_LINE)
    path = names[2 : len(names) // 2]
    if names == f"a/{path} b/{path}":
        return f"a/{path}", f"b/{path}"
    found = _GIT_NAMES.fullmatch(names)
    return (found[1], found[2]) if found else None


def _without_prefixes(old: str, new: str) -> tuple[str | None, str | None]:
    """The paths that two names mean, without git's `a/` and `b/`. None for `/dev/null`."""
    before, after = (None if name == "/dev/null" else name for name in map(parse_path, (old, new)))
    if (before is None or before.startswith("a/")) and (after is None or after.startswith("b/")):
        before, after = before and before[2:], after and after[2:]
    return before, after

"""Reading a patch: the `*** Begin Patch` format, and unified diffs, into one list of operations.

Pure: text in, operations out, or ToolFailed with the line of the patch that cannot be read. Wrapping that
models add (code fences, here-documents, a missing end marker) is dropped; what a line means is never guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from headgate.core import parse_path
from headgate.errors import ToolFailed

Sign = Literal[" ", "-", "+"]


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change to a file, and what tells its place."""

    lines: tuple[tuple[Sign, str], ...]
    headers: tuple[str, ...] = ()
    """Text after `@@`: lines of the file that come before the change, outermost first."""
    at_end: bool = False
    """Marked with `*** End of File`."""
    number: int | None = None
    """The first old line (from 1) as a unified diff claims it: a hint."""
    no_final_newline: bool = False
    """The new text ends without a newline."""

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


@dataclass(frozen=True, slots=True)
class AddFile:
    """A file that is to have exactly this text."""

    path: str
    text: str
    mode: int = 0o644
    is_new: bool = False
    """It must not exist yet: a diff against nothing does not say what it would replace."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that is to go."""

    path: str


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """A file that is to be changed, moved, or both."""

    path: str
    hunks: tuple[Hunk, ...]
    move_to: str | None = None


Operation = AddFile | DeleteFile | UpdateFile

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_OPERATION = re.compile(r"\*\*\* (Add|Update|Delete) File:[ \t]*(.*)")
_MOVE = re.compile(r"\*\*\* Move to:[ \t]*(.*)")
_UNIFIED_HUNK = re.compile(r"@@+ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HEREDOC = re.compile(r"<<-?[ \t]*[\"']?(\w+)[\"']?[ \t]*$")
_GIT_HEADER = re.compile(r"diff --git (\"(?:[^\"\\]|\\.)*\"|\S.*?) (\"(?:[^\"\\]|\\.)*\"|\S.*)$")
_NO_NEWLINE = "\\ No newline"
FORMAT_HINT = (
    "A patch begins with `*** Begin Patch`, then `*** Update File: path`, `*** Add File: path` or "
    "`*** Delete File: path`, and ends with `*** End Patch`."
)


def parse_patch(text: str) -> tuple[Operation, ...]:
    """The operations of a patch, in order. ToolFailed where it cannot be read or holds none."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    marked = any(line.strip() == _BEGIN or _OPERATION.match(line.strip()) for line in lines)
    if marked:
        operations = _Marked(_unwrap(lines)).parse()
    elif any(line.startswith(("--- ", "diff --git ")) for line in lines):
        operations = _Unified(_unwrap(lines)).parse()
    else:
        raise ToolFailed(f"This is not a patch. {FORMAT_HINT}")
    if not operations:
        raise ToolFailed("The patch contains no file operation. Nothing was changed.")
    return tuple(operations)


def _unwrap(lines: list[str]) -> list[str]:
    """The patch less blank lines, code fences and here-document marks around it."""
    tag = next((match[1] for line in lines[:3] if (match := _HEREDOC.search(line))), None)
    start, end = 0, len(lines)
    while start < end and (not lines[start].strip() or lines[start].startswith("```")):
        start += 1
    while start < end and (lines[end - 1] == "" or lines[end - 1].rstrip() in ("```", tag)):
        end -= 1
    return lines[start:end]


@dataclass
class _Body:
    """The lines of a hunk while they are read."""

    lines: list[tuple[Sign, str]] = field(default_factory=list)
    blank: int = 0
    """How many lines at the end were quite empty: context, or just space before the next header."""
    at_end: bool = False
    no_final_newline: bool = False

    def add(self, line: str) -> bool:
        """Takes a line; False for one that has no place in a hunk."""
        if line.startswith(_NO_NEWLINE):
            self.no_final_newline = bool(self.lines) and self.lines[-1][0] != "-"
            return True
        sign = _SIGNS.get(line[:1])
        if sign is None:
            return False
        self.lines.append((sign, line[1:]))
        self.blank = 0 if line else self.blank + 1
        return True

    def close(self, headers: Sequence[str], number: int | None) -> Hunk:
        lines = tuple(self.lines[: len(self.lines) - self.blank])
        return Hunk(lines, tuple(headers), self.at_end, number, self.no_final_newline)


_SIGNS: dict[str, Sign] = {"": " ", " ": " ", "+": "+", "-": "-"}


@dataclass
class _Reader:
    """A position in the lines of a patch."""

    lines: Sequence[str]
    at: int = 0

    @property
    def more(self) -> bool:
        return self.at < len(self.lines)

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.lines[index] if index < len(self.lines) else ""

    def take(self) -> str:
        self.at += 1
        return self.lines[self.at - 1]

    def take_into(self, body: _Body) -> None:
        if not body.add(self.take()):
            raise self.wrong("each line of a hunk begins with a space (context), `-` or `+`.")

    def wrong(self, problem: str) -> ToolFailed:
        """The error for the line last taken."""
        shown = self.lines[self.at - 1][:120]
        return ToolFailed(f"Line {self.at} of the patch, `{shown}`: {problem} Nothing was changed.")


class _Marked(_Reader):
    """The `*** Begin Patch` format."""

    def parse(self) -> list[Operation]:
        operations: list[Operation] = []
        start = next((index for index, line in enumerate(self.lines) if line.strip() == _BEGIN), None)
        if start is None:
            start = next(index for index, line in enumerate(self.lines) if _OPERATION.match(line.strip()))
        self.at = start
        while self.more:
            line = self.take().strip()
            if line in (_BEGIN, ""):
                continue
            if line == _END:
                self._skip_to_next_patch()
                continue
            match = _OPERATION.match(line)
            if match is None:
                raise self.wrong(
                    "expected `*** Add File: path`, `*** Update File: path` or `*** Delete File: path`."
                )
            operations.append(self._operation(match[1], self._path(match[2])))
        return operations

    def _skip_to_next_patch(self) -> None:
        while self.more and self.peek().strip() != _BEGIN:
            if _OPERATION.match(self.take().strip()):
                raise self.wrong("this comes after `*** End Patch`.")

    def _path(self, text: str) -> str:
        path = parse_path(text.strip())
        if not path:
            raise self.wrong("the path is missing.")
        return path

    def _operation(self, kind: str, path: str) -> Operation:
        match kind:
            case "Add":
                return AddFile(path, self._added())
            case "Delete":
                return DeleteFile(path)
            case _:
                move = _MOVE.match(self.peek().strip())
                move_to = None
                if move:
                    self.take()
                    move_to = self._path(move[1])
                hunks = self._hunks()
                if not hunks and move_to is None:
                    raise self.wrong("the update has no hunk: give lines with `-`, `+` or a space in front.")
                return UpdateFile(path, hunks, move_to)

    def _added(self) -> str:
        added: list[str] = []
        blank = 0
        while self.more and not self._ends_section():
            line = self.take()
            if line.startswith("+"):
                added += [""] * blank
                added.append(line[1:])
                blank = 0
            elif not line.strip():
                blank += 1
            elif line.rstrip() != _END_OF_FILE:
                raise self.wrong("each line of an added file begins with `+`.")
        return "".join(line + "\n" for line in added)

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        if self.peek().startswith("--- ") and self.peek(1).startswith("+++ "):
            self.at += 2
        while self.more and not self._ends_section():
            headers: list[str] = []
            number = None
            while self.peek().startswith("@@"):
                header, claimed = read_header(self.take())
                number = number or claimed
                if header:
                    headers.append(header)
            body = self._body()
            if body.lines:
                hunks.append(body.close(headers, number))
            elif headers:
                raise self.wrong("the hunk has no lines.")
        return tuple(hunk for hunk in hunks if hunk.lines)

    def _body(self) -> _Body:
        body = _Body()
        while self.more and not self._ends_section() and not self.peek().startswith("@@"):
            if self.peek().rstrip() == _END_OF_FILE:
                self.take()
                body.at_end = True
                break
            self.take_into(body)
        return body

    def _ends_section(self) -> bool:
        """Whether the next line is a marker. An indented end marker counts only as the last of the patch."""
        line = self.peek()
        if line.startswith("*** "):
            return line.rstrip() != _END_OF_FILE
        return line.strip() == _END and not any(rest.strip() for rest in self.lines[self.at + 1 :])


def read_header(line: str) -> tuple[str, int | None]:
    """What a `@@` line says: (a line of the file to search after, the old line number), each where given."""
    match = _UNIFIED_HUNK.match(line)
    if match:
        # The text after the numbers is what a diff tool guessed to be the function: no use as an anchor.
        return "", int(match[1])
    text = line.lstrip("@").removeprefix(" ").rstrip()
    text = text.removesuffix("@@").rstrip() if text.endswith("@@") else text
    return ("" if not text.strip(" .-+,0123456789…") else text), None


@dataclass
class _FileDiff:
    """The headers of one file in a unified diff."""

    old: str | None = None
    new: str | None = None
    mode: int = 0o644
    created: bool = False
    deleted: bool = False


class _Unified(_Reader):
    """Unified diffs, as `diff -u` and git write them and as models imitate them."""

    def parse(self) -> list[Operation]:
        operations: list[Operation] = []
        while self.more:
            if self.peek().startswith("diff --git ") or self._at_file_header():
                operations.append(self._file())
            elif self.take().startswith("@@"):
                raise self.wrong("no file is named before this hunk: write `--- a/path` and `+++ b/path`.")
        return operations

    def _at_file_header(self) -> bool:
        return self.peek().startswith("--- ") and self.peek(1).startswith("+++ ")

    def _file(self) -> Operation:
        diff = _FileDiff()
        if self.peek().startswith("diff --git "):
            self._git_headers(diff)
        if self._at_file_header():
            old, new = self.take()[4:], self.take()[4:]
            diff.old, diff.new = _diff_paths(old, new)
            diff.created |= diff.old is None
            diff.deleted |= diff.new is None
        hunks = self._hunks()
        if diff.created and diff.new:
            lines = [text for hunk in hunks for _, text in hunk.lines]
            if any(sign == "-" or (sign == " " and text) for hunk in hunks for sign, text in hunk.lines):
                raise self.wrong(f"the new file {diff.new} has lines that do not begin with `+`.")
            ended = not (hunks and hunks[-1].no_final_newline)
            text = "\n".join(lines) + ("\n" if lines and ended else "")
            return AddFile(diff.new, text, diff.mode, is_new=True)
        if diff.deleted and diff.old:
            return DeleteFile(diff.old)
        if not diff.old or not diff.new:
            raise self.wrong("the file's name is missing.")
        move_to = diff.new if diff.new != diff.old else None
        if not hunks and move_to is None:
            raise self.wrong(f"no hunk for {diff.old}: mode changes and binary content cannot be applied.")
        return UpdateFile(diff.old, hunks, move_to)

    def _git_headers(self, diff: _FileDiff) -> None:
        match = _GIT_HEADER.match(self.take())
        if match:
            diff.old, diff.new = _diff_paths(match[1], match[2])
        while self.more and not self._at_file_header() and not self.peek().startswith(("diff --git ", "@@")):
            line = self.take()
            if line.startswith("rename from "):
                diff.old = parse_path(line.removeprefix("rename from "))
            elif line.startswith("rename to "):
                diff.new = parse_path(line.removeprefix("rename to "))
            elif line.startswith("new file mode "):
                diff.created = True
                diff.mode = 0o755 if line.endswith("755") else 0o644
            elif line.startswith("deleted file mode "):
                diff.deleted = True
            elif line.startswith(("GIT binary patch", "Binary files ")):
                raise self.wrong("binary content cannot be patched.")
            elif line.startswith(("copy from ", "old mode ", "new mode ")):
                raise self.wrong("copies and mode changes cannot be applied.")

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks = []
        while self.peek().startswith("@@"):
            header = self.take()
            counts = _UNIFIED_HUNK.match(header)
            text, number = read_header(header)
            body = _Body()
            while self.more and not self._ends_hunk(body, counts):
                self.take_into(body)
            hunk = body.close([text] if text else [], number)
            if not hunk.lines:
                raise self.wrong("the hunk has no lines.")
            hunks.append(hunk)
        return tuple(hunks)

    def _ends_hunk(self, body: _Body, counts: re.Match[str] | None) -> bool:
        line = self.peek()
        if line.startswith(("@@", "diff --git ")):
            return True
        if self._at_file_header():
            # Removed and added lines can look like a header too, but a header is followed by a hunk.
            after = self.peek(2)
            return after.startswith("@@") or "/dev/null" in line or "/dev/null" in self.peek(1)
        # The signature that git puts below a mailed patch.
        return line in ("-- ", "--") and counts is not None and _is_complete(body, counts)


def _is_complete(body: _Body, counts: re.Match[str]) -> bool:
    old = sum(1 for sign, _ in body.lines if sign != "+")
    new = sum(1 for sign, _ in body.lines if sign != "-")
    return (old, new) == (int(counts[2] or 1), int(counts[4] or 1))


def _diff_paths(old: str, new: str) -> tuple[str | None, str | None]:
    """The paths of a pair of headers, without time stamps and without git's `a/` and `b/`."""
    names = [parse_path(name.split("\t")[0].strip()) for name in (old, new)]
    before, after = (None if name == "/dev/null" else name for name in names)
    prefixed = (before is None or before.startswith("a/")) and (after is None or after.startswith("b/"))
    if prefixed:
        before = before and before[2:]
        after = after and after[2:]
    return before, after

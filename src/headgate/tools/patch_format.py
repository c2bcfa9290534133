"""Reading a patch: the `*** Begin Patch` format, and unified diffs, into one list of operations.

Pure: text in, operations out, or ToolFailed with the line of the patch that cannot be read. Wrapping that
models add (code fences, here-documents, a missing end marker) is dropped; what a line means is never guessed.
"""

from collections.abc import Sequence

from headgate.core import parse_path
from headgate.errors import ToolFailed
from headgate.first_use import dataclass, regex
from headgate.reading import FileDiff, HunkLines, Sign, read_diff, read_place


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
_OPERATION = regex(r"\*\*\* (Add|Update|Delete) File:[ \t]*(.*)")
_MOVE = regex(r"\*\*\* Move to:[ \t]*(.*)")
_HEREDOC = regex(r"<<-?[ \t]*[\"']?(\w+)[\"']?[ \t]*$")
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
        operations = _read_unified(_unwrap(lines))
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


def _wrong(lines: Sequence[str], number: int, problem: str) -> ToolFailed:
    """The error for a line of the patch."""
    shown = lines[number - 1][:120]
    return ToolFailed(f"Line {number} of the patch, `{shown}`: {problem} Nothing was changed.")


_STRAY = "each line of a hunk begins with a space (context), `-` or `+`."
_EMPTY = "the hunk has no lines."


# The `*** Begin Patch` format.


@dataclass
class _Marked:
    """A position in the lines of such a patch."""

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

    def wrong(self, problem: str) -> ToolFailed:
        """The error for the line last taken."""
        return _wrong(self.lines, self.at, problem)

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
            lines, at_end = self._hunk_lines()
            if lines.taken:
                hunks.append(Hunk(lines.close(), tuple(headers), at_end, number, lines.no_final_newline))
            elif headers:
                raise self.wrong(_EMPTY)
        return tuple(hunk for hunk in hunks if hunk.lines)

    def _hunk_lines(self) -> tuple[HunkLines, bool]:
        """The lines of a hunk, and whether they are marked as the end of the file."""
        lines = HunkLines()
        while self.more and not self._ends_section() and not self.peek().startswith("@@"):
            if self.peek().rstrip() == _END_OF_FILE:
                self.take()
                return lines, True
            if not lines.add(self.take()):
                raise self.wrong(_STRAY)
        return lines, False

    def _ends_section(self) -> bool:
        """Whether the next line is a marker. An indented end marker counts only as the last of the patch."""
        line = self.peek()
        if line.startswith("*** "):
            return line.rstrip() != _END_OF_FILE
        return line.strip() == _END and not any(rest.strip() for rest in self.lines[self.at + 1 :])


def read_header(line: str) -> tuple[str, int | None]:
    """What a `@@` line says: (a line of the file to search after, the old line number), each where given."""
    place = read_place(line)
    if place:
        # The text after the numbers is what a diff tool guessed to be the function: no use as an anchor.
        return "", place.old_start
    text = line.lstrip("@").removeprefix(" ").rstrip()
    text = text.removesuffix("@@").rstrip() if text.endswith("@@") else text
    return ("" if not text.strip(" .-+,0123456789…") else text), None


# Unified diffs, as `diff -u` and git write them and as models imitate them.


def _read_unified(lines: Sequence[str]) -> list[Operation]:
    return [_operation_of(file, lines) for file in read_diff(lines)]


def _operation_of(file: FileDiff, lines: Sequence[str]) -> Operation:
    """What one file's part of a diff asks for."""
    if not file.git_line and not file.names:
        raise _wrong(
            lines, file.first, "no file is named before this hunk: write `--- a/path` and `+++ b/path`."
        )
    for number, line in enumerate(file.headers, file.first + 1):
        if line.startswith(("GIT binary patch", "Binary files ")):
            raise _wrong(lines, number, "binary content cannot be patched.")
        if line.startswith(("copy from ", "old mode ", "new mode ")):
            raise _wrong(lines, number, "copies and mode changes cannot be applied.")
    hunks = _hunks_of(file, lines)
    if file.is_new and file.new:
        return _added_file(file.new, file, hunks, lines)
    if file.is_deleted and file.old:
        return DeleteFile(file.old)
    if not file.old or not file.new:
        raise _wrong(lines, file.last, "the file's name is missing.")
    move_to = file.new if file.new != file.old else None
    if not hunks and move_to is None:
        problem = f"no hunk for {file.old}: mode changes and binary content cannot be applied."
        raise _wrong(lines, file.last, problem)
    return UpdateFile(file.old, hunks, move_to)


def _added_file(path: str, file: FileDiff, hunks: Sequence[Hunk], lines: Sequence[str]) -> AddFile:
    added = [(sign, text) for hunk in hunks for sign, text in hunk.lines]
    if any(sign == "-" or (sign == " " and text) for sign, text in added):
        raise _wrong(lines, file.last, f"the new file {path} has lines that do not begin with `+`.")
    ended = not (hunks and hunks[-1].no_final_newline)
    text = "\n".join(text for _, text in added) + ("\n" if added and ended else "")
    return AddFile(path, text, 0o755 if file.is_executable else 0o644, is_new=True)


def _hunks_of(file: FileDiff, lines: Sequence[str]) -> tuple[Hunk, ...]:
    hunks = []
    for read in file.hunks:
        if read.stray:
            raise _wrong(lines, read.stray, _STRAY)
        if not read.lines:
            raise _wrong(lines, read.last, _EMPTY)
        text, number = read_header(read.header)
        headers = (text,) if text else ()
        hunks.append(Hunk(read.lines, headers, number=number, no_final_newline=read.no_final_newline))
    return tuple(hunks)

"""Diffs for people: files to fold, counted, numbered and coloured.

Colours come from pygments, which escapes what it is given; nothing else here makes HTML.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

from headgate.core import show_hidden, show_path
from headgate.first_use import dataclass
from headgate.reading import DiffHunk, FileDiff, Sign, read_git_diff

FILE_LINES = 600
"""Of one file; more is cut."""
ALL_LINES = 3_000
"""Of all files together."""
FILE_COUNT = 200
LINE_CHARS = 1_000
_FORMATTER = HtmlFormatter(nowrap=True)
_CARRIAGE = "\u240d"
"""Shown for a carriage return, at which pygments would begin another line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk."""

    sign: Sign
    old: int | None
    new: int | None
    code: Markup


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that belong together."""

    header: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class ShownFile:
    """One file's part."""

    number: int
    path: str
    before: str
    """The path that it had, if it was renamed."""
    status: str
    added: int
    removed: int
    hunks: tuple[Hunk, ...]
    cut: int
    """Lines that are left out."""
    is_binary: bool


@dataclass(frozen=True, slots=True)
class ShownDiff:
    """A diff as the page has it."""

    files: tuple[ShownFile, ...]
    added: int
    removed: int
    more_files: int
    """Files that are left out."""

    @property
    def is_cut(self) -> bool:
        return bool(self.more_files) or any(file.cut for file in self.files)


def show_diff(text: str) -> ShownDiff:
    """A diff that git wrote. Long files and long diffs are cut; all of it is counted."""
    files = list(read_git_diff(text))
    shown: list[ShownFile] = []
    left = ALL_LINES
    for number, file in enumerate(files[:FILE_COUNT], 1):
        made = _show_file(file, number, min(left, FILE_LINES))
        left -= sum(len(hunk.lines) for hunk in made.hunks)
        shown.append(made)
    return ShownDiff(
        tuple(shown),
        sum(_count(file, "+") for file in files),
        sum(_count(file, "-") for file in files),
        max(len(files) - FILE_COUNT, 0),
    )


def _count(file: FileDiff, sign: Sign) -> int:
    return sum(1 for hunk in file.hunks for own, _ in hunk.lines if own == sign)


def _show_file(file: FileDiff, number: int, room: int) -> ShownFile:
    lexer = _lexer_for(file.path.rpartition("/")[2])
    hunks, cut = [], 0
    for hunk in file.hunks:
        kept = hunk.lines[:room]
        cut += len(hunk.lines) - len(kept)
        room -= len(kept)
        if kept:
            hunks.append(Hunk(hunk.header, tuple(_lines(hunk, kept, lexer))))
    return ShownFile(
        number,
        show_path(file.path),
        show_path(file.old) if file.old and file.old != file.path else "",
        _status(file),
        _count(file, "+"),
        _count(file, "-"),
        tuple(hunks),
        cut,
        file.is_binary,
    )


def _status(file: FileDiff) -> str:
    if file.is_new:
        return "new"
    if file.is_deleted:
        return "deleted"
    return "renamed" if file.old and file.old != file.path else "changed"


def _lines(hunk: DiffHunk, kept: Sequence[tuple[Sign, str]], lexer: Lexer) -> Iterator[Line]:
    """The lines with their numbers. Each side is coloured as one text: strings may go over lines."""
    sides = {
        side: iter(_colour([text for sign, text in kept if sign in (" ", side)], lexer))
        for side in ("-", "+")
    }
    old = hunk.place.old_start if hunk.place else 1
    new = hunk.place.new_start if hunk.place else 1
    for sign, _ in kept:
        if sign == "-":
            yield Line(sign, old, None, next(sides["-"]))
            old += 1
        elif sign == "+":
            yield Line(sign, None, new, next(sides["+"]))
            new += 1
        else:
            next(sides["-"])
            yield Line(sign, old, new, next(sides["+"]))
            old, new = old + 1, new + 1


def _colour(lines: Sequence[str], lexer: Lexer) -> list[Markup]:
    """Lines of code as HTML, one each."""
    plain = [_tidy(line) for line in lines]
    made = highlight("\n".join(plain), lexer, _FORMATTER).split("\n")
    if made and made[-1] == "" and len(made) == len(plain) + 1:
        made.pop()
    if len(made) != len(plain):  # a lexer that takes line ends as it likes
        return [escape(line) for line in plain]
    return [Markup(line) for line in made]  # pygments has escaped it


def _tidy(line: str) -> str:
    line = show_hidden(line.removesuffix("\r").replace("\r", _CARRIAGE), joiners=True)
    return line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]} [... {len(line) - LINE_CHARS:,} more]"


@lru_cache(maxsize=64)
def _lexer_for(name: str) -> Lexer:
    """The lexer for a file's name. Contents do not decide: guessing takes long, and can be led astray."""
    options = {"stripnl": False, "ensurenl": True}
    try:
        return get_lexer_for_filename(name, **options)
    except ClassNotFound:
        return TextLexer(**options)

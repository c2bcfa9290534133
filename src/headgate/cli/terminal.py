"""Standard streams and the terminal behind them: their width, lines folded to it, and a terminal that closes.

`main` imports this module, so it imports little.
"""

import codecs
import errno
import io
import os
import select
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from headgate.control_characters import escape_controls

USUAL_WIDTH, MIN_WIDTH = 80, 20


def terminal_width(stream: IO[str]) -> int | None:
    """How wide the terminal behind a stream is; None where there is none."""
    if not stream.isatty():
        return None
    columns = _columns(stream)
    return max(columns, MIN_WIDTH) if columns > 0 else USUAL_WIDTH  # a terminal may not know its own


def _columns(stream: IO[str]) -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns)
    except (ValueError, OSError):
        return 0


def is_interactive() -> bool:
    """Whether a person can type here, on a terminal whose cursor can be moved."""
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return on_terminal and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


@contextmanager
def typing_hidden() -> Iterator[Callable[[], None]]:
    """Keeps the terminal from showing what is typed until the prompt, which shows it, is there.

    Nothing of it is lost. The block gets what ends this; the block's end does so, too.
    """
    import termios  # nothing but the prompt needs it

    try:
        before = termios.tcgetattr(sys.stdin)
    except termios.error:
        before = None

    def show() -> None:
        with suppress(termios.error):
            if before:
                termios.tcsetattr(sys.stdin, termios.TCSANOW, before)

    if before:
        quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield show
    finally:
        show()


def is_in_front(stream: IO[str]) -> bool:
    """Whether the terminal behind a stream is this process's now, and not the shell's that started it."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except OSError:
        return True  # no shell controls it


def fold_lines(text: str, width: int | None, hanging: int | None = None) -> str:
    """Text whose lines are no wider than that, unless a single word is.

    What a line goes on with is indented by `hanging`, or else as the line itself.
    """
    return text if width is None else "\n".join(_fold(line, width, hanging) for line in text.split("\n"))


def _fold(line: str, width: int, hanging: int | None) -> str:
    if len(line) <= width:
        return line
    indent = len(line) - len(line.lstrip()) if hanging is None else hanging
    following = " " * min(indent, width // 2)
    words = line.lstrip().removeprefix("| ")
    return textwrap.fill(
        words,
        width,
        initial_indent=line[: len(line) - len(words)],  # no line ends behind it, however long a word follows
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def shorten_line(text: str, width: int | None) -> str:
    """The beginning of a line, where it is not wanted longer."""
    return text if width is None or len(text) <= width else f"{text[: max(width - 3, 1)].rstrip()}..."


def help_width() -> int:
    """How wide help is printed. click would import a good deal more to find out."""
    return max(50, min(_columns(sys.stdout) or USUAL_WIDTH, 100) - 2)


def fill_closed_streams() -> None:
    """Gives a process that was started with a standard stream closed one that leads nowhere.

    The descriptors are filled, too: otherwise the next file to be opened would be standard output to every
    program that is started.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


class ClosableTerminal(io.FileIO):
    """A terminal that may be closed: what is written to it then is discarded, without an error."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            redirect_to_null(self.fileno())
            return memoryview(data).nbytes


class PlainTerminal(ClosableTerminal):
    """A terminal that nothing written to it can steer, whether it comes from a model, a file or a server."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def write(self, data: Any, /) -> int:
        text = escape_controls(self._decoder.decode(bytes(data)))
        left = memoryview(text.encode(self._encoding, "replace"))
        while left:
            written: int | None = super().write(left)
            if written is None:  # the terminal takes nothing now
                select.select([], [self.fileno()], [], 1)
            left = left[written or 0 :]
        return memoryview(data).nbytes


def protect_terminal() -> None:
    """Makes standard output and standard error escape control characters where they are terminals.

    They also stay usable after their terminal is closed. A pipe gets every byte as it is.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream.isatty():
            stream.flush()
            raw = io.BufferedWriter(PlainTerminal(stream.fileno(), stream.encoding))
            text = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)
            setattr(sys, name, text)


def styling_stream(stream: IO[str]) -> IO[str]:
    """A stream to the same terminal for Headgate's own colours and cursor movements.

    Whoever writes to it has to escape everything else.
    """
    if not (isinstance(stream, io.TextIOWrapper) and stream.isatty()):
        return stream
    raw = io.BufferedWriter(ClosableTerminal(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True, write_through=True)


def terminal_descriptors() -> tuple[int, ...]:
    """The standard descriptors that lead to a terminal."""
    return tuple(number for number in (0, 1, 2) if os.isatty(number))


def redirect_to_null(descriptor: int) -> None:
    """Makes a descriptor refer to the null device."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)

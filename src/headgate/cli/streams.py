"""Standard streams of a process that may outlive its terminal."""

import errno
import io
import os
import sys
from typing import Any


class Terminal(io.FileIO):
    """A terminal. Once it is closed, what is written to it goes nowhere, and nobody fails because of that."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            leave(self.fileno())
            return memoryview(data).nbytes


def outlive_terminal() -> None:
    """Has standard output and standard error go on when the terminal that they lead to is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream.isatty():
            stream.flush()
            raw = io.BufferedWriter(Terminal(stream.fileno(), "w", closefd=False))
            text = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)
            setattr(sys, name, text)


def terminals() -> tuple[int, ...]:
    """The standard descriptors that lead to a terminal."""
    return tuple(number for number in (0, 1, 2) if os.isatty(number))


def leave(descriptor: int) -> None:
    """Has a descriptor lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)

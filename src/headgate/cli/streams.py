"""Standard streams of a process that may outlive its terminal."""

import errno
import io
import os
import sys
from typing import Any


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


def outlive_terminal() -> None:
    """Makes standard output and standard error usable after their terminal is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream.isatty():
            stream.flush()
            raw = io.BufferedWriter(ClosableTerminal(stream.fileno(), "w", closefd=False))
            text = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)
            setattr(sys, name, text)


def terminal_descriptors() -> tuple[int, ...]:
    """The standard descriptors that lead to a terminal."""
    return tuple(number for number in (0, 1, 2) if os.isatty(number))


def redirect_to_null(descriptor: int) -> None:
    """Makes a descriptor refer to the null device."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)

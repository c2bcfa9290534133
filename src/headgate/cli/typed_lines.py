"""Lines that a person types on the terminal while something else is shown there."""

import asyncio
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PIECE = 4096
"""A terminal hands out a line at a time, and none is longer."""
LOOK_AGAIN = 1.0
"""Seconds after which a process in the background looks whether it is in front again."""


class TypedLines:
    """Calls `say` with each line that is typed; lines that are pasted at once are one.

    The terminal itself shows what is typed and lets people correct it. A process in the background reads
    nothing: the line is meant for the shell, and reading would stop the process.
    """

    def __init__(self, say: Callable[[str], None], descriptor: int) -> None:
        self._say, self._descriptor = say, descriptor

    def start(self) -> None:
        """Needs a running event loop."""
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)

    def _read(self) -> None:
        if not self._is_in_front():
            self.stop()
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self.start)
            return
        typed = b""
        try:
            while piece := os.read(self._descriptor, PIECE):
                typed += piece
                if not select.select([self._descriptor], [], [], 0)[0]:
                    break
            else:
                self.stop()  # the end of input, by Ctrl-D
        except BlockingIOError:
            pass  # there is nothing any more
        except OSError:
            self.stop()  # the terminal is gone
        if text := typed.decode("utf-8", "replace").strip():
            self._say(text)

    def _is_in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return True


@contextmanager
def typed_lines(say: Callable[[str], None]) -> Iterator[None]:
    """Reads what is typed for the duration of the block, if standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = _open_again(sys.stdin.fileno())
    typed = TypedLines(say, descriptor)
    typed.start()
    try:
        yield
    finally:
        typed.stop()
        if descriptor != sys.stdin.fileno():
            os.close(descriptor)


def _open_again(descriptor: int) -> int:
    """The same terminal by a descriptor that never waits: Ctrl-C takes away what was there to be read.

    Standard input itself is shared with other processes, whose reading must wait.
    """
    try:
        return os.open(os.ttyname(descriptor), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return descriptor

"""The interactive mode on a real pseudo-terminal, whose screen a test reads as a person would."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
from command import environment
from processes import PATIENCE

from launcher import launch

PASTE, PASTED = "\x1b[200~", "\x1b[201~"
ENDED, CONTINUES = "/show shows every step.", "What you type next continues from here."
"""What stands last when a task has ended, and when it was cancelled or got stuck."""
CTRL_C, CTRL_D, ALT_ENTER = "\x03", "\x04", "\x1b\r"


class PromptTerminal:
    """A terminal with `headgate` on it."""

    def __init__(self, repo: Path, *words: str, columns: int = 100, rows: int = 40, **env: str) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=5_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        """Every byte that the terminal was sent."""
        self.master, slave = pty.openpty()
        self._set_size(columns, rows)
        state = str(repo.parent / "state")
        given = environment(repo, TERM="xterm", XDG_STATE_HOME=state, **env)
        self._process = launch(["-m", "headgate", *words], repo, given, (slave, slave, slave))
        os.close(slave)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        """Gives the window another size."""
        self._screen.resize(rows, columns)
        self._set_size(columns, rows)

    def type(self, text: str) -> None:
        """Presses keys."""
        os.write(self.master, text.encode())

    def send(self, line: str) -> None:
        """Types a line and presses Enter."""
        self.type(f"{line}\r")

    def paste(self, text: str) -> None:
        """Pastes, as a terminal does that says so."""
        data = f"{PASTE}{text}{PASTED}".encode()
        while data:
            data = data[os.write(self.master, data[:1024]) :]

    @property
    def lines(self) -> list[str]:
        """What is on the screen."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """All that was shown: what has left the screen at its top, and what is on it."""
        gone = [
            "".join(row[column].data for column in range(self._screen.columns)).rstrip()
            for row in self._screen.history.top
        ]
        return "\n".join([*gone, *self.lines])

    @property
    def prompt(self) -> str:
        """The line with the cursor."""
        return self.lines[self._screen.cursor.y]

    def wait(self, condition: Callable[[], object]) -> None:
        """Reads until a condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(min(left, 0.1)):
                raise AssertionError(f"the terminal shows:\n{self.text}")

    def wait_for(self, *texts: str) -> None:
        """Reads until all of these were shown."""
        self.wait(lambda: all(text in self.text for text in texts))

    def wait_for_prompt(self) -> None:
        """Reads until something can be typed."""
        self.wait(lambda: self.prompt == ">")

    def wait_for_end(self) -> int:
        """The exit code of the program, once it has ended."""
        deadline = time.monotonic() + PATIENCE
        while not self._has_ended():
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end; the terminal shows:\n{self.text}")
            self._read(0.05)
        while self._read(0):
            pass
        assert self._process.returncode is not None
        return self._process.returncode

    def signal(self, number: int) -> None:
        """Sends the program a signal."""
        os.kill(self._process.pid, number)

    def hang_up(self) -> None:
        """Closes the window."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        """Ends the program, if it has not ended, and the terminal."""
        if not self._has_ended():
            self.signal(signal.SIGKILL)
            self._process.reap()
        if self.master >= 0:
            os.close(self.master)

    def _has_ended(self) -> bool:
        if self._process.returncode is None and select.select([self._process.launcher], [], [], 0)[0]:
            self._process.reap()
        return self._process.returncode is not None

    def _read(self, seconds: float) -> bool:
        """Takes in what was shown; False when there is nothing more to come."""
        watched = [self.master] if self.master >= 0 else []
        ready, _, _ = select.select(watched, [], [], seconds)
        if not ready:
            return seconds > 0
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the program has ended
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


@contextmanager
def prompt_terminal(repo: Path, *words: str, columns: int = 100, **env: str) -> Iterator[PromptTerminal]:
    """The interactive mode in a repository, as soon as something can be typed."""
    terminal = PromptTerminal(repo, *words, columns=columns, **env)
    try:
        terminal.wait_for_prompt()
        yield terminal
    finally:
        terminal.close()

"""The question on a terminal before a command runs or a file is written."""

import os
import select
import sys
import threading
from difflib import unified_diff
from typing import cast

from headgate.cli.live import Progress, printable
from headgate.core import Access
from headgate.protect import Answer

_ANSWERS: dict[str, Answer] = {"y": "once", "t": "task", "a": "always", "n": "no", "": "no"}
_MOST_LINES = 40
_LOOK_SECONDS = 0.1


class TerminalApproval:
    """Asks on the terminal that a task is followed on. It is called in a thread, one question at a time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        """Answers the question that waits, and all others, with no: the task is being cancelled."""
        self._abandoned.set()

    def __call__(self, access: Access) -> Answer:
        with self._progress.held():
            for line in describe(access):
                print(printable(line), file=sys.stderr)
            kind = "commands" if access.act == "run" else "writes"
            while not self._abandoned.is_set():
                prompt = f"Allow it? [y] once  [t] all {kind} of this task  [a] always  [N] no: "
                print(prompt, end="", file=sys.stderr, flush=True)
                line_read = self._read_line()
                if line_read is None:
                    break
                word = line_read.strip().lower()
                if word[:1] in _ANSWERS:
                    return _ANSWERS[word[:1]]
        return "no"

    def _read_line(self) -> str | None:
        """A line from the terminal; None when it is closed or nobody waits for an answer any more."""
        while not self._abandoned.is_set():
            ready, _, _ = select.select([0], [], [], _LOOK_SECONDS)
            if ready:
                data = os.read(0, 4096)
                return data.decode(errors="replace") if data else None
        return None


def describe(access: Access) -> list[str]:
    """What is about to be done: a command, or the diff of a file."""
    if access.act == "run":
        return ["The model wants to run:", *(f"  {line}" for line in access.target.splitlines())]
    sides = [_lines(access.before), _lines(access.after)]
    if any(side is None for side in sides):
        return [f"The model wants to write {access.target} (a binary file)."]
    before, after = cast(list[list[str]], sides)
    diff = list(unified_diff(before, after, "before", "after", lineterm="", n=2))[2:]
    cut = [f"  ... and {len(diff) - _MOST_LINES} more lines"] if len(diff) > _MOST_LINES else []
    return [f"The model wants to write {access.target}:", *(f"  {line}" for line in diff[:_MOST_LINES]), *cut]


def _lines(data: bytes | None) -> list[str] | None:
    try:
        return (data or b"").decode().splitlines()
    except UnicodeDecodeError:
        return None

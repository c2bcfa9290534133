"""The question on a terminal before a command runs or a file is written."""

import os
import select
import sys
import termios
import threading
from contextlib import suppress
from difflib import unified_diff
from typing import cast

from headgate.cli.live import Progress
from headgate.core import Access
from headgate.first_use import regex
from headgate.guard import Answer

ANSWERS: dict[str, Answer] = {
    **{"y": "once", "yes": "once", "once": "once", "t": "task", "task": "task"},
    **{"a": "always", "always": "always", "n": "no", "no": "no", "": "no"},
}
"""What a person may type, and what it means."""
_MANY_SPACES = regex(r" {40,}")
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that are drawn as nothing."""
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
                print(line, file=sys.stderr)
            _forget_typed()
            while not self._abandoned.is_set():
                print(question_for(access), end="", file=sys.stderr, flush=True)
                line_read = self._read_line()
                if line_read is None:
                    break
                word = line_read.strip().lower()
                if word in ANSWERS:
                    return ANSWERS[word]
        return "no"

    def _read_line(self) -> str | None:
        """A line from the terminal; None when it is closed or nobody waits for an answer any more."""
        while not self._abandoned.is_set():
            ready, _, _ = select.select([0], [], [], _LOOK_SECONDS)
            if ready:
                data = os.read(0, 4096)
                return data.decode(errors="replace") if data else None
        return None


def question_for(access: Access) -> str:
    """What may be answered."""
    kind = "commands" if access.act == "run" else "writes"
    return f"Allow it? [y] once  [t] all {kind} of this task  [a] always  [N] no: "


def _forget_typed() -> None:
    """Discards what was typed before the question was there: it answers another one."""
    with suppress(termios.error):
        termios.tcflush(0, termios.TCIFLUSH)


def describe(access: Access) -> list[str]:
    """What is about to be done: a command, or the diff of a file. All that is not visible is written out."""
    return [_visible(line) for line in _describe(access)]


def _visible(line: str) -> str:
    shown = "".join(
        char if char.isprintable() and char not in _BLANK else char.encode("unicode_escape").decode()
        for char in line
    )
    return _MANY_SPACES.sub(lambda found: f" [{len(found[0])} spaces] ", shown)


def _describe(access: Access) -> list[str]:
    if access.act == "run":
        # Other line separators are no line breaks to a shell, and empty lines would push the rest away.
        lines = [line for line in access.target.split("\n") if line.strip()]
        return ["The model wants to run:", *(f"  {line}" for line in lines)]
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

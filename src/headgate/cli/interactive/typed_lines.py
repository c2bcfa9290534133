"""What a typed line means: a task, a command, one of the shell, or the beginning of something longer.

Long pasted text is a few words in it, and some lines were meant as something else than a task.
"""

import shlex
from collections.abc import Callable, Container
from typing import Literal, NamedTuple

from headgate.cli.task_text import TaskInput, put_in, read_pasted
from headgate.first_use import dataclass

MARK, SHELL_MARK = "/", "!"
LEAVING = frozenset({"quit", "exit", "q"})
"""Words that leave, with a slash or alone."""
_FENCE = "```"
MOST_LINES, MOST_CHARS = 6, 1_000
"""What is shown of pasted text as it is. More than that is hard to edit in a prompt."""
PROGRAM = "headgate"
_TASKS = frozenset({"run", "submit"})
_SHELL = frozenset({"ls", "pwd", "git status", "git diff", "git log"})


class Typed(NamedTuple):
    """What a line means: a task or words for the one that runs, a command, or one of the shell."""

    kind: Literal["text", "command", "shell"]
    text: str
    """The name of a command, otherwise all of it."""
    rest: str = ""
    """What stands behind the command's name."""


def read_line(line: str) -> Typed | None:
    """What a line means; None if it is blank.

    Two slashes, or two exclamation marks, stand for one at the beginning of a task.
    """
    text = line.strip()
    if not text:
        return None
    if text.startswith((MARK * 2, SHELL_MARK * 2)):
        return Typed("text", text[1:])
    if text.startswith(SHELL_MARK):
        return Typed("shell", text[1:].strip())
    if text.lower().removesuffix("()") in LEAVING:
        return Typed("command", "quit")
    head, *rest = text.split(maxsplit=1)
    # A path such as /etc/hosts is the beginning of a sentence, and no command.
    if not text.startswith(MARK) or MARK in head[1:] or head == MARK:
        return Typed("text", text)
    name = head[1:].lower()
    return Typed("command", "quit" if name in LEAVING else name, rest[0] if rest else "")


def goes_on(text: str) -> bool:
    """Whether another line belongs to what was typed: after a backslash, or in an open fence."""
    fences = sum(line.lstrip().startswith(_FENCE) for line in text.split("\n"))
    return text.endswith("\\") or fences % 2 == 1


def join_lines(text: str) -> str:
    """The text with a line begun, in the place of the backslash that asked for it."""
    return f"{text.removesuffix(chr(92))}\n"


class PastedTexts:
    """Long pasted text, which the prompt shows as `[pasted 212 lines]`, for the lines that name it."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def shorten(self, pasted: str) -> str:
        """What the prompt shows of a pasted text."""
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= MOST_LINES and len(text) <= MOST_CHARS:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        same = sum(name.startswith(f"[pasted {size}") for name in self._kept)
        name = f"[pasted {size}, {same + 1}]" if same else f"[pasted {size}]"
        self._kept[name] = text
        return name

    def expand(self, line: str) -> str:
        """A line with the whole of what was pasted into it, on lines of its own."""
        return put_in(line, self._kept)

    def read(self, line: str, tell: Callable[[str], None]) -> TaskInput:
        """The task that a line is, with pasted output attached to it."""
        return read_pasted(line, self._kept, tell)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """What to say about such a line, and what to put into the prompt in its place."""

    said: str
    instead: str = ""


def find_misplaced(text: str, here: Container[str], in_shell: Container[str]) -> Misplaced | None:
    """What a line was probably meant as; None if it is a task.

    `here` has the names of the commands after a slash, `in_shell` those of the program's own.
    """
    head, *rest = text.split(maxsplit=1)
    if text == "/":
        return Misplaced("A command's name follows the slash: /help lists them.", text)
    if not rest and head.lower() in here:
        return Misplaced(f'"{head}" alone is not a task. Enter runs the command.', f"/{head.lower()}")
    if text in _SHELL:
        return Misplaced(f'"{text}" alone is not a task. Enter runs the command.', f"!{text}")
    if head != PROGRAM:
        return None
    name, *more = rest[0].split(maxsplit=1) if rest else [""]
    if not name:
        return Misplaced("You are in Headgate already: type what to do, or /help.")
    if name not in in_shell and not name.startswith("-"):
        return None  # a sentence that begins with the name
    words = _split(more[0]) if more else []
    if name.startswith("-") or any(word.startswith("-") for word in words):
        return Misplaced(
            "Options work in a shell: /quit leaves Headgate. Here, a task is typed without any command."
        )
    given = " ".join(words)
    if name in _TASKS:
        return Misplaced(f"Here, you type a task without {PROGRAM} {name}. Enter starts it.", given)
    if name in here:
        return Misplaced(f"Here, the command is /{name}. Enter runs it.", f"/{name} {given}".rstrip())
    return Misplaced(f"{PROGRAM} {name} works in a shell: /quit leaves Headgate.")


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # an apostrophe of a sentence
        return line.split()

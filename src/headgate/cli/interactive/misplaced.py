"""Lines that would be strange tasks, because they were meant as a command, here or in a shell."""

import shlex
from collections.abc import Container
from dataclasses import dataclass

PROGRAM = "headgate"
_TASKS = frozenset({"run", "submit"})
_SHELL = frozenset({"ls", "pwd", "git status", "git diff", "git log"})


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

"""What a typed line means: a task, a command, one of the shell, or the beginning of something longer."""

from dataclasses import dataclass

MARK, SHELL_MARK = "/", "!"
LEAVING = frozenset({"quit", "exit", "q"})
"""Words that leave, with a slash or alone."""
_FENCE = "```"


@dataclass(frozen=True, slots=True)
class TypedText:
    """A task, or words for the one that runs."""

    text: str


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A line that begins with a slash."""

    name: str
    rest: str
    """What stands behind the name."""

    @property
    def words(self) -> list[str]:
        return self.rest.split()


@dataclass(frozen=True, slots=True)
class TypedShell:
    """A line that begins with an exclamation mark."""

    command: str


def read_line(line: str) -> TypedText | TypedCommand | TypedShell | None:
    """What a line means; None if it is blank.

    Two slashes, or two exclamation marks, stand for one at the beginning of a task.
    """
    text = line.strip()
    if not text:
        return None
    if text.startswith((MARK * 2, SHELL_MARK * 2)):
        return TypedText(text[1:])
    if text.startswith(SHELL_MARK):
        return TypedShell(text[1:].strip())
    if text.lower().removesuffix("()") in LEAVING:
        return TypedCommand("quit", "")
    head, *rest = text.split(maxsplit=1)
    # A path such as /etc/hosts is the beginning of a sentence, and no command.
    if not text.startswith(MARK) or MARK in head[1:] or head == MARK:
        return TypedText(text)
    name = head[1:].lower()
    return TypedCommand("quit" if name in LEAVING else name, rest[0] if rest else "")


def goes_on(text: str) -> bool:
    """Whether another line belongs to what was typed: after a backslash, or in an open fence."""
    fences = sum(line.lstrip().startswith(_FENCE) for line in text.split("\n"))
    return text.endswith("\\") or fences % 2 == 1


def join_lines(text: str) -> str:
    """The text with a line begun, in the place of the backslash that asked for it."""
    return f"{text.removesuffix(chr(92))}\n"

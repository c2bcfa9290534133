"""Approvals: a person is asked before a command runs or a file is written.

The guard says that somebody has to be asked; `Approvals` asks and remembers the answers of a task. What is
always allowed is kept in a list beside the user's own configuration.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from headgate.core import Access, Act, Ask
from headgate.first_use import dataclass
from headgate.remembered import read_remembered, remember

ApprovalMode = Literal["never", "commands", "writes", "all"]
Answer = Literal["once", "task", "always", "no"]
AskPerson = Callable[[Access], Answer]
"""Shows a person what is about to be done, and waits for the answer. Called in a thread."""
_ASKED: dict[ApprovalMode, frozenset[Act]] = {
    "never": frozenset(),
    "commands": frozenset({"run"}),
    "writes": frozenset({"write"}),
    "all": frozenset({"run", "write"}),
}
_JOINS = frozenset(";&|<>$`\n(){}")
"""A command with one of these may do more than its beginning says, so no pattern allows it."""


@dataclass
class Approvals:
    """The guard of one task, and the one who asks for it."""

    mode: ApprovalMode
    person: AskPerson | None
    """None where nobody can be asked."""
    allowed: "AllowList"
    _for_task: set[Act] = field(default_factory=set)
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, access: Access, /) -> Ask | None:
        """The guard: whether a person has to be asked."""
        if access.act not in _ASKED[self.mode] or access.act in self._for_task or self.allowed.has(access):
            return None
        return Ask("A person has to approve this.")

    def approve(self, access: Access) -> str:
        """Asks the person, one question at a time. Returns why it may not be done; empty if it may."""
        what, key = ("command", "commands") if access.act == "run" else ("write", "writes")
        if self.person is None:
            return (
                f"This {what} needs a person's approval, and there is no terminal to ask on. The user can "
                f"allow it with `allow_{key}` or `approvals` in the user configuration."
            )
        with self._asking:
            answer = "once" if self(access) is None else self.person(access)  # allowed meanwhile, or not
            if answer == "task":
                self._for_task.add(access.act)
            if answer == "always":
                self.allowed.add(access)
        return f"The user did not allow this {what}." if answer == "no" else ""


class AllowList:
    """What needs no question: patterns of the user's configuration, and what the user has always allowed."""

    def __init__(self, file: Path, commands: Iterable[str] = (), writes: Iterable[str] = ()) -> None:
        self._file = file
        self._patterns = {"run": tuple(commands), "write": tuple(writes)}

    def has(self, access: Access) -> bool:
        """Whether a command or a path is on the list."""
        if access.target in read_remembered(self._file).get(access.act, ()):
            return True
        if access.act == "run" and not _JOINS.isdisjoint(access.target):
            return False
        return any(fnmatchcase(access.target, pattern) for pattern in self._patterns.get(access.act, ()))

    def add(self, access: Access) -> None:
        """Allows this command, or writing to this path, from now on."""
        known = read_remembered(self._file)
        known[access.act] = [*known.get(access.act, ()), access.target]
        remember(self._file, known)

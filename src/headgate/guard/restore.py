"""Undoing what a command did to protected paths: who is asked, what is reported, how a path is put back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from headgate.errors import HeadgateError
from headgate.first_use import dataclass
from headgate.process import uninterrupted

T = TypeVar("T")
Change = Literal["changed", "deleted", "created"]


@dataclass(frozen=True, slots=True)
class Restored:
    """One protected path that had been changed."""

    path: str
    """As it is shown."""
    change: Change
    reason: str
    """Why it is protected: `it is out of bounds for this task`."""
    problem: str = ""
    """Why it could not be put back; empty if it was."""
    between: bool = False
    """It happened after a command had ended: something that the command left running did it, or a person."""
    decides: bool = False
    """A verification in which it happened may have run something else than what is there now."""
    copy: str = field(default="", compare=False)
    """Where what was there is kept, if it is."""
    person: bool = False
    """A person may have done it as well: nobody can tell."""

    def sentence(self) -> str:
        """What happened, for the model."""
        done = "Removed" if self.change == "created" else "Restored"
        by = "it was {} while the command ran" if self.person else "the command had {} it"
        by = "it was {} between two commands" if self.between else by
        why = f"{self.reason}; {by.format(self.change)}"
        if self.problem:
            return f"Could not be {done.lower()}: {self.path} ({why}, and {self.problem})."
        return f"{done}: {self.path} ({why})."


class Protected(Protocol):
    """What the shell tool, and whoever is about to verify, asks. The calls block."""

    def begin(self) -> tuple[Restored, ...]:
        """Prepares for a command: the first time, takes note of everything as it is.

        Later, undoes what has changed since then. If a command was running when an earlier process died, what
        it changed is undone too.
        """
        ...

    def check_and_restore(self) -> tuple[Restored, ...]:
        """Undoes what has changed since the first `begin`. Nothing happens where none has been.

        A path that cannot be put back is in each answer.
        """
        ...

    def adopt(self) -> None:
        """Takes note of what a step that installs or configures has made. All else stays protected."""
        ...

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """The files of which nothing may change, as the last `begin` found them: read-only in a sandbox.

        `deciding` leaves out data, which tests may write.
        """
        ...

    def forget(self) -> None:
        """Removes what was kept, when the task has ended. What was moved aside stays."""
        ...


class ProtectionFailed(HeadgateError):
    """Protected files cannot be recorded or restored, so the task cannot go on."""


@asynccontextmanager
async def protected_while(protected: Protected | None, restored: list[Restored]) -> AsyncIterator[None]:
    """Whatever is done to protected files in here is undone, however it ends; `restored` receives what."""
    if protected is None:
        yield
        return
    try:
        restored += await _to_its_end(protected.begin)
        yield
    finally:
        restored += await _to_its_end(protected.check_and_restore)


async def protect_between(
    protected: Protected | None, restored: list[Restored], *, prepared: bool, more: bool
) -> None:
    """Between two of several commands: what follows must not run what the one before it has changed.

    `prepared`: that one was to install or configure. `more`: another one follows.
    """
    if protected is None:
        return
    if prepared:
        await _to_its_end(protected.adopt)
    if more:
        restored += await _to_its_end(protected.begin)


async def _to_its_end(work: Callable[[], T]) -> T:
    """Does it in a thread. What goes wrong is not taken for a failure of what runs: ProtectionFailed."""
    try:
        return await uninterrupted(asyncio.to_thread(work))
    except OSError as error:
        raise ProtectionFailed(str(error)) from error

"""Protection while a command runs: what it can be asked, what it reports, and several protections as one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from headgate.errors import HeadgateError
from headgate.process import uninterrupted

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

    def sentence(self) -> str:
        """What happened, for the model."""
        done = "Removed" if self.change == "created" else "Restored"
        why = f"{self.reason}; the command had {self.change} it"
        if self.problem:
            return f"Could not be {done.lower()}: {self.path} ({why}, and {self.problem})."
        return f"{done}: {self.path} ({why})."


class Protected(Protocol):
    """What the shell tool, and whoever is about to verify, asks. The calls block."""

    def begin(self) -> tuple[Restored, ...]:
        """Takes note of everything as it is, since a command is about to run.

        If a command was running when an earlier process died, what it changed is undone first, and told.
        """
        ...

    def check_and_restore(self) -> tuple[Restored, ...]:
        """Undoes what has changed since the last `begin`. Nothing happens where none has been."""
        ...

    def paths(self) -> tuple[Path, ...]:
        """The files of which nothing may change, as the last `begin` found them: read-only in a sandbox."""
        ...

    def forget(self) -> None:
        """Removes what was kept, when the task has ended. What was moved aside stays."""
        ...


class Protection:
    """Several protections as one."""

    def __init__(self, parts: Sequence[Protected]) -> None:
        self._parts = tuple(parts)

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        return tuple(restored for part in self._parts for restored in part.begin())

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected."""
        return tuple(restored for part in self._parts for restored in part.check_and_restore())

    def paths(self) -> tuple[Path, ...]:
        """See Protected."""
        return tuple(path for part in self._parts for path in part.paths())

    def forget(self) -> None:
        """See Protected."""
        for part in self._parts:
            part.forget()


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


async def _to_its_end(work: Callable[[], Sequence[Restored]]) -> Sequence[Restored]:
    """Does it in a thread. What goes wrong is not taken for a failure of what runs: ProtectionFailed."""
    try:
        return await uninterrupted(asyncio.to_thread(work))
    except OSError as error:
        raise ProtectionFailed(str(error)) from error

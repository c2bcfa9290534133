"""Protecting files from whatever runs for a while: they are recorded before it, and restored after it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from headgate.errors import HeadgateError
from headgate.process import uninterrupted
from headgate.protect.files import Protected, Restored


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

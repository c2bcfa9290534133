"""Keeping files from whatever runs for a while."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headgate.host.protect import Protected, Restored
from headgate.host.uninterrupted import uninterrupted


@asynccontextmanager
async def protected_while(protected: Protected | None, restored: list[Restored]) -> AsyncIterator[None]:
    """Whatever is done to protected files in here is undone, however it ends; `restored` receives what."""
    if protected is None:
        yield
        return
    try:
        restored += await uninterrupted(asyncio.to_thread(protected.begin))
        yield
    finally:
        restored += await uninterrupted(asyncio.to_thread(protected.check_and_restore))

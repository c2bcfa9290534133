"""The working tree as one task sees it: what the task itself has changed since it began."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from headgate.host.git import GitFailed, Snapshots
from headgate.host.workspace import show_path


class TaskTree:
    """Compares the tree with the task's start, leaving out what verification runs themselves wrote."""

    def __init__(self, snapshots: Snapshots, written: Callable[[], Collection[str]]) -> None:
        self._snapshots = snapshots
        self._written = written
        self._baseline = ""
        self._by_verification: set[str] = set()

    async def begin(self) -> str:
        """Records the tree as the task finds it; returns the name of that git tree."""
        self._baseline = await asyncio.to_thread(self._snapshots.take)
        return self._baseline

    async def changed_files(self) -> tuple[str, ...]:
        """The files that now differ from the start, as they are shown."""
        return await asyncio.to_thread(self._changed)

    async def final_changes(self) -> tuple[str, ...]:
        """The same for a report that has to be written whatever happens: without git, what tools wrote."""
        try:
            return await self.changed_files() if self._baseline else ()
        except GitFailed:
            return tuple(self._written())

    @asynccontextmanager
    async def during_verification(self) -> AsyncIterator[None]:
        """What changes in here is the verification's doing: reports, caches, files that a formatter mends."""
        before = await asyncio.to_thread(self._snapshots.take)
        try:
            yield
        finally:
            await asyncio.to_thread(self._note_verification, before)

    def _note_verification(self, before: str) -> None:
        ours = set(self._snapshots.changed_files(self._baseline, before))
        after = self._snapshots.take()
        self._by_verification |= set(self._snapshots.changed_files(before, after)) - ours

    def _changed(self) -> tuple[str, ...]:
        written = set(self._written())
        differing = self._snapshots.changed_files(self._baseline, self._snapshots.take())
        shown = ((path, show_path(path)) for path in differing)
        return tuple(name for path, name in shown if path not in self._by_verification or name in written)

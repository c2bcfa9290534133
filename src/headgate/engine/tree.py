"""The working tree as one task sees it: what the task itself has changed since it began."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256

from headgate.host.git import GitFailed, Snapshots
from headgate.host.workspace import parse_path, show_path


class TaskTree:
    """Compares the tree with the task's start.

    git tells what differs; what tools wrote is compared by content as well, because git looks neither into
    ignored files nor into repositories within the repository. New files that a verification run leaves
    behind (reports, caches) are not the task's.
    """

    def __init__(self, snapshots: Snapshots, written: Callable[[], Mapping[str, str | None]]) -> None:
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

    async def mark(self) -> str:
        """Remembers the tree as it is now."""
        return await asyncio.to_thread(self._snapshots.take)

    async def diff_since(self, mark: str) -> str:
        """What has changed since, as a unified diff."""
        return await asyncio.to_thread(lambda: self._snapshots.diff(mark, self._snapshots.take()))

    @asynccontextmanager
    async def during_verification(self) -> AsyncIterator[None]:
        """What appears in here is the verification's doing."""
        before = await asyncio.to_thread(self._snapshots.take)
        yield
        await asyncio.to_thread(self._note_verification, before)

    def _note_verification(self, before: str) -> None:
        self._by_verification |= set(self._snapshots.new_files(before, self._snapshots.take()))

    def _changed(self) -> tuple[str, ...]:
        written = self._written()
        differing = self._snapshots.changed_files(self._baseline, self._snapshots.take())
        names = [show_path(path) for path in differing if path not in self._by_verification]
        names += [name for name, before in written.items() if self._hash(parse_path(name)) != before]
        return tuple(sorted(dict.fromkeys(names), key=parse_path))

    def _hash(self, path: str) -> str | None:
        try:
            return sha256((self._snapshots.repo / path).read_bytes()).hexdigest()
        except OSError:
            return None

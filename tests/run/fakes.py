"""Ports of the loop that do nothing, for tests of what is around them."""

from collections.abc import Collection, Sequence
from pathlib import Path

from headgate.core.events import EditsNoticed
from headgate.reading.diffs import TaskDiff
from headgate.run.job import Window
from headgate.workspace.workspace import FileChange


class UnchangedTree:
    """A tree in which nothing happens."""

    async def changed_files(self) -> tuple[str, ...]:
        return ()

    async def mark(self) -> str:
        return ""

    async def diff_since(self, mark: str) -> str:
        return ""

    async def own_diff(self) -> TaskDiff:
        return TaskDiff("")

    async def way_back(self, mark: str = "") -> tuple[FileChange, ...] | None:
        return None

    def hash_of(self, path: str) -> str | None:
        return None

    async def changed_between(self, before: str, after: str) -> tuple[str, ...]:
        return ()

    async def left_behind(self, before: str, after: str) -> tuple[str, ...]:
        return ()

    async def window(self, before: str, after: str) -> Window:
        return Window(before, after, ())

    async def notice_edits(self, mark: str = "", *, verifying: bool = False) -> EditsNoticed | None:
        return None

    async def remade(self, window: Window, copy: Path) -> frozenset[str]:
        return frozenset()

    async def note_step(self, window: Window, made: Collection[str]) -> EditsNoticed | None:
        return None

    async def known(self) -> str:
        return ""

    async def note_command(self) -> str:
        return ""

    async def notice_before(self, changes: Sequence[FileChange]) -> EditsNoticed | None:
        return None

    def note_writes(self, changes: Sequence[FileChange]) -> None:
        return None

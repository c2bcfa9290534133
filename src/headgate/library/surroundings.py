"""What a flow without a repository has in place of one: no files, no tree, nothing to verify."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headgate.errors import ToolFailed
from headgate.file_stamps import Stamp
from headgate.first_use import dataclass
from headgate.run import Tree
from headgate.tree import ConfinedTree, DirectoryEntry, File, FileChange, hash_at

_NONE = "This flow has no files."


@dataclass
class NoFiles:
    """See Workspace. There is nothing to read, and nothing can be written."""

    root: Path = Path("/nonexistent")

    def locate(self, path: str) -> str:
        raise ToolFailed(_NONE)

    def read(self, path: str) -> File:
        raise ToolFailed(_NONE)

    def exists(self, path: str) -> bool:
        return False

    def list(self, path: str = "") -> list[DirectoryEntry]:
        raise ToolFailed(_NONE)

    def files(self, under: str = "") -> Iterator[str]:
        return iter(())

    def stamp(self, path: str) -> Stamp | None:
        return None

    def apply(self, changes: Sequence[FileChange]) -> None:
        raise ToolFailed(_NONE)

    def may_write(self, path: str) -> bool:
        return False

    def check_run(self, command: str) -> None:
        raise ToolFailed(_NONE)


class NoTree(Tree):
    """See Tree. Without a repository, changes to files are not followed."""


class FolderTree(NoTree):
    """See Tree. A folder of the program's: only single files are looked at, after a crash."""

    def __init__(self, folder: Path) -> None:
        self._files = ConfinedTree(folder)

    def hash_of(self, path: str) -> str | None:
        return hash_at(self._files, path)

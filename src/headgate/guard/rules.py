"""A rule over the tree: which files may not change, why, and what of a change may stay."""

from collections.abc import Callable

from headgate.first_use import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """Says of each path whether it may change. Paths are relative to the repository's root, with `/`."""

    name: str
    reason: str
    """For people and models: `it is out of bounds for this task`."""
    covers: Callable[[str], bool]
    enters: Callable[[str], bool] = lambda directory: True
    """Whether anything below a directory can be covered: others are not walked where git ignores them."""
    allows: Callable[[str, bytes | None, bytes], bool] = lambda path, before, after: False
    """Whether new content of a covered file may stay: its path, what it was (None: not there), what it is."""

    def forbids(self, path: str) -> bool:
        """Whether a file, or a part of it, may not change. A directory that is not entered has none."""
        parts = path.split("/")
        above = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
        return all(map(self.enters, above)) and self.covers(path)

"""What links among the tests lead to: the tests read it, so it is protected like the link."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from headgate.errors import ToolError
from headgate.reading import is_code
from headgate.tree import ConfinedTree, ancestors, fold_case


def find_links(root: Path, files: Iterable[str]) -> dict[str, str]:
    """The symbolic links among files, by the spelling that `fold_case` makes."""
    return {fold_case(path): path for path in files if (root / path).is_symlink()}


class LinkTargets:
    """What links lead to, in one step or several, by way of other links, and by links in linked folders.

    `is_test_itself` says of a link whether it stands for tests (`tests` -> `qa`): then all that is in the
    folder counts. `is_inside` says whether it lies among tests (`tests/data` -> `../fixtures`): then source
    code in the folder does not count, since it may be what is tested.
    """

    def __init__(
        self,
        root: Path,
        links: Mapping[str, str],
        is_test_itself: Callable[[str], bool],
        is_inside: Callable[[str], bool],
    ) -> None:
        self._tree, self._links = ConfinedTree(root), links
        self._whole: dict[str, bool] = {}
        """Each target, and whether source code in it counts."""
        self._passed: set[str] = set()
        """Links that other links lead through."""
        self.present: set[str] = set()
        """The targets that exist."""
        ahead = {place: is_test_itself(path) for place, path in links.items() if is_inside(path)}
        ahead |= {place: True for place, path in links.items() if is_test_itself(path)}
        followed: set[str] = set()
        while ahead:
            for place, whole in ahead.items():
                self._follow(place, whole)
            followed |= ahead.keys()
            ahead = {place: False for place in links if place not in followed and self._lies_in(place)}

    def cover(self, place: str) -> bool:
        """Whether a path, folded, is one of the targets, lies in one, or is a link on the way to one."""
        return place in self._passed or self._lies_in(place)

    def _lies_in(self, place: str) -> bool:
        above = (folder for folder in ancestors(place) if folder in self._whole)
        return place in self._whole or any(self._whole[folder] or not is_code(place) for folder in above)

    def _follow(self, place: str, whole: bool) -> None:
        path = self._links[place]
        try:
            with self._tree.find(path) as spot:
                found, exists = [spot.path, *spot.aliases], spot.status() is not None
        except ToolError:
            return  # it leads out of the repository, or in a circle
        target = fold_case(found[0])
        if not target or place.startswith(f"{target}/"):
            return
        self._whole[target] = self._whole.get(target, False) or whole
        self.present |= {target} if exists else set()
        for alias in map(fold_case, found[1:]):
            self._passed.update(step for step in (alias, *ancestors(alias)) if step in self._links)

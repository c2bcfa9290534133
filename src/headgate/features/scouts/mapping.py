"""Making a map: refresh the index, rank the files, gather what is known of the best."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headgate.features.scouts.chosen import (
    chosen_files,
    covering_tests,
    entry_points,
    prior_art,
    references_between,
)
from headgate.features.scouts.clues import Clues, read_clues
from headgate.features.scouts.code_map import CodeMap, MapLimits, MapQuery
from headgate.features.scouts.conventions import conventions_of
from headgate.features.scouts.index import OutlineIndex
from headgate.features.scouts.index_file import with_index
from headgate.features.scouts.ranking import Weights, rank_files
from headgate.features.scouts.refresh import Tree, refresh
from headgate.guard import SecretNames
from headgate.outlines import words_of_text
from headgate.reading import is_code
from headgate.tree import Workspace

INDEX_NAME = "map.db"
"""What the index is called in Headgate's own folder."""
_SECRETS = SecretNames()
_NAMED = 1_000.0


async def map_code(
    workspace: Workspace,
    query: MapQuery,
    index: Path | None,
    hidden: Callable[[str], bool] = _SECRETS.covers,
    limits: MapLimits | None = None,
    hear: Callable[[int, int], None] = lambda done, total: None,
    last: "LastTree | None" = None,
) -> CodeMap:
    """What a task is likely about in a tree. The same tree and the same query give the same map.

    Files that are ignored, binary, that no tool may read, or for which `hidden` says so are never in it.
    `index` is a file that is made and kept up to date: the first map reads the whole tree, a later one what
    has changed. Without one, every map reads the whole tree. `hear` is told, in another thread, how many of
    the files that are to be read were read. `last` is given where nothing but a person may have changed files
    since the map before, for which it was given too.
    """
    stop = threading.Event()
    try:
        return await asyncio.to_thread(
            make_map,
            workspace,
            query,
            index,
            hidden,
            limits or MapLimits(),
            Weights(),
            stop.is_set,
            hear,
            last,
        )
    finally:
        stop.set()  # where it was cancelled, the thread still reads


def make_map(
    workspace: Workspace,
    query: MapQuery,
    index: Path | None,
    hidden: Callable[[str], bool],
    limits: MapLimits,
    weights: Weights,
    stopped: Callable[[], bool] = lambda: False,
    hear: Callable[[int, int], None] = lambda done, total: None,
    last: "LastTree | None" = None,
) -> CodeMap:
    """The same, where blocking is no harm. Nothing comes of one that is `stopped`, but the index is kept."""

    def make(open_index: OutlineIndex) -> CodeMap:
        clues = read_clues(query)
        if last and (tree := last.as_before(workspace)):
            found = _make(open_index, tree, query, clues, limits, weights)
            if all(workspace.stamp(path) == tree.stamps.get(path) for path in found.paths):
                return replace(found, files_parsed=0)
        tree = refresh(
            open_index, workspace, hidden, limits, stopped, lambda path: _likely(path, clues), hear
        )
        if stopped():
            return CodeMap()
        if last:
            last.keep(tree, workspace)
        return _make(open_index, tree, query, clues, limits, weights)

    return with_index(index, make)


class LastTree:
    """The tree of the map before, for another question: only the files that are shown are looked at again."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._tree: Tree | None = None

    def keep(self, tree: Tree, workspace: Workspace) -> None:
        """Keeps a tree that was read as a whole."""
        self._paths, self._tree = list(workspace.files()), None if tree.left else tree

    def as_before(self, workspace: Workspace) -> Tree | None:
        """The tree if no file came or went."""
        return self._tree if self._tree and list(workspace.files()) == self._paths else None


def _likely(path: str, clues: Clues) -> float:
    """How likely a file is wanted, as far as its path tells."""
    if path.endswith(clues.paths + clues.test_paths + tuple(place for place, _ in clues.places)):
        return _NAMED
    return sum(clues.words.get(word, 0.0) for word in words_of_text(path)) + is_code(path)


def _make(
    index: OutlineIndex, tree: Tree, query: MapQuery, clues: Clues, limits: MapLimits, weights: Weights
) -> CodeMap:
    with index.reading():
        ranking = rank_files(index, tree, clues, weights)
    files = chosen_files(ranking, clues, query, limits)
    tests = covering_tests(files, ranking, query, tree)
    seen = [*(file.path for file in files), *(test.path for test in tests)]
    return CodeMap(
        files=files,
        references=references_between(files, ranking),
        tests=tests,
        entry_points=entry_points(files, tree),
        conventions=conventions_of(seen, ranking.outlines),
        prior_art=prior_art(files, ranking, clues),
        files_seen=len(tree.stamps),
        files_parsed=tree.parsed,
        files_left=tree.left,
    )

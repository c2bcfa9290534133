"""Which files lead to which: by what they import, and by who uses what others define."""

import math
import posixpath
from collections.abc import Iterable, Mapping, Sequence

from headgate.features.scouts.index import DEFINITION, REFERENCE, OutlineIndex, short_name
from headgate.features.scouts.refresh import Tree
from headgate.first_use import regex
from headgate.outlines import Outline

DIGITS = 9
"""Scores are compared to so many decimals: the last bits of a logarithm differ between machines."""
_SEPARATOR = regex(r"::|\\|/|\.")
_INDEX = ("__init__", "index", "mod")
_MOST_ALIKE = 4
"""Where an import could mean more files than this, it means none."""
_ROUNDS = 30
Graph = Mapping[str, Mapping[str, float]]
"""For each file those that it leads to, with the strength of each connection."""


def surroundings(index: OutlineIndex, tree: Tree, seeds: Sequence[int], most: int) -> dict[str, Outline]:
    """The outlines of the best files, and of files that define what these use or use what these define."""
    own = index.outlines(seeds)
    terms: dict[str, None] = {}
    for seed in seeds:
        outline = own.get(seed, Outline())
        terms |= dict.fromkeys(REFERENCE + short_name(one.name) for one in outline.definitions[:200])
        terms |= dict.fromkeys(DEFINITION + name for name in outline.references)
    near: dict[int, float] = {}
    for term, found in sorted(index.places(terms).items()):
        ids = [id for id in found if id in tree.files and id not in own]
        if len(ids) <= (8 if term[0] == DEFINITION else 20):
            for id in ids:
                near[id] = near.get(id, 0.0) + 1 / len(ids)
    order = sorted(near, key=lambda id: (-round(near[id], DIGITS), tree.files[id].path))
    own |= index.outlines(order[: max(0, most - len(own))])
    return {tree.files[id].path: own[id] for id in sorted(own, key=lambda id: tree.files[id].path)}


def find_uses(
    outlines: Mapping[str, Outline], tree: Tree, import_strength: float
) -> dict[str, dict[str, tuple[tuple[str, ...], float]]]:
    """For each file those that define what it uses: the names, the rarest first, and how strong that is."""
    imported = tree.once(_ImportedFiles)
    defined: dict[str, list[str]] = {}
    for path, outline in outlines.items():
        for name in sorted({short_name(one.name) for one in outline.definitions}):
            defined.setdefault(name, []).append(path)
    uses: dict[str, dict[str, tuple[tuple[str, ...], float]]] = {}
    for path, outline in outlines.items():
        direct = {target for module in outline.imports for target in imported.find(path, module)}
        strength: dict[str, float] = {}
        names: dict[str, list[tuple[float, str]]] = {}
        for name in sorted(outline.references):
            targets = defined.get(name, ())
            if not targets or path in targets or len(targets) > 8:
                continue
            meant = [target for target in targets if target in direct] or targets
            for target in meant:
                if outline.imports and target not in direct and _telling(name) < 1:
                    continue  # a common word, most likely a method of something else
                gain = math.sqrt(outline.references[name]) / len(meant) * _telling(name)
                strength[target] = strength.get(target, 0.0) + gain * (
                    import_strength if target in direct else 1.0
                )
                names.setdefault(target, []).append((-gain, name))
        for target in sorted(direct - {path}):
            if target in outlines:
                strength[target] = strength.get(target, 0.0) + 1.0
        uses[path] = {
            target: (
                tuple(name for _, name in sorted(names.get(target, ()))),
                round(strength[target], DIGITS),
            )
            for target in sorted(strength)
        }
    return uses


def _telling(name: str) -> float:
    """A long name, or one of several words, is hardly used by accident."""
    if name.startswith("__") or len(name) < 4:
        return 0.1
    return 1.0 if len(name) >= 8 or not name.islower() else 0.4


class _ImportedFiles:
    """The files of a tree, to be found by how they are imported."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_last: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for path in paths:
            bare = posixpath.splitext(path)[0].split("/")
            if bare[-1] in _INDEX and len(bare) > 1:
                bare = bare[:-1]
            self._by_last.setdefault(bare[-1], []).append((tuple(bare), path))

    def find(self, importer: str, module: str) -> tuple[str, ...]:
        """The files that a module's name in a file may mean; nothing where it is likely a library's."""
        folder = posixpath.dirname(importer)
        if module.startswith(("./", "../")):
            return self._exact(posixpath.normpath(f"{folder}/{module}" if folder else module))
        if module.startswith("."):
            bare = module.lstrip(".")
            for _ in range(len(module) - len(bare) - 1):
                folder = posixpath.dirname(folder)
            return self._exact("/".join(part for part in (folder, bare.replace(".", "/")) if part))
        ending = posixpath.splitext(module)[0] if "/" in module else module
        parts = tuple(
            part for part in _SEPARATOR.split(ending) if part and part not in ("crate", "self", "super")
        )
        if not parts:
            return ()
        found = [path for bare, path in self._by_last.get(parts[-1], ()) if bare[-len(parts) :] == parts]
        return tuple(sorted(found)) if len(found) <= _MOST_ALIKE else ()

    def _exact(self, path: str) -> tuple[str, ...]:
        bare = tuple(posixpath.splitext(path)[0].split("/"))
        whole = tuple(path.split("/"))
        near = {*self._by_last.get(bare[-1], ()), *self._by_last.get(whole[-1], ())}
        return tuple(sorted(found for parts, found in near if parts in (bare, whole)))


def page_rank(graph: Graph, seeds: Mapping[str, float], damping: float) -> dict[str, float]:
    """Where somebody ends up who starts at a seed, follows connections, and now and then starts again.

    All sums are made in the order of the names, so that the result is the same everywhere.
    """
    nodes = sorted({*graph, *seeds, *(target for targets in graph.values() for target in targets)})
    total = sum(seeds[node] for node in nodes if node in seeds)
    if not nodes or total <= 0:
        return {}
    start = {node: seeds.get(node, 0.0) / total for node in nodes}
    shares: dict[str, list[tuple[str, float]]] = {}
    for node in nodes:
        targets = graph.get(node, {})
        strength = sum(targets[target] for target in sorted(targets))
        if strength > 0:
            shares[node] = [(target, targets[target] / strength) for target in sorted(targets)]
    rank = dict(start)
    for _ in range(_ROUNDS):
        following = dict.fromkeys(nodes, 0.0)
        idle = 0.0
        for node in nodes:
            if node not in shares:
                idle += rank[node]
                continue
            for target, share in shares[node]:
                following[target] += rank[node] * share
        rank = {
            node: (1 - damping) * start[node] + damping * (following[node] + idle * start[node])
            for node in nodes
        }
    return rank

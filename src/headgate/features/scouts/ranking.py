"""Which files a task is about: by what it names, and by where those files lead."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from headgate.features.scouts.clues import Clues
from headgate.features.scouts.connections import DIGITS, find_uses, page_rank, surroundings
from headgate.features.scouts.index import (
    DEFINITION,
    NAME_WORD,
    PATH_WORD,
    REFERENCE,
    WORD,
    OutlineIndex,
)
from headgate.features.scouts.refresh import Tree
from headgate.first_use import dataclass
from headgate.outlines import Outline, stem, words_of_text
from headgate.reading import is_code, is_installed_or_built, is_test

_MOST_COMMON = 0.4
"""A word that more files have than this share says nothing, in a large tree."""
_LARGE_TREE = 2_000


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each sign counts. `scripts/measure_map.py` compares choices on real commits."""

    saturation: float = 1.2
    """How fast a word counts less the more often it is there (k1 of BM25)."""
    length: float = 0.75
    """How much a long file has to have it more often (b of BM25)."""
    word: float = 1.0
    name_word: float = 2.0
    """A word in the name of a definition counts as so many in the text."""
    file_word: float = 0.6
    """A word of the task in the name of the file."""
    folder_word: float = 0.2
    whole_name: float = 2.0
    """How much more those words count if the file's name has no others."""
    definition: float = 3.0
    """A name in the task that this file defines."""
    reference: float = 0.6
    path: float = 30.0
    """The file is named itself."""
    place: float = 20.0
    """A stack trace or failure leads through it."""
    test: float = 0.3
    """What remains of a test's score: it is found as what covers a file."""
    other: float = 0.1
    """What remains of the score of documents and data."""
    built: float = 0.1
    """What remains of the score of what lies in folders for built and installed files."""
    graph: float = 0.15
    """How much the rank in the graph counts against the signs in the file itself."""
    back: float = 0.3
    """The strength of a connection from what is used to who uses it."""
    imported: float = 2.0
    """How much stronger a connection is to a file that is imported."""
    damping: float = 0.6
    seeds: int = 60
    nodes: int = 400


@dataclass(slots=True)
class RankedFile:
    """A file with its score, and what made it."""

    path: str
    id: int
    own: float = 0.0
    """Before the graph."""
    score: float = 0.0
    words: dict[str, float] = field(default_factory=dict)
    defines: list[str] = field(default_factory=list)
    is_named: bool = False
    lines: list[int] = field(default_factory=list)
    """Lines that stack traces and failures name."""
    in_graph: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranking:
    """The files of a tree that have to do with a task, the best first."""

    files: list[RankedFile]
    outlines: Mapping[str, Outline]
    """Of the best files, and of those that they are connected with."""
    uses: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Who uses which names of whom, among those."""
    rarity: Mapping[str, float]
    """Of the task's words."""


def rank_files(index: OutlineIndex, tree: Tree, clues: Clues, weights: Weights) -> Ranking:
    """Ranks the files of a tree that has been read into the index."""
    scores = _Scores(index, tree, clues, weights)
    ranked = scores.ranked()
    seeds = ranked[: weights.seeds]
    outlines = surroundings(index, tree, [file.id for file in seeds], weights.nodes)
    connections = find_uses(outlines, tree, weights.imported)
    graph: dict[str, dict[str, float]] = {}
    for source, targets in connections.items():
        for target, (names, strength) in targets.items():
            if names or strength:
                graph.setdefault(source, {})[target] = strength
                graph.setdefault(target, {}).setdefault(source, 0.0)
                graph[target][source] += weights.back * strength
    found = page_rank(graph, {file.path: file.own for file in seeds if file.own > 0}, weights.damping)
    by_path = {file.path: file for file in ranked}
    most = max(found.values(), default=0.0)
    best = max((file.own for file in ranked), default=0.0)
    for path in sorted(found):
        file = by_path.setdefault(path, RankedFile(path, tree.ids[path]))
        file.in_graph = found[path] / most * _role(path, weights, file)
    for file in by_path.values():
        own = file.own / best if best else 0.0
        file.score = round((1 - weights.graph) * own + weights.graph * file.in_graph, DIGITS)
    files = sorted(
        (file for file in by_path.values() if file.score > 0), key=lambda file: (-file.score, file.path)
    )
    used = {
        source: {target: names for target, (names, _) in targets.items()}
        for source, targets in connections.items()
    }
    return Ranking(files, outlines, used, scores.rarity)


class _Scores:
    """The signs that are in the files themselves."""

    def __init__(self, index: OutlineIndex, tree: Tree, clues: Clues, weights: Weights) -> None:
        self._tree, self._clues, self._weights = tree, clues, weights
        self._files: dict[int, RankedFile] = {}
        self.rarity: dict[str, float] = {}
        terms = [field + word for word in clues.words for field in (WORD, PATH_WORD, NAME_WORD)]
        terms += [field + name for name in clues.names for field in (DEFINITION, REFERENCE)]
        live = tree.files
        most = max(_LARGE_TREE, _MOST_COMMON * len(live)) + tree.gone
        self._common = index.common(terms, most) if len(live) > _LARGE_TREE else set[str]()
        self._places = {
            term: {id: count for id, count in found.items() if id in live}
            for term, found in index.places(set(terms) - self._common).items()
        }

    def ranked(self) -> list[RankedFile]:
        self._add_words()
        self._add_path_words()
        self._add_names()
        self._add_paths()
        for file in self._files.values():
            file.own = round(file.own * _role(file.path, self._weights, file), DIGITS)
        return sorted(self._files.values(), key=lambda file: (-file.own, file.path))

    def _file(self, id: int) -> RankedFile:
        if id not in self._files:
            self._files[id] = RankedFile(self._tree.files[id].path, id)
        return self._files[id]

    def _add_words(self) -> None:
        """BM25 over all words of a file; those in names that it defines count more than once."""
        weights = self._weights
        fields = ((WORD, weights.word), (NAME_WORD, weights.name_word))
        for word in sorted(self._clues.words):
            if any(field + word in self._common for field, _ in fields):
                continue
            places = [(self._places.get(field + word, {}), weight) for field, weight in fields]
            having = {id for found, _ in places for id in found}
            if not having or self._is_common(len(having)):
                continue
            rarity = _rarity(len(self._tree.files), len(having))
            self.rarity[word] = rarity
            for id in having:
                count = sum(found.get(id, 0) * weight for found, weight in places)
                size = self._tree.files[id].size / self._tree.usual_size
                spread = weights.saturation * (1 - weights.length + weights.length * size)
                gain = self._clues.words[word] * rarity * count * (weights.saturation + 1) / (count + spread)
                file = self._file(id)
                file.own += gain
                file.words[word] = gain

    def _add_path_words(self) -> None:
        total = len(self._tree.files)
        gains: dict[int, dict[str, float]] = {}
        for word in sorted(self._clues.words):
            found = self._places.get(PATH_WORD + word, {})
            if found and not self._is_common(len(found)):
                rarity = self._clues.words[word] * _rarity(total, len(found))
                for id in found:
                    gains.setdefault(id, {})[word] = rarity
        for id, by_word in gains.items():
            file = self._file(id)
            name = words_of_text(file.path.rpartition("/")[2].partition(".")[0])
            factor = self._weights.whole_name if name and name.keys() <= by_word.keys() else 1.0
            for word, rarity in by_word.items():
                gain = rarity * (
                    self._weights.file_word * factor if word in name else self._weights.folder_word
                )
                file.own += gain
                file.words[word] = file.words.get(word, 0.0) + gain

    def _add_names(self) -> None:
        for name in sorted(self._clues.names):
            for part, weight in (
                (DEFINITION, self._weights.definition),
                (REFERENCE, self._weights.reference),
            ):
                found = self._places.get(part + name, {})
                if not found or self._is_common(len(found)):
                    continue
                gain = self._clues.names[name] * weight * _rarity(len(self._tree.files), len(found))
                for id in found:
                    file = self._file(id)
                    file.own += gain
                    if part == DEFINITION and self._clues.names[name] >= 0.4:
                        file.defines.append(name)

    def _add_paths(self) -> None:
        by_name = self._tree.once(_by_name)
        wanted = [*self._clues.paths, *self._clues.test_paths]
        for path in wanted:
            for id in self._matching(path, by_name):
                if not self._file(id).is_named:
                    self._file(id).is_named = True
                    self._file(id).own += self._weights.path
        for path, line in self._clues.places:
            for id in self._matching(path, by_name):
                file = self._file(id)
                if not file.lines:
                    file.own += self._weights.place
                if line not in file.lines:
                    file.lines.append(line)

    def _matching(self, path: str, by_name: Mapping[str, list[str]]) -> list[int]:
        """The files that a path means: itself, or the one file whose path ends, or that ends, like it."""
        found = by_name.get(path.rpartition("/")[2], [])
        paths = {self._tree.ids[path]: path for path in found}
        exact = [id for id, known in paths.items() if known == path]
        near = [id for id, known in paths.items() if known.endswith(f"/{path}") or path.endswith(f"/{known}")]
        return exact or (near if len(near) <= 3 else [])

    def _is_common(self, count: int) -> bool:
        total = len(self._tree.files)
        return total > _LARGE_TREE and count > _MOST_COMMON * total


def _by_name(paths: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(path.rpartition("/")[2], []).append(path)
    return found


def _rarity(total: int, having: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def _role(path: str, weights: Weights, file: RankedFile) -> float:
    """What a file's score is multiplied with for what it is; nothing changes for one that is named itself."""
    if file.is_named or (file.lines and not is_test(path)):
        return 1.0
    if any(map(is_installed_or_built, path.split("/")[:-1])):
        return weights.built
    if is_test(path):
        return weights.test
    return 1.0 if is_code(path) else weights.other


def matched_words(file: RankedFile, text_words: Iterable[str]) -> list[str]:
    """The words of the task that made the file's score, the best first, as the task has them."""
    written: dict[str, str] = {}
    for word in text_words:
        written.setdefault(stem(word), word.lower())
    best = sorted(file.words.items(), key=lambda item: (-round(item[1], DIGITS), item[0]))
    return [written.get(word, word) for word, _ in best]

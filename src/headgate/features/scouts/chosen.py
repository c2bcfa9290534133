"""The chosen files: their symbols and connections, tests that cover them, prior art, entry points."""

import re
from collections.abc import Iterable, Mapping, Sequence

from headgate.core import show_path
from headgate.features.scouts.clues import Clues
from headgate.features.scouts.code_map import (
    CoveringTest,
    FileReference,
    MapLimits,
    MappedFile,
    MappedSymbol,
    MapQuery,
    PriorArt,
)
from headgate.features.scouts.index import short_name
from headgate.features.scouts.ranking import RankedFile, Ranking, matched_words
from headgate.features.scouts.refresh import Tree
from headgate.first_use import regex
from headgate.outlines import Definition, Outline, words_of_name
from headgate.reading import find_tests, is_code, is_test

_DIGITS = 9
_MOST_WORDS = 4
_MOST_NAMES = 6
_MOST_TESTS = 8
_MOST_PRIOR = 6
_MOST_ENTRIES = 8
_NAMED, _AT_PLACE, _USED = 6.0, 8.0, 0.5
_ENTRY = regex(
    r"(?:.*/)?(?:__main__\.py|manage\.py|main\.(?:py|go|rs|c|cc|cpp|ts|js|php)|Main\.java|Program\.cs"
    r"|lib\.rs|cmd/[^/]+/\w+\.go)|(?:src/|lib/)?(?:index|server|app|cli)\.(?:[cm]?[jt]sx?|py|rb|php)"
    r"|(?:.*/)?(?:cli|app)(?:/__init__)?\.py|bin/[^/]+"
)


def chosen_files(
    ranking: Ranking, clues: Clues, query: MapQuery, limits: MapLimits
) -> tuple[MappedFile, ...]:
    """The best files."""
    best = ranking.files[: limits.chosen]
    among = {file.path for file in best}
    used = {file.path: _used_names(file.path, among, ranking) for file in best}
    failed = " ".join(f"{one.name} {one.message}" for one in query.failures)
    task_words = re.findall(r"\w+", f"{query.text} {failed}")
    task_words += [part for word in task_words for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", word)]
    return tuple(
        MappedFile(
            path=file.path,
            language=outline.language,
            lines=outline.lines,
            purpose=outline.purpose,
            why=tuple(_why(file, ranking, best, task_words)),
            symbols=_symbols(file, outline, clues, ranking.rarity, used[file.path], limits),
        )
        for file in best
        for outline in [ranking.outlines.get(file.path, Outline())]
    )


def _used_names(path: str, among: set[str], ranking: Ranking) -> set[str]:
    """The names of a file that the other chosen files use."""
    return {name for source in among for name in ranking.uses.get(source, {}).get(path, ())}


def _why(
    file: RankedFile, ranking: Ranking, best: Sequence[RankedFile], task_words: Iterable[str]
) -> Iterable[str]:
    if file.is_named:
        yield "named in the task"
    if file.lines:
        lines = ", ".join(map(str, sorted(file.lines)[:5]))
        yield f"in a failure or stack trace at line {lines}"
    if file.defines:
        yield f"defines {', '.join(file.defines[:_MOST_WORDS])}"
    if file.words:
        yield f"has the words {', '.join(matched_words(file, task_words)[:_MOST_WORDS])}"
    users = [
        one.path for one in best if file.path in ranking.uses.get(one.path, {}) and not is_test(one.path)
    ]
    if users and (file.in_graph > 0.3 or not (file.words or file.defines)):
        yield f"used by {', '.join(map(show_path, users[:2]))}"
    elif not (file.words or file.defines or file.is_named or file.lines):
        yield "connected with the files above"


def _symbols(
    file: RankedFile,
    outline: Outline,
    clues: Clues,
    rarity: Mapping[str, float],
    used: set[str],
    limits: MapLimits,
) -> tuple[MappedSymbol, ...]:
    """The symbols that matter most, in the order of the file."""
    scored = []
    for position, one in enumerate(outline.definitions):
        score = _likeness(one, clues, rarity)
        score += _NAMED * clues.names.get(short_name(one.name), 0.0)
        score += _AT_PLACE * sum(one.first <= line <= one.last for line in file.lines)
        score += _USED * (short_name(one.name) in used)
        score -= 0.25 * (one.kind == "constant") + 0.1 * one.full_name.count(".")
        scored.append((-round(score, _DIGITS), position))
    best = [position for _, position in sorted(scored)[: limits.symbols]]
    ranks = {position: rank for rank, position in enumerate(best, 1)}
    return tuple(_symbol(outline.definitions[position], ranks[position]) for position in sorted(ranks))


def _symbol(one: Definition, rank: int) -> MappedSymbol:
    return MappedSymbol(one.kind, one.full_name, one.signature, one.first, one.last, rank)


def _likeness(one: Definition, clues: Clues, rarity: Mapping[str, float]) -> float:
    """How much of a name is made of the task's words."""
    words = words_of_name(short_name(one.name))
    gain = sum(
        clues.words[word] * rarity.get(word, 0.0) for word in dict.fromkeys(words) if word in clues.words
    )
    return gain / (1 + 0.2 * len(words)) if words else 0.0


def references_between(files: Sequence[MappedFile], ranking: Ranking) -> tuple[FileReference, ...]:
    """Who uses which names of whom."""
    chosen = [file.path for file in files]
    return tuple(
        FileReference(source, target, names[:_MOST_NAMES])
        for source in chosen
        for target in chosen
        for names in [ranking.uses.get(source, {}).get(target, ())]
        if names and source != target
    )


def covering_tests(
    files: Sequence[MappedFile], ranking: Ranking, query: MapQuery, tree: Tree
) -> tuple[CoveringTest, ...]:
    """Tests that are named after what the task names, or that use what the chosen files define."""
    chosen = [file.path for file in files if not is_test(file.path) and is_code(file.path)]
    tests = tree.once(_tests)
    covers: dict[str, dict[str, float]] = {}
    for test in find_tests(query.text, [*tests, *chosen]):
        covers.setdefault(test, {})
    for position, path in enumerate(chosen):
        for test in find_tests(path, [*tests, path]):
            covers.setdefault(test, {})[path] = 5.0 / (1 + position)
        for test, targets in ranking.uses.items():
            if is_test(test) and is_code(test) and targets.get(path):
                found = covers.setdefault(test, {})
                found[path] = found.get(path, 0.0) + len(targets[path]) / (5.0 + 2 * position)
    order = sorted(covers, key=lambda test: (-round(sum(covers[test].values()), _DIGITS), test))
    return tuple(
        CoveringTest(test, tuple(path for path in chosen if path in covers[test]))
        for test in order[:_MOST_TESTS]
    )


def prior_art(files: Sequence[MappedFile], ranking: Ranking, clues: Clues) -> tuple[PriorArt, ...]:
    """Definitions whose names are made of at least two of the task's words."""
    scored: list[tuple[float, str, int, Definition]] = []
    for path, outline in ranking.outlines.items():
        if is_test(path):
            continue
        for one in outline.definitions:
            shared = {word for word in words_of_name(short_name(one.name)) if word in ranking.rarity}
            if len(shared) >= 2:
                scored.append((-round(_likeness(one, clues, ranking.rarity), _DIGITS), path, one.first, one))
    scored.sort(key=lambda item: item[:3])
    return tuple(
        PriorArt(path, one.full_name, one.signature, one.first, one.last)
        for _, path, _, one in scored[:_MOST_PRIOR]
    )


def entry_points(files: Sequence[MappedFile], tree: Tree) -> tuple[str, ...]:
    """Where programs begin, those in the folders of the chosen files first."""
    found = tree.once(_entries)
    folders = {folder for file in files for folder in _folders(file.path)}
    return tuple(
        sorted(found, key=lambda path: (-len(folders.intersection(_folders(path))), path.count("/"), path))[
            :_MOST_ENTRIES
        ]
    )


def _tests(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if is_test(path) and is_code(path)]


def _entries(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if _ENTRY.fullmatch(path) and not is_test(path)]


def _folders(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]

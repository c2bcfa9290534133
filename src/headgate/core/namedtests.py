"""The tests that exist for what a task names: by the usual names of test files, and nothing else."""

import re
from collections.abc import Iterable, Sequence

from headgate.core.testfiles import is_code, is_test
from headgate.core.words import path_words

MOST_TESTS = 3
"""Where more files than this have the name of a test for one thing, nobody can tell which is meant."""
_SYMBOL = re.compile(
    r"`([A-Za-z_][\w.]*)(?:\(\))?`"  # `total`
    r"|\b([A-Za-z_]\w*)\("  # total(
    r"|\b([a-z]+(?:_[a-z0-9]+)+)\b"  # parse_date
    r"|\b((?:[A-Z][a-z0-9]+){2,})\b"  # DateParser
)
_LONGEST = 20_000
"""Characters of a task in which names are looked for."""
_AFFIX = re.compile(
    r"^tests?[_-]|[_-](?:tests?|specs?)$|\.(?:test|spec|cy)$|(?-i:(?<=[a-z0-9])(?:Tests?|TestCase|Spec|IT)$)"
    r"|(?-i:^Test(?=[A-Z]))",
    re.IGNORECASE,
)


def find_tests(goal: str, paths: Sequence[str]) -> tuple[str, ...]:
    """The test files among `paths` that are named after a file or a symbol in the goal."""
    wanted = _names(goal, paths)
    if not wanted:
        return ()
    tests: dict[str, list[str]] = {}
    for path in paths:
        if is_code(path) and is_test(path) and (subject := _subject(path)):
            tests.setdefault(subject, []).append(path)
    found: dict[str, None] = {}
    for name, source in wanted.items():
        nearest = _nearest(source, tests.get(name, ()))
        found.update(dict.fromkeys(nearest if len(nearest) <= MOST_TESTS else ()))
    return tuple(found)[:MOST_TESTS]


def _names(goal: str, paths: Sequence[str]) -> dict[str, str]:
    """What the goal names, in the form that `_subject` gives; with the file's path, where it is a file."""
    text = goal[:_LONGEST]
    names: dict[str, str] = {}
    known = set(paths)
    for word in path_words(text):
        if word in known and not is_test(word):
            names.setdefault(_plain(_stem(word)), word)
    for match in _SYMBOL.finditer(text):
        symbol = next(filter(None, match.groups()))
        names.setdefault(_plain(symbol.rpartition(".")[2]), "")
    return {name: source for name, source in names.items() if name}


def _subject(path: str) -> str:
    """What a test file is named after: `cart` for `tests/test_cart.py`; empty where it names nothing."""
    stem = _stem(path)
    bare = _AFFIX.sub("", stem)
    return _plain(bare) if bare != stem else ""


def _nearest(source: str, tests: Iterable[str]) -> list[str]:
    """Of tests with the same name, those that share the most folders with the file that they test."""
    folders = set(source.split("/")[:-1])
    shared = {test: len(folders & set(test.split("/")[:-1])) for test in tests}
    best = max(shared.values(), default=0)
    return [test for test, count in shared.items() if count == best]


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()

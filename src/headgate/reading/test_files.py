"""Which files are tests, which decide how tests run, and which tests belong to what a task names."""

import re
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache

from headgate.core import path_words
from headgate.first_use import regex
from headgate.reading.command_lines import word_set

_TEST_PART = regex(
    r"(^|[._-])tests?([._-]|$)"
    r"|^__snapshots__$|\.snap$|\.cy\.[cm]?[jt]sx?$|\.bats$|\.feature$|\.robot$|\.t$"
    r"|^(unit|integration|functional|acceptance|system|regression|smoke|e2e)tests$|^testsuites?$|^testdata$"
    r"|(?-i:[a-z0-9]Tests$)"
    r"|^conftest\.py$|^conftest\.[\w.-]+\.pyc$"
    r"|(?-i:Tests?\.\w+$)"
    r"|(?-i:[a-z](TestCase|Spec|IT)\.(java|kts?|scala|groovy|cs|php|swift)$)"
    r"|(?-i:^Test[A-Z]\w*\.(java|kts?|scala|groovy|cs|php|swift)$)",
    re.IGNORECASE,
)
_MAYBE_TEST = regex(r"test|spec|snap|\.cy\.|\.bats|feature|\.robot|\.t$|IT\.", re.IGNORECASE)
_TEST_PATH = regex(
    r"testing/.*"
    r"|((?!(.*/)?(src|app|lib)/).*/)?features/(steps/.*\.py|step_definitions/.*|environment\.py)",
    re.IGNORECASE | re.DOTALL,
)
"""Folders that are those of tests only where they are: `testing/` below a package is part of its interface,
and `features/` below `src` holds parts of the product."""
_SPEC_PART = regex(r"(^|[._-])specs?([._-]|$)", re.IGNORECASE)
"""Also what documents are called, so it takes a program's suffix besides."""
_CODE = regex(
    r"\.(rb|py|[cm]?[jt]sx?|hs|lua|coffee|scala|kts?|php|swift|rs|exs?|cr|groovy|java|cs|dart|go|clj[cs]?"
    r"|c|cc|cpp|sh|bats)",
    re.IGNORECASE,
)
_RUNNER = regex(
    r"conftest\.py|\.?pytest\.(ini|toml)|tox\.(ini|toml)|noxfile\.py|\.coveragerc|unittest\.cfg"
    r"|\.?nose2?(rc|\.cfg)"
    r"|(jest|vitest|karma|ava|cypress|playwright|wdio|nightwatch|jasmine)"
    r"\.(config|conf|setup|workspace|projects|preset)\.[\w.]+"
    r"|\.(mocharc|nycrc|c8rc|taprc)(\.\w+)?|(cypress|jasmine)\.json"
    r"|phpunit\.xml(\.dist)?|\.rspec(-local)?|junit-platform\.properties|nextest\.toml|\w*\.runsettings",
    re.IGNORECASE,
)
_TASK_FILES = {
    "make": regex(r"(GNU)?makefile|.*\.mk", re.IGNORECASE),
    "rake": regex(r"rakefile(\.rb)?", re.IGNORECASE),
    "just": regex(r"\.?justfile", re.IGNORECASE),
    "task": regex(r"taskfile(\.dist)?\.ya?ml", re.IGNORECASE),
}
_START_UP = regex(r"(site|user)customize(\.py|\..*\.pyc)?|.*\.pth|.*\.egg-link", re.IGNORECASE)
_RUNNER_MODULES = frozenset(
    ["pytest", "_pytest", "unittest", "doctest", "nose", "nose2", "pluggy", "hypothesis", "coverage"]
)
_RUNNER_PACKAGE = regex(
    r"@?(jest|vitest|mocha|ava|karma|jasmine|cypress|playwright|nyc|c8|tap|tape|uvu|chai|expect)([-_@+./].*)?"
    r"|(python|pypy)[\d.]*|py\.test|(pytest|coverage)[-_.].*|tox|nox",
    re.IGNORECASE,
)
_SHADOWED = (
    _RUNNER_MODULES
    | sys.stdlib_module_names
    | frozenset(["py", "iniconfig", "packaging", "exceptiongroup", "tomli", "pygments"])
)
"""What a Python test runner imports before any test: itself, the standard library, what it depends on."""
_MODULE = regex(r"(?:.*/)?([^/.]+)(\.pyc?|(\.[\w-]+)?\.(so|pyd))", re.DOTALL)
_INSTALLED_OR_BUILT = word_set(
    """
    node_modules bower_components .venv venv site-packages dist-packages .tox .nox .eggs .yarn
    .pytest_cache .mypy_cache .ruff_cache .hypothesis .gradle .next .nuxt .dart_tool .stack-work target
    build dist out obj _build deps coverage htmlcov dist-newstyle deriveddata pods
    """
)
"""Folders of what was installed or built. Nothing in them is a project's own test, unless it was there."""
_CACHED = regex(r"((?:.*/)?)__pycache__/([^/]+?)\.[^/]*\.py[co]", re.DOTALL)


def is_test(path: str) -> bool:
    """Whether a path looks like a test's, or like something that tests use: by its name, or by a folder."""
    if not _MAYBE_TEST.search(path):
        return False  # nearly every path of a walk
    parts = path.split("/")
    if any(map(_is_test_part, parts)) or _TEST_PATH.fullmatch(path):
        return True
    return is_code(path) and any(map(_is_spec_part, parts))


def is_code(path: str) -> bool:
    """Whether a path has the suffix of a programming language in which tests are written."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return dot > 0 and _CODE.fullmatch(name[dot:]) is not None


def is_runner_setting(path: str) -> bool:
    """Whether a file does nothing but decide how tests run: `pytest.ini`, `jest.config.js`, `.rspec`."""
    return _RUNNER.fullmatch(_name(path)) is not None


def is_task_file(path: str, program: str | None = None) -> bool:
    """Whether a program such as make takes its commands from a file; None: any such program."""
    patterns = _TASK_FILES.values() if program is None else [_TASK_FILES[program]]
    return any(pattern.fullmatch(_name(path)) for pattern in patterns)


def task_program(word: str) -> str | None:
    """The program of `is_task_file` that a command's first word calls, if it is one."""
    name = word.rpartition("/")[2].removeprefix("g")
    return name if name in _TASK_FILES else None


def is_start_up_file(path: str) -> bool:
    """Whether a new file would be run without any test asking for it: `sitecustomize.py`, `x.pth`."""
    return _START_UP.fullmatch(_name(path)) is not None


def shadowing_module(path: str) -> tuple[str, str] | None:
    """The folder and the name of a module that would be taken for one that test runners import, if it is.

    It would be wherever Python looks in that folder first. A folder without `__init__.py` is no such module.
    """
    found = _MODULE.fullmatch(path) if path.endswith((".py", ".pyc", ".so", ".pyd")) else None
    if found is None:
        return None
    folder, name = path.rpartition("/")[0], found[1]
    if name == "__init__":
        folder, _, name = folder.rpartition("/")
    return (folder, name) if name in _SHADOWED or name.lower() in _RUNNER_MODULES else None


def is_runner_module(name: str) -> bool:
    """Whether a folder of this name, where Python looks for modules, belongs to a test runner."""
    return name.lower() in _RUNNER_MODULES


def is_runner_package(name: str) -> bool:
    """Whether an installed package (`_pytest`, `@jest/core`) or program runs tests, or programs that do."""
    return is_runner_module(name) or _RUNNER_PACKAGE.fullmatch(name) is not None


def is_installed_or_built(name: str) -> bool:
    """Whether a folder of this name holds what was installed or built, not what the project wrote."""
    return name.lower() in _INSTALLED_OR_BUILT


def source_of(path: str) -> str:
    """The module that a compiled one in `__pycache__` stands for, and would be run in place of."""
    cached = _CACHED.fullmatch(path) if "__pycache__/" in path else None
    return f"{cached[1]}{cached[2]}.py" if cached else path


@lru_cache(maxsize=16384)
def _is_test_part(part: str) -> bool:
    return _TEST_PART.search(part) is not None


@lru_cache(maxsize=16384)
def _is_spec_part(part: str) -> bool:
    return _SPEC_PART.search(part) is not None


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# The tests that exist for what a task names: by the usual names of test files, and nothing else.


MOST_TESTS = 3
"""Where more files than this have the name of a test for one thing, nobody can tell which is meant."""
_SYMBOL = regex(
    r"`([A-Za-z_][\w.]*)(?:\(\))?`"  # `total`
    r"|\b([A-Za-z_]\w*)\("  # total(
    r"|\b([a-z]+(?:_[a-z0-9]+)+)\b"  # parse_date
    r"|\b((?:[A-Z][a-z0-9]+){2,})\b"  # DateParser
)
_LONGEST = 20_000
"""Characters of a task in which names are looked for."""
_AFFIX = regex(
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

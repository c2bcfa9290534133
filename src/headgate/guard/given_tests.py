"""The arguments that verification steps give to test runners, and the files that these name."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from headgate.first_use import dataclass, regex
from headgate.reading import (
    UNITTEST_PATTERN,
    Command,
    RunnerCall,
    is_code,
    is_test,
    pytest_settings,
    read_runner,
    word_set,
)
from headgate.tree import Rules, expand_braces, fold_case

MAX_FILE = 200_000


def read_text(root: Path, *parts: str) -> str:
    """A file of the repository; empty where there is none, or none that can be read."""
    path = root.joinpath(*parts)
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            return ""
        with path.open("rb") as file:
            return file.read(MAX_FILE).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


# Whether a folder that a test runner is given holds nothing but tests, or the code as well.


_CODE_FOLDERS = word_set(
    """
    src source sources lib libs app apps pkg pkgs package packages internal cmd crates core backend
    frontend server client modules
    """
)
MAX_READ = 400
"""How many files are read, at most, in order to see what imports what."""


@dataclass(frozen=True, slots=True)
class FilesAtStart:
    """A repository's files by their folded paths, as they were when the task began."""

    start: Mapping[str, str]
    is_named: Callable[[str], bool]
    """Whether a step names a file as a test by a pattern."""
    read: Callable[[str], str]

    def inside(self, folder: str) -> list[str]:
        return [path for path in self.start if path.startswith(f"{folder}/")]

    def holds_code(self, folder: str, runs_in: Iterable[str]) -> bool:
        """Whether files in a folder are code that a task may have to change.

        Where steps run, and a folder with the usual name of one for code, does. So does one in which usual
        names of tests stand beside other code, and one that code outside imports.
        """
        if not folder or folder.rpartition("/")[2] in _CODE_FOLDERS:
            return True
        inside = self.inside(folder)
        tests = {path for path in inside if self._is_test(path, folder)}
        modules = [path for path in inside if self._is_module(path) and path not in tests]
        if any(place == folder or place.startswith(f"{folder}/") for place in runs_in):
            return bool(modules) or not tests
        return bool(modules) and (bool(tests) or self._is_imported(folder, self._outside(folder)))

    def _is_test(self, path: str, folder: str) -> bool:
        below = "/".join(self.start[path].split("/")[folder.count("/") + 1 :])
        return is_test(below) or self.is_named(path)

    @staticmethod
    def _is_module(path: str) -> bool:
        return is_code(path) and not path.endswith("/__init__.py")

    def _outside(self, folder: str) -> list[str]:
        outside = (path for path in self.start if is_code(path) and not path.startswith(f"{folder}/"))
        return [path for path in outside if not is_test(self.start[path]) and not self.is_named(path)]

    def _is_imported(self, folder: str, outside: Sequence[str]) -> bool:
        name = re.escape(folder.rpartition("/")[2])
        imports = re.compile(
            rf"^\s*(?:from|import)\s+(?:[\w.]+\.)?{name}\b"
            rf"|[\"'](?:[^\"'\n]*/)?{name}(?:/[^\"'\n]*)?[\"']",
            re.MULTILINE | re.IGNORECASE,
        )
        return any(imports.search(self.read(self.start[path])) for path in outside[:MAX_READ])


_UNKNOWN = regex(r"[$`*?~]")
_GLOB = regex(r"[*?\[{]")
_CATCH_ALL = regex(r"\*+(\.[\w*{},]+)?")
_COMPARING = frozenset({"diff", "cmp", "colordiff"})
_EXPECTED = regex(r"expect|golden|reference|baseline|snapshot|wanted|oracle", re.IGNORECASE)
"""The other file of a comparison is the task's own result."""
_SETTINGS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


@dataclass(frozen=True, slots=True)
class GivenTests:
    """What test runners are given. All paths are folded and relative to the repository."""

    paths: frozenset[str] = frozenset()
    """Files and folders."""
    globs: frozenset[str] = frozenset()
    """Patterns as in .gitignore."""
    folders: frozenset[str] = frozenset()
    """Where the runners run."""
    compared: frozenset[str] = frozenset()
    """What results are compared with by `diff` and the like, where its name says so."""
    written: frozenset[str] = frozenset()
    """What the steps themselves write."""

    def __add__(self, other: "GivenTests") -> "GivenTests":
        return GivenTests(
            self.paths | other.paths,
            self.globs | other.globs,
            self.folders | other.folders,
            self.compared | other.compared,
            self.written | other.written,
        )


def read_tests(commands: Iterable[Command], folders: Sequence[str], top: Path | None) -> GivenTests:
    """What commands that run in one of `folders` give to test runners, and what they compare with."""

    def placed(words: Iterable[str]) -> frozenset[str]:
        found = (path_in(folder, word, top) for folder in folders for word in words)
        return frozenset(fold_case(path) for path in found if path)

    result = GivenTests(folders=frozenset(map(fold_case, folders)))
    for command in commands:
        program = command.program.rpartition("/")[2]
        named = [word for word in command.arguments if not word.startswith("-")]
        written = [*command.written, *(named if program in ("tee", "rm", "cp", "mv", "touch") else ())]
        expected = [word for word in named if program in _COMPARING and _EXPECTED.search(word)]
        result += GivenTests(compared=placed(expected), written=placed(written))
        given = read_runner([command.program, *command.arguments])
        for folder in folders if given else ():
            for word, patterns in _words(given, folder, top) if given else ():
                result += _place(word, patterns, folder, top)
    return result


def path_in(directory: str, word: str, top: Path | None) -> str | None:
    """A word of a command as a path in the repository; None for what leads out of it or cannot be known."""
    if _UNKNOWN.search(word):
        return None
    if word.startswith("/"):
        if top is None or not PurePosixPath(word).is_relative_to(top):
            return None
        directory, word = "", PurePosixPath(word).relative_to(top).as_posix()
    parts: list[str] = []
    for part in f"{directory}/{word}".split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _words(given: RunnerCall, folder: str, top: Path | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a runner is given as paths, each with the patterns of what counts below it."""
    words = [*given.paths, *(path for name in given.modules for path in _module_paths(name))]
    patterns = given.patterns
    if given.runner == "pytest" and top is not None:
        texts = {name: text for name in _SETTINGS if (text := read_text(top, folder, name))}
        testpaths, python_files = pytest_settings(texts)
        words = words or testpaths
        patterns = tuple(python_files)
    yield from ((word, patterns) for word in words or (["."] if patterns else []))


def _module_paths(name: str) -> Iterator[str]:
    """The files that a dotted name may mean: modules, and what is in them, are written alike."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        yield "/".join(parts[:end]) + ".py"
    yield "/".join(parts)


def _place(word: str, patterns: Iterable[str], folder: str, top: Path | None) -> GivenTests:
    fixed, last = word, ""
    if _GLOB.search(word):
        parts = word.split("/")
        first = next(index for index, part in enumerate(parts) if _GLOB.search(part))
        fixed, last = "/".join(parts[:first]), "/".join(parts[first:])
    place = path_in(folder, fixed, top)
    if place is None:
        return GivenTests()
    base = fold_case(f"/{place}/" if place else "/")
    if last and not _CATCH_ALL.fullmatch(last.rpartition("/")[2]):
        return GivenTests(globs=frozenset({f"{base}{one}" for one in expand_braces(fold_case(last))}))
    wanted = [fold_case(pattern) for pattern in patterns if not _CATCH_ALL.fullmatch(pattern)]
    deep = "" if not place and wanted == [UNITTEST_PATTERN] else "**/"
    return GivenTests(
        frozenset({fold_case(place)}), frozenset(f"{base}{deep}{pattern}" for pattern in wanted)
    )


class NamedTests:
    """Which files of a repository steps name as tests.

    A file that is named is one. A folder that is named holds nothing but tests, unless `holds_code` says
    otherwise; then the usual names of tests decide there.
    """

    def __init__(self, given: GivenTests, start: Mapping[str, str], read: Callable[[str], str]) -> None:
        self._globs = Rules(sorted(given.globs), ignore_case=True)
        looks = FilesAtStart(start, self._globs.covers, read)
        self._files = {path for path in given.paths if path in start}
        self._files |= {path for path in given.compared - given.written if path in start}
        others = given.paths - self._files
        self._folders = tuple(
            sorted(f"{path}/" for path in others if path and not looks.holds_code(path, given.folders))
        )
        self._unborn = {path for path in others if not looks.inside(path)}

    def cover(self, path: str) -> bool:
        """Whether a path, folded, is named as a test."""
        return (
            path in self._files
            or path in self._unborn
            or path.startswith(self._folders)
            or (bool(self._globs) and self._globs.covers(path))
        )

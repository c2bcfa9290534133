"""Whether a folder that a test runner is given holds nothing but tests, or the code as well."""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from headgate.core.testfiles import is_code, is_test


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_CODE_FOLDERS = _set(
    """
    src source sources lib libs app apps pkg pkgs package packages internal cmd crates core backend
    frontend server client modules
    """
)
_IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
_RELATIVE = re.compile(r"[\"'](\.\.?/[^\"'\n]+)[\"']")
_AFFIX = re.compile(r"^(?:tests?|specs?)[._-]?|[._-]?(?:tests?|specs?)$", re.IGNORECASE)
MAX_READ = 400
"""How many files are read, at most, in order to see what imports what."""


@dataclass(frozen=True, slots=True)
class FolderLooks:
    """A repository's files by their folded paths, as they were when the task began."""

    start: Mapping[str, str]
    is_named: Callable[[str], bool]
    """Whether a step names a file as a test by a pattern."""
    read: Callable[[str], str]

    def inside(self, folder: str) -> list[str]:
        return [path for path in self.start if path.startswith(f"{folder}/")]

    def holds_code(self, folder: str, runs_in: Iterable[str]) -> bool:
        """Whether files in a folder are code that a task may have to change.

        Where steps run, and a folder with the usual name of one for code, does. So does one that code outside
        imports; and, where usual names of tests stand beside other code, one that has a folder of tests of
        its own, or a test named like a module beside it, or tests that use nothing from outside.
        """
        if not folder or folder.rpartition("/")[2] in _CODE_FOLDERS:
            return True
        inside = self.inside(folder)
        tests = {path for path in inside if self._is_test(path, folder)}
        modules = [path for path in inside if self._is_module(path) and path not in tests]
        if any(place == folder or place.startswith(f"{folder}/") for place in runs_in):
            return bool(modules) or not tests
        if not modules:
            return False
        outside = self._outside(folder)
        if self._is_imported(folder, outside):
            return True
        if not tests:
            return False
        names = {part for path in outside for part in (*path.split("/")[:-1], _stem(path))}
        return (
            any(is_test(path[len(folder) + 1 : path.rfind("/") + 1] + "x") for path in tests)
            or not {_stem(path) for path in modules}.isdisjoint(map(_subject, tests))
            or not any(self._uses_outside(path, folder, names) for path in sorted(tests)[:MAX_READ])
        )

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

    def _uses_outside(self, path: str, folder: str, names: Set[str]) -> bool:
        """Whether a test imports one of the modules that lie outside of its folder."""
        text = self.read(self.start[path])
        if any(name.partition(".")[0].lower() in names for name in _IMPORT.findall(text)):
            return True
        targets = (posixpath.normpath(f"{path}/../{word.lower()}") for word in _RELATIVE.findall(text))
        return any(not target.startswith(f"{folder}/") for target in targets)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _subject(path: str) -> str:
    """What a test is about, by its name: `test_calc.py`, `calc.test.js` and `calc_spec.rb` are about calc."""
    name = re.sub(r"\.\w+$", "", path.rpartition("/")[2])
    return _AFFIX.sub("", name)

"""Which file of the tree an import means, by the end of its path. Nothing is resolved as a language would."""

import posixpath
from collections.abc import Iterable

from headgate.patterns import regex

_SEPARATOR = regex(r"::|\\|/|\.")
_INDEX = ("__init__", "index", "mod")
_MOST_ALIKE = 4
"""Where more files could be meant than this, none is."""


class ImportedFiles:
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

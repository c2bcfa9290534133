"""Where packages are installed in a repository, and which they are."""

import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress

from headgate.core import OWN_FOLDER
from headgate.patterns import regex
from headgate.reading import is_installed_or_built

NODE_MODULES = "node_modules"
_PROGRAMS = "bin"
_ENVIRONMENTS = frozenset({".venv", "venv"})
_NODE_FOLDERS = frozenset({".bin", ".pnpm"})
SITES = frozenset({"site-packages", "dist-packages"})
_LIBRARIES = regex(r"(python|pypy)[\d.]+t?")
_MOST_DEEP = 40


def find_places(root: str) -> Iterator[tuple[str, str]]:
    """The folders of packages in a repository, and where they really are."""
    pending = [("", 0)]
    while pending:
        folder, depth = pending.pop()
        for entry in entries_of(f"{root}/{folder}"):
            path = f"{folder}/{entry.name}" if folder else entry.name
            can_be_link = entry.name == NODE_MODULES or entry.name in _ENVIRONMENTS
            if not (leads_to_folder(entry) if can_be_link else entry.is_dir(follow_symlinks=False)):
                continue
            if entry.name == NODE_MODULES:
                yield path, os.path.realpath(entry.path)
            elif entry.name in _ENVIRONMENTS or _is_environment(entry.path):
                yield from _libraries(path, entry.path)
            elif depth < _MOST_DEEP and not _is_skipped(entry.name):
                pending.append((path, depth + 1))


def leads_to_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a folder or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        return False  # such as a link to itself


def _is_skipped(name: str) -> bool:
    return name in (".git", OWN_FOLDER) or (is_installed_or_built(name) and name not in (".tox", ".nox"))


def _is_environment(folder: str) -> bool:
    return os.path.lexists(f"{folder}/pyvenv.cfg") or os.path.lexists(f"{folder}/conda-meta")


def _libraries(path: str, folder: str) -> Iterator[tuple[str, str]]:
    """The programs of an environment, and what its interpreters import."""
    for outer in entries_of(folder):
        if outer.name == _PROGRAMS and leads_to_folder(outer):
            yield f"{path}/{outer.name}", os.path.realpath(outer.path)
        elif outer.name.startswith("lib") and outer.is_dir(follow_symlinks=False):
            for inner in entries_of(outer.path):
                if _LIBRARIES.fullmatch(inner.name) and leads_to_folder(inner):
                    yield f"{path}/{outer.name}/{inner.name}", os.path.realpath(inner.path)


def environment_of(place: str) -> str:
    """The environment that a folder of programs or packages belongs to, or all of `node_modules`."""
    above, name = posixpath.split(place)
    return place if name == NODE_MODULES else above if name == _PROGRAMS else posixpath.dirname(above)


def packages_in(place: str, real: str) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """The packages in a place: what lies there, and in folders that only hold packages."""
    is_node = posixpath.basename(place) == NODE_MODULES
    for entry in entries_of(real):
        if is_node and entry.name.startswith(".") and entry.name not in _NODE_FOLDERS:
            continue  # caches, and what installers note for themselves
        only_packages = is_node and (entry.name.startswith("@") or entry.name in _NODE_FOLDERS)
        if (only_packages or entry.name in SITES) and entry.is_dir(follow_symlinks=False):
            yield from ((f"{place}/{entry.name}/{inner.name}", inner) for inner in entries_of(entry.path))
        else:
            yield f"{place}/{entry.name}", entry


def package_name(package: str) -> str:
    """What a package is called: `@jest/core` for `node_modules/@jest/core`."""
    above, name = posixpath.split(package)
    scope = posixpath.basename(above)
    return f"{scope}/{name}" if scope.startswith("@") else name


def compiled_modules(path: str, folder: str) -> dict[str, list[int]]:
    """The files of a folder in which Python keeps compiled modules, each with what tells that it changed."""
    found: dict[str, list[int]] = {}
    for entry in entries_of(folder):
        if not entry.is_dir(follow_symlinks=False):
            with suppress(OSError):  # gone, or its folder cannot be entered
                status = entry.stat(follow_symlinks=False)
                found[f"{path}/{entry.name}"] = [status.st_ino, status.st_size, status.st_ctime_ns]
    return found


def entries_of(folder: str) -> Iterable["os.DirEntry[str]"]:
    """What lies in a folder; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []

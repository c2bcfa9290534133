"""Exercises in a folder: which there are, what each asks for, and which of its files play which part.

Two layouts are known. One has `.docs` and `.meta/config.json`, as the exercises of Exercism and the polyglot
benchmark made of them. The other is a small repository with `task.txt` and `agent.yaml`. The files are other
people's: no link is followed, and what is wrong with one exercise is said of that exercise alone.
"""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import BaseModel, ValidationError

from headgate.bench.languages import find_language
from headgate.core import clean_text
from headgate.errors import ConfigError
from headgate.first_use import dataclass

CONFIG = Path(".meta/config.json")
TASK, AGENT, REPO = "task.txt", "agent.yaml", "repo"
_DOCS = ("introduction.md", "instructions.md", "instructions.append.md")
_NOT_ENTERED = frozenset({"node_modules", "__pycache__"})
_MOST_BYTES = 1_000_000
"""Of a text that is sent to a model, and of a file that describes an exercise."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise. With a `problem` it cannot be run."""

    name: str
    """Its path in the folder of exercises."""
    source: Path
    """What is copied to work on."""
    layout: Literal["polyglot", "plain"]
    language: str = ""
    text: str = ""
    """What the model is asked."""
    solution: tuple[str, ...] = ()
    """The files to write."""
    tests: tuple[str, ...] = ()
    """The tests, and what belongs to them."""
    hidden: frozenset[str] = frozenset()
    """Files that show a solution."""
    config: Path | None = None
    """The configuration of a plain exercise, if it is not among the files that are copied."""
    problem: str = ""


class _Files(BaseModel):
    solution: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    editor: tuple[str, ...] = ()
    """What tests need, and readers may look at."""
    example: tuple[str, ...] = ()
    exemplar: tuple[str, ...] = ()


class _Meta(BaseModel):
    """What of `.meta/config.json` counts here."""

    files: _Files


class _Unusable(Exception):
    """Why an exercise cannot be run, as a sentence."""


def find_exercises(folder: Path, only: Sequence[str] = ()) -> list[Exercise]:
    """The exercises in a folder, at any depth, by name; with `only`, those that a pattern matches.

    ConfigError if there are none.
    """
    root = folder.resolve()
    if not root.is_dir():
        raise ConfigError(f"{folder} is not a folder: name one with exercises in it.")
    found = sorted(_walk(root), key=lambda path: _name(path, root))
    if not found:
        raise ConfigError(
            f"There are no exercises in {folder}: each is a folder with .meta/config.json, or with task.txt"
            " and agent.yaml."
        )
    wanted = [path for path in found if _is_wanted(_name(path, root), only)]
    if not wanted:
        raise ConfigError(
            f"No exercise in {folder} matches {' or '.join(only)}: the first of {len(found)} is"
            f" {_name(found[0], root)}."
        )
    return [_read(path, _name(path, root)) for path in wanted]


def _name(path: Path, root: Path) -> str:
    """An exercise's name; a file system may hold names that are no text."""
    relative = path.relative_to(root).as_posix()
    return clean_text(os.fsencode(root.name if relative == "." else relative).decode("utf-8", "replace"))


def _is_wanted(name: str, only: Sequence[str]) -> bool:
    last = name.rpartition("/")[2]
    return not only or any(fnmatchcase(name, glob) or fnmatchcase(last, glob) for glob in only)


def _walk(root: Path) -> Iterator[Path]:
    """The folders that are exercises. There are none in an exercise."""
    pending = [root]
    while pending:
        folder = pending.pop()
        if (folder / CONFIG).is_file() or ((folder / TASK).is_file() and (folder / AGENT).is_file()):
            yield folder
            continue
        try:
            with os.scandir(folder) as entries:
                inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # what may not be looked at has no exercises for this user
        pending += [folder / name for name in inner if not name.startswith(".") and name not in _NOT_ENTERED]


def _read(folder: Path, name: str) -> Exercise:
    layout: Literal["polyglot", "plain"] = "polyglot" if (folder / CONFIG).is_file() else "plain"
    places = [part for part in reversed(folder.parts) if part != folder.name]
    try:
        return (
            _read_polyglot(folder, name, places)
            if layout == "polyglot"
            else _read_plain(folder, name, places)
        )
    except _Unusable as error:
        return Exercise(name, folder, layout, find_language((), places), problem=str(error))


def _read_polyglot(folder: Path, name: str, places: Sequence[str]) -> Exercise:
    try:
        files = _Meta.model_validate_json(_read_text(folder, CONFIG)).files
    except ValidationError as error:
        said = error.errors()[0]
        where = ".".join(map(str, said["loc"]))
        what = said["msg"][:1].lower() + said["msg"][1:]
        raise _Unusable(f"{CONFIG} cannot be used: {f'{where}: ' if where else ''}{what}") from None
    for path in (*files.solution, *files.editor):
        _check_inside(folder, path, exists=False)
    for path in files.test:
        _check_inside(folder, path)
    if not files.solution or not files.test:
        raise _Unusable(f"{CONFIG} names no {'tests' if files.solution else 'solution files'}")
    texts = [Path(".docs", name) for name in _DOCS]
    docs = [_read_text(folder, text).strip() for text in texts if (folder / text).is_file()]
    if not any(docs):
        raise _Unusable("there are no instructions in .docs")
    hidden = frozenset((*files.example, *files.exemplar)) - {*files.solution, *files.test}
    tests = tuple(dict.fromkeys((*files.test, *files.editor)))
    return Exercise(
        name,
        folder,
        "polyglot",
        find_language(files.solution, places),
        "\n\n".join((*filter(None, docs), _assignment(files))),
        files.solution,
        tuple(path for path in tests if path not in files.solution),
        hidden,
    )


def _assignment(files: _Files) -> str:
    """What every exercise ends with: where the solution goes, and what stays as it is."""
    written, tests = ", ".join(files.solution), ", ".join(files.test)
    return (
        f"Write the solution in {written}. Keep the names of what is declared there: the tests use them."
        f" Use only the standard library. The tests are in {tests}; do not change them."
    )


def _read_plain(folder: Path, name: str, places: Sequence[str]) -> Exercise:
    inner = folder / REPO
    apart = inner.is_dir() and not inner.is_symlink()
    source = inner if apart else folder
    _check_inside(folder, AGENT)
    text = _read_text(folder, Path(TASK)).strip()
    if not text:
        raise _Unusable(f"{TASK} is empty")
    files = (file for _, _, names in os.walk(source) for file in names)
    language = find_language(files, places)
    return Exercise(name, source, "plain", language, text, config=folder / AGENT if apart else None)


def _read_text(folder: Path, path: Path) -> str:
    _check_inside(folder, path.as_posix())
    try:
        with (folder / path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise _Unusable(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise _Unusable(f"{path} is longer than a megabyte")
    return clean_text(data.decode("utf-8", "replace")).replace("\0", "")


def _check_inside(folder: Path, path: str, *, exists: bool = True) -> None:
    """A file that an exercise names is in it, and is no link."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise _Unusable(f"{path!r} is not a file of the exercise")
    place = folder
    for part in parts:
        place /= part
        if place.is_symlink():
            raise _Unusable(f"{path} is a link, and links are not followed")
    if exists and not place.is_file():
        raise _Unusable(f"{path} is missing")

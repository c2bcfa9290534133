"""The commands that verification steps come to: their own, and those in the files that they run.

`make test`, `npm run check`, `tox`, `just`, `nox` and shell scripts are read as far as their files can be.
"""

import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path

from headgate.reading import (
    Command,
    just_commands,
    make_commands,
    nox_commands,
    project_commands,
    script_commands,
    split_commands,
    tox_commands,
)

MAX_DEPTH = 4
MAX_COMMANDS = 400
MAX_FILE = 200_000
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", ".", "source"})
_NODE = frozenset({"npm", "yarn", "pnpm", "bun"})
_NPM_NAMES = {"t": "test", "tst": "test"}
_PROJECT = frozenset({"hatch", "pdm", "poe", "task"})


def step_commands(text: str) -> Iterator[Command]:
    """The simple commands of a step, those that it hands to another shell as one word included."""
    for command in split_commands(text):
        yield command
        for word in command.words:
            if " " in word:
                yield from split_commands(word)


def expand_steps(commands: Iterable[str], directory: str, root: Path | None) -> list[tuple[str, str]]:
    """Every command line with the folder that it runs in; each once, and no more than can be needed."""
    found: dict[tuple[str, str], None] = {}
    pending = [(text, directory, 0) for text in commands]
    while pending and len(found) < MAX_COMMANDS:
        text, folder, depth = pending.pop(0)
        if (text, folder) in found:
            continue
        found[text, folder] = None
        if root is None or depth == MAX_DEPTH:
            continue
        place = folder
        for command in step_commands(text):
            if command.program in ("cd", "pushd") and command.arguments:
                onward = _below(place, command.arguments[-1])
                # The shell that went there before may have been one in parentheses, which has ended.
                place = onward if (root / onward).is_dir() else _below(folder, command.arguments[-1])
            else:
                below = _behind(command, place, root)
                pending += [(line, where, depth + 1) for line, where in below]
    return list(found)


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


def _behind(command: Command, folder: str, root: Path) -> list[tuple[str, str]]:
    """The commands in the file that a command runs, and where they run."""
    program = command.program.rpartition("/")[2]
    arguments = command.arguments
    names = [word for word in arguments if not word.startswith("-") and "=" not in word]
    if program in ("make", "gmake"):
        return _make(arguments, folder, root)
    if program == "just":
        text = _first(root, folder, "justfile", "Justfile", ".justfile")
        return [(line, folder) for line in just_commands(text, names)]
    if program in _NODE or program == "composer":
        name = next((word for word in names if word not in ("run", "run-script")), "")
        place = _below(folder, _value(arguments, "--prefix", "--cwd", "-C", "--dir"))
        file = "composer.json" if program == "composer" else "package.json"
        text = read_text(root, place, file)
        return [(line, place) for line in script_commands(text, _NPM_NAMES.get(name, name))] if name else []
    if program in _PROJECT:
        name = next((word for word in names if word != "run"), "")
        text = read_text(root, folder, "pyproject.toml")
        return [(line, folder) for line in project_commands(text, name)] if name else []
    if "tox" in (program, *arguments[1:2]):
        return [(line, folder) for line in _tox(folder, root)]
    if "nox" in (program, *arguments[1:2]):
        return [(line, folder) for line in nox_commands(read_text(root, folder, "noxfile.py"))]
    script = names[0] if program in _SHELLS and names else command.program
    if program in _SHELLS or (program.endswith(".sh") and "/" in script):
        return [(read_text(root, folder, script), folder)]
    return []


def _make(arguments: list[str], folder: str, root: Path) -> list[tuple[str, str]]:
    place = _below(folder, _value(arguments, "-C", "--directory"))
    named = _value(arguments, "-f", "--file", "--makefile")
    text = (
        read_text(root, place, named) if named else _first(root, place, "GNUmakefile", "makefile", "Makefile")
    )
    words = [word for before, word in zip(("", *arguments), arguments, strict=False) if before not in _VALUED]
    targets = [word for word in words if not word.startswith("-") and "=" not in word]
    variables = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    return [(line, place) for line in make_commands(text, targets, variables)]


_VALUED = frozenset({"-C", "--directory", "-f", "--file", "--makefile", "-j", "-o", "-W", "-I"})


def _tox(folder: str, root: Path) -> list[str]:
    lines = [
        line for name in ("tox.ini", "setup.cfg") for line in tox_commands(read_text(root, folder, name))
    ]
    for name in ("tox.toml", "pyproject.toml"):
        lines += tox_commands(read_text(root, folder, name), is_toml=True)
    return lines


def _first(root: Path, folder: str, *names: str) -> str:
    return next((text for name in names if (text := read_text(root, folder, name))), "")


def _value(arguments: list[str], *options: str) -> str:
    for index, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if option in options:
            return value if equals else next(iter(arguments[index + 1 : index + 2]), "")
    return ""


def _below(folder: str, word: str) -> str:
    """A folder by what `cd` is given; one that leads elsewhere is as good as none."""
    path = (
        posixpath.normpath(f"{folder}/{word}" if folder and not word.startswith("/") else word)
        if word
        else folder
    )
    return "" if path == "." or path.startswith(("/", "..")) else path

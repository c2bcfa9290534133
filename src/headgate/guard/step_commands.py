"""What verification steps run: their commands, and those in files that they run.

`make test`, `npm run check`, `tox`, `just`, `nox` and shell scripts are read as far as their files can be.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import pairwise
from pathlib import Path, PurePosixPath

from headgate.first_use import dataclass, regex
from headgate.guard.given_tests import GivenTests, path_in, read_tests, read_text
from headgate.reading import (
    Command,
    is_build_file,
    just_commands,
    make_commands,
    nox_commands,
    project_commands,
    script_commands,
    split_commands,
    task_program,
    tox_commands,
    word_set,
)
from headgate.tree import fold_case

MAX_DEPTH = 4
MAX_COMMANDS = 400
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


# Steps that install packages or configure a build: what they make is not the work of the code under test.


_INSTALLERS = word_set(
    """
    pip pip3 pipx uv poetry pdm pipenv hatch rye conda mamba npm pnpm yarn bun bundle composer mix rebar3
    """
)
_INSTALLING = word_set(
    """
    install i ci clean-install install-test it cit install-ci-test sync add update upgrade rebuild create
    develop deps.get
    """
)
"""Words behind an installer with which it installs."""
_PREPARING = word_set("virtualenv tox nox cmake configure autogen.sh bootstrap autoreconf meson qmake")
_PYTHON_INSTALLERS = frozenset({"pip", "uv", "poetry", "pipenv", "pdm", "venv", "virtualenv", "tox", "nox"})


def preparing_steps(commands: Iterable[str], directory: str, root: Path | None) -> frozenset[str]:
    """Which of these commands install packages or configure a build, also by way of a file that they run."""
    return frozenset(
        text
        for text in commands
        if any(
            _prepares(command)
            for line, _ in expand_steps([text], directory, root)
            for command in step_commands(line)
        )
    )


def _prepares(command: Command) -> bool:
    program, arguments = command.program.rpartition("/")[2], command.arguments
    if _PYTHON.fullmatch(program):
        if arguments[:1] == ["-m"] and not _PYTHON_INSTALLERS.isdisjoint(arguments[1:2]):
            return arguments[1] == "venv" or _prepares(Command(arguments[1:]))
        return arguments[:1] == ["setup.py"] and not _INSTALLING.isdisjoint(arguments[1:])
    if program in _PREPARING or (program == "yarn" and not arguments):
        return True
    if program == "uv" and arguments[:1] == ["run"]:  # it first installs what is missing
        return "--no-sync" not in arguments
    words = [word for word in arguments if not word.startswith("-")][:2]
    return program in _INSTALLERS and not _INSTALLING.isdisjoint(words)


# The folders and scripts of the repository that these commands use.


_SCRIPT_RUNNERS = _SHELLS | {"bats"}
_INTERPRETERS = frozenset({"python", "python3", "node", "deno", "bun", "ruby", "perl", "php", "tsx", "npx"})
_RUNNERS = frozenset({"pytest", "jest", "vitest", "mocha", "tox", "nox", "karma", "phpunit", "make", "rspec"})
_CONFIG_OPTIONS = frozenset(
    {"-c", "-f", "--config", "--configuration", "--config-file", "--file", "--makefile"}
)
_FOLDER_OPTIONS = frozenset({"-C", "--directory", "--cwd", "--chdir", "--prefix"})
_CHECKING = frozenset({"check", "checks", "test", "tests", "runtests", "verify", "validate", "ci", "lint"})
_PYTHON = regex(r"(python|pypy)[\d.]*|py\.test")


@dataclass(frozen=True, slots=True)
class StepFiles:
    """All paths are folded and relative to the repository."""

    folders: frozenset[str]
    """Where the steps run, or look for Python modules by their own word."""
    scripts: frozenset[str]
    """What they run, or take settings from, in order to check something."""
    programs: frozenset[str]
    """The runners and interpreters that they name by path, whether or not they are there."""
    tasks: frozenset[str]
    """Programs such as make that take their commands from a file."""
    tests: GivenTests = field(default_factory=GivenTests)
    """What test runners are given."""


def read_steps(commands: Iterable[str], directory: str = "", root: Path | None = None) -> StepFiles:
    """Reads commands that are run in `directory` of the repository `root`.

    Without a root, nothing is known but what the commands say.
    """
    top = Path(os.path.realpath(root)) if root else None
    folders = {directory}
    scripts: set[str] = set()
    programs: set[str] = set()
    tasks: set[str] = set()
    tests = GivenTests()
    for text, where in expand_steps(commands, directory, top):
        parsed = list(step_commands(text))
        here = _folders(parsed, where, top)
        tests += read_tests(parsed, sorted(here), top)
        folders |= here
        for command in parsed:
            run = (path_in(folder, word, top) for folder in here for word in _scripts(command))
            scripts.update(path for path in run if path)
            named = (path_in(folder, word, top) for folder in here for word in _programs(command))
            programs.update(path for path in named if path)
            if program := task_program(command.program):
                tasks.add(program)
    return StepFiles(
        folders=frozenset(map(fold_case, folders)),
        scripts=frozenset(map(fold_case, scripts)),
        programs=frozenset(map(fold_case, programs)),
        tasks=frozenset(tasks),
        tests=tests,
    )


def _folders(commands: Iterable[Command], directory: str, top: Path | None) -> set[str]:
    """Where commands run: `cd` leads on from where it is or, since a subshell may have ended, from the start.

    What PYTHONPATH names is among them: modules are found there as where Python was started.
    """
    found = {directory}
    current = directory
    for command in commands:
        words = command.words
        named = [word for before, word in pairwise(words) if before in _FOLDER_OPTIONS]
        for word in words:
            name, _, value = word.partition("=")
            if name == "PYTHONPATH":
                named += value.split(":")
            elif name in _FOLDER_OPTIONS and value:
                named.append(value)
        if command.program in ("cd", "pushd"):
            target = next((word for word in command.arguments if not word.startswith("-")), "")
            named.append(target)
            there = path_in(current, target, top)
            current = current if there is None else there
            found.add(current)
        for word in named:
            found.update(path for base in (directory, current) if (path := path_in(base, word, top)))
    return found


def _scripts(command: Command) -> Iterator[str]:
    """The files that a command runs in order to check something, or takes settings from.

    What it merely reads is what it checks, and that is the task's to change.
    """
    program = command.program
    name = program.rpartition("/")[2]
    checks = program.endswith(".sh") or is_build_file(program) or name in _RUNNERS or _is_checking(program)
    if "/" in program and checks:
        yield program
    for before, word in zip([program, *command.arguments], command.arguments, strict=False):
        if name in _RUNNERS and (before in _CONFIG_OPTIONS or "=" in word):
            yield word.rpartition("=")[2]
    script = next((word for word in command.arguments if not word.startswith("-")), "")
    if name in _SCRIPT_RUNNERS or (name in _INTERPRETERS and _is_checking(script)):
        yield script


def _programs(command: Command) -> Iterator[str]:
    """The runners and interpreters that a command names by path, itself or for another one to start."""
    for word in (command.program, *command.arguments[:2]):
        folder, _, name = word.rpartition("/")
        if folder and (name in _RUNNERS | _INTERPRETERS or _PYTHON.fullmatch(name)):
            yield word


def _is_checking(path: str) -> bool:
    return not _CHECKING.isdisjoint(re.split(r"[\W_]+", PurePosixPath(path).stem.lower()))

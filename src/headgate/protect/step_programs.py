"""What verification steps run: from which folders, which scripts, and which programs of the repository."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath

from headgate.protect.given_tests import GivenTests, path_in, read_tests
from headgate.protect.step_commands import expand_steps, step_commands
from headgate.reading import Command, is_build_file, task_program
from headgate.workspace import fold_case

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", ".", "source", "bats"})
_INTERPRETERS = frozenset({"python", "python3", "node", "deno", "bun", "ruby", "perl", "php", "tsx", "npx"})
_RUNNERS = frozenset({"pytest", "jest", "vitest", "mocha", "tox", "nox", "karma", "phpunit", "make", "rspec"})
_CONFIG_OPTIONS = frozenset(
    {"-c", "-f", "--config", "--configuration", "--config-file", "--file", "--makefile"}
)
_FOLDER_OPTIONS = frozenset({"-C", "--directory", "--cwd", "--chdir", "--prefix"})
_CHECKING = frozenset({"check", "checks", "test", "tests", "runtests", "verify", "validate", "ci", "lint"})
_PYTHON = re.compile(r"(python|pypy)[\d.]*|py\.test")
_PROGRAM_FOLDERS = frozenset({"bin", ".bin", "scripts"})
_ENVIRONMENTS = frozenset({"node_modules", ".venv", "venv", "env", ".env", ".tox", ".nox", "vendor"})


@dataclass(frozen=True, slots=True)
class StepFiles:
    """All paths are folded and relative to the repository."""

    folders: frozenset[str]
    """Where the steps run, or look for Python modules by their own word."""
    scripts: frozenset[str]
    """What they run, or take settings from, in order to check something."""
    named: frozenset[str]
    """Runners and interpreters in the repository, wherever they lie."""
    present: frozenset[str]
    """Those that there are, what lies beside them in an environment, and what links among these lead to."""
    environments: frozenset[str]
    """The folders of environments: a script that lies there looks there for its modules."""
    tasks: frozenset[str]
    """Programs such as make that take their commands from a file."""
    tests: GivenTests = field(default_factory=GivenTests)
    """What test runners are given."""


def read_steps(
    commands: Iterable[str], directory: str = "", root: Path | None = None, search: str = ""
) -> StepFiles:
    """Reads commands that are run in `directory` of the repository `root`; `search` is their PATH.

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
            run = [path_in(folder, word, top) for folder in sorted(here) for word in _scripts(command)]
            scripts.update(path for path in run if path)
            programs.update(path for path in run if path and _environment(path, top))
            programs.update(_programs(command, sorted(here), top, search))
            if program := task_program(command.program):
                tasks.add(program)
    environments = {place for path in programs if (place := _environment(path, top))}
    beside = {f"{place}/{name}" for place in environments for name in _names(place, top)}
    there = {path for path in programs | beside if top and os.path.lexists(top / path)}
    targets = {target for path in there if (target := _target(path, top))}
    return StepFiles(
        folders=frozenset(map(fold_case, folders)),
        scripts=frozenset(map(fold_case, scripts)),
        named=frozenset(map(fold_case, programs)),
        present=frozenset(map(fold_case, there | targets)),
        environments=frozenset(map(fold_case, environments)),
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
    if "/" in program and (program.endswith(".sh") or is_build_file(program) or _is_checking(program)):
        yield program
    for before, word in zip([program, *command.arguments], command.arguments, strict=False):
        if name in _RUNNERS and (before in _CONFIG_OPTIONS or "=" in word):
            yield word.rpartition("=")[2]
    script = next((word for word in command.arguments if not word.startswith("-")), "")
    if name in _SHELLS or (name in _INTERPRETERS and _is_checking(script)):
        yield script


def _is_checking(path: str) -> bool:
    return not _CHECKING.isdisjoint(re.split(r"[\W_]+", PurePosixPath(path).stem.lower()))


def _programs(command: Command, folders: Iterable[str], top: Path | None, search: str) -> Iterator[str]:
    """The runners and interpreters of the repository that a command starts, by their paths.

    Other programs that it names by path may be what the task is to build.
    """
    for word in (command.program, *command.arguments[:2]):
        name = word.rpartition("/")[2]
        known = name in _RUNNERS | _INTERPRETERS or _PYTHON.fullmatch(name) is not None
        if "/" in word:
            paths = [path for folder in folders if (path := path_in(folder, word, top))]
            yield from (path for path in paths if known or _environment(path, top))
        elif known and top and search and (place := shutil.which(word, path=search)):
            path = path_in("", place, top)
            if path:
                yield path


def _environment(path: str, top: Path | None) -> str:
    """The folder of programs that a path lies in, if it belongs to an environment that was installed."""
    parts = path.split("/")[:-1]
    if not parts or parts[-1].lower() not in _PROGRAM_FOLDERS:
        return ""
    installed = not _ENVIRONMENTS.isdisjoint(part.lower() for part in parts[:-1])
    if installed or (top is not None and top.joinpath(*parts[:-1], "pyvenv.cfg").is_file()):
        return "/".join(parts)
    return ""


def _names(folder: str, top: Path | None) -> list[str]:
    """The files and links in a folder; none where it cannot be read: then nothing there is run."""
    if top is None:
        return []
    try:
        with os.scandir(top / folder) as entries:
            return [entry.name for entry in entries if not entry.is_dir()]
    except OSError:
        return []


def _target(path: str, top: Path | None) -> str | None:
    """Where a path leads by links, if that is in the repository."""
    return path_in("", os.path.realpath(top / path), top) if top else None

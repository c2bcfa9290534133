"""Guessing how a repository is tested from the files in it. Nothing is run.

The root comes first. A project in a folder below it gets steps of its own only if it is the only one. If
there are several, a person has to say which of them count, and in which order.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from headgate.config.own_commands import Has, find_own_steps
from headgate.config.project_table import MAKE, find_by_table, is_marked
from headgate.config.projects import (
    FoundProject,
    ProjectKind,
    find_go_workspace,
    find_node,
    find_python,
    is_source_folder,
    list_folder,
    project_interpreter,
)
from headgate.core import VerifyStep
from headgate.first_use import dataclass

_MARKS = ("pyproject.toml", "setup.py", "package.json")
"""Besides those in the table."""
_SIDE_FOLDERS = "test tests testdata fixtures examples example samples docs vendor third_party"
_NOT_PROJECTS = frozenset(_SIDE_FOLDERS.split())
_MAX_DEPTH = 3
_MAX_FOLDERS = 2000
_MAX_NAMED = 8


@dataclass(frozen=True)
class Detection:
    """What was seen, the verification that follows from it, and what a person should look at."""

    kinds: tuple[ProjectKind, ...] = ()
    steps: tuple[VerifyStep, ...] = ()
    hints: tuple[str, ...] = ()
    left_out: tuple[VerifyStep, ...] = ()
    """Steps that a person may want, too."""


def detect_project(root: Path, python: str = "python3", has: Has = lambda program: True) -> Detection:
    """Looks at the project's own files; several kinds in one repository are all listed.

    `python` is the interpreter to name where the project has none of its own; `has` says which other programs
    are there.
    """
    folders = list(_folders_with_projects(root))
    found = _with_own_steps(_find_projects(root, root, python, folders), root, root, python, has)
    covered = {item.kind.name for item in found if item.covers_below}
    below = {
        folder: items
        for folder in folders
        if (
            items := [
                item
                for item in _with_own_steps(
                    _find_projects(folder, root, python, ()), folder, root, python, has
                )
                if item.kind.name not in covered
            ]
        )
    }
    kinds = [item.kind for item in found]
    for folder, items in below.items():
        kinds += [
            replace(item.kind, evidence=f"{_name(folder, root)}/{item.kind.evidence}") for item in items
        ]
    steps = _name_steps(found)
    hints = [hint for item in found for hint in item.hints]
    hints += [
        f"{_name(folder, root)}: {hint}" for folder in below for item in below[folder] for hint in item.hints
    ]
    left_out: list[VerifyStep] = []
    by_make = bool(steps) and all(item.kind.name == "Make" for item in found if item.steps)
    if len(below) == 1 and not by_make:
        ((folder, items),) = below.items()
        moved = [_move(item, folder, root) for item in items]
        steps = _name_steps([*found, *moved])
    elif below:
        left_out = [step for folder, items in below.items() for step in _steps_below(folder, items, root)]
        hints.append(_name_projects(below, root))
    if not kinds:
        hints.append("No known kind of project was found: add the commands that check it to agent.yaml.")
    elif not steps and not left_out:
        hints.append("No tests were found: add the commands that check the project to agent.yaml.")
    return Detection(tuple(kinds), tuple(steps), tuple(hints), tuple(left_out))


def _find_projects(folder: Path, root: Path, python: str, below: Iterable[Path]) -> list[FoundProject]:
    """Every kind of project in one folder."""
    looked = [
        find_python(folder, root, python, list(below)),
        find_node(folder, root),
        find_go_workspace(folder, root),
        *find_by_table(folder),
    ]
    # In a folder that something else marks as a project, a few scripts are no project of their own.
    found = [
        item
        for item in looked
        if item
        and (folder == root or item.kind.evidence == "setup.py" or not item.kind.evidence.endswith(".py"))
    ]
    for make in find_by_table(folder, [MAKE]):
        # A Makefile next to a project that says how it is tested mostly wraps just that.
        found.append(FoundProject(make.kind) if any(item.steps for item in found) else make)
    return found


def _with_own_steps(
    found: list[FoundProject], folder: Path, root: Path, python: str, has: Has
) -> list[FoundProject]:
    """What was found, with the steps that the project itself names in place of the usual ones."""
    kinds = [item for item in found if item.kind.name != "Make"]
    if len(kinds) != 1 or kinds[0].kind.name == "Node":
        return found  # whose steps they are cannot be told; a package's own scripts are steps already
    (item,) = kinds
    interpreter = project_interpreter(folder, root) or python
    own = find_own_steps(folder, interpreter, has)
    usual = dict(item.steps)
    if "tests" in own and (not usual.get("tests") or len(shlex.split(own["tests"].command)) <= 3):
        del own["tests"]  # the usual command says as much, or there is nothing to run
    commands: dict[str, str] = {}
    hints = [f'The step "{step.name}" comes from {step.source}.' for step in own.values()]
    for name, command in usual.items():
        there = own[name].command if name in own else _runnable_here(command, folder, has)
        if there:
            commands[name] = there
        else:
            hints.append(f'Left out: "{command}", because its program was not found.')
    commands |= {name: step.command for name, step in own.items()}
    changed = replace(item, steps=tuple(commands.items()), hints=(*item.hints, *hints))
    return [changed if each is item else each for each in found]


def _runnable_here(command: str, folder: Path, has: Has) -> str | None:
    """A linter's command as it can be run here; other commands stay as they are."""
    plain = re.fullmatch(r"(?:(?P<venv>\S+/bin)/python -m )?(?P<tool>ruff|mypy)(?P<rest>.*)", command)
    if plain is None or (plain["venv"] and (folder / plain["venv"] / plain["tool"]).exists()):
        return command
    return f"{plain['tool']}{plain['rest']}" if has(plain["tool"]) else None


def _folders_with_projects(root: Path) -> Iterator[Path]:
    """Folders below the root that hold a project, the nearest first; what is inside of one belongs to it."""
    level, looked = [root], 0
    for _ in range(_MAX_DEPTH):
        deeper: list[Path] = []
        for folder in level:
            for entry in list_folder(folder):
                if not is_source_folder(entry) or entry.name in _NOT_PROJECTS:
                    continue
                looked += 1
                if looked > _MAX_FOLDERS:
                    return
                if any(Path(entry.path, mark).is_file() for mark in _MARKS) or is_marked(Path(entry.path)):
                    yield Path(entry.path)
                else:
                    deeper.append(Path(entry.path))
        level = deeper


def _name_steps(found: Iterable[FoundProject]) -> list[VerifyStep]:
    steps: list[VerifyStep] = []
    for item in found:
        for name, command in item.steps:
            taken = {step.name for step in steps}
            own = name if name not in taken else f"{name}-{item.kind.name.split()[0].lower()}"
            number = 2
            while own in taken:
                own, number = f"{name}-{number}", number + 1
            steps.append(VerifyStep(name=own, command=command))
    return steps


def _move(item: FoundProject, folder: Path, root: Path) -> FoundProject:
    """The same, run from the root."""
    go = f"cd {shlex.quote(_name(folder, root))} && "
    return replace(item, steps=tuple((name, go + command) for name, command in item.steps))


def _steps_below(folder: Path, items: list[FoundProject], root: Path) -> Iterator[VerifyStep]:
    for step in _name_steps(_move(item, folder, root) for item in items):
        yield VerifyStep(name=f"{folder.name}-{step.name}", command=step.command)


def _name_projects(below: dict[Path, list[FoundProject]], root: Path) -> str:
    named = [
        f"{_name(folder, root)} ({', '.join(item.kind.name for item in items)})"
        for folder, items in below.items()
    ]
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    one = len(named) == 1
    return (
        f"{'A project' if one else 'Several projects'} below the root {'was' if one else 'were'} left out: "
        f"{', '.join(named[:_MAX_NAMED])}{more}. Add the steps that you need, such as "
        '"cd FOLDER && COMMAND".'
    )


def _name(folder: Path, root: Path) -> str:
    return folder.relative_to(root).as_posix()

"""Tests that a task may not touch: the guard for tools, and what `ProtectedFiles` keeps from commands."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal

from headgate.core.access import Access, Denial
from headgate.core.testfiles import (
    is_build_file,
    is_installed_or_built,
    is_runner_setting,
    is_start_up_file,
    is_task_file,
    is_test,
    source_of,
    task_program,
)
from headgate.core.testsettings import changed_settings, has_test_settings
from headgate.host.commandline import Command, split_commands
from headgate.host.globs import fold
from headgate.host.internal import internal_name
from headgate.host.workspace import show_path

REASON = "tests and what decides how they run are protected"
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", ".", "source", "bats"})
_INTERPRETERS = frozenset({"python", "python3", "node", "deno", "bun", "ruby", "perl", "php", "tsx", "npx"})
_RUNNERS = frozenset({"pytest", "jest", "vitest", "mocha", "tox", "nox", "karma", "phpunit", "make", "rspec"})
_CONFIG_OPTIONS = frozenset(
    {"-c", "-f", "--config", "--configuration", "--config-file", "--file", "--makefile"}
)
_CHECKING = frozenset({"check", "checks", "test", "tests", "runtests", "verify", "validate", "ci", "lint"})


@dataclass(frozen=True)
class StartFiles:
    """What there was when the task began."""

    files: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    """Repositories within the repository, of whose files nothing is known."""
    by_fold: dict[str, str] = field(init=False)
    """The files by a spelling in which those are equal that some file system takes for one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_fold", {fold(path): path for path in self.files})


class ProtectedTests:
    """Denies writing to tests and to what decides how they run.

    `existing` is about what there was when the task began; `all` also about what is new: another test, a
    setting, a module that would be run first or taken for a test library. Of files that hold much else as
    well (`pyproject.toml`, `package.json`) only the parts count that decide how tests run.

    `begun` is asked once, with the first write or command. `commands` are those that verify the work, run in
    `directory`: the scripts that they run are protected like tests.
    """

    def __init__(
        self,
        mode: Literal["existing", "all"],
        begun: Callable[[], StartFiles],
        commands: Iterable[str] = (),
        directory: str = "",
    ) -> None:
        self._all = mode == "all"
        self._begun = begun
        parsed = [command for text in commands for command in _commands(text)]
        self._scripts = frozenset(
            fold(_join(directory, word)) for command in parsed for word in _scripts(command)
        )
        self._programs = {program for command in parsed if (program := task_program(command.program))}

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act != "write":
            return None
        shown = show_path(access.target)
        if self._covers_whole(access.target):
            kind = "is a test" if is_test(access.target) else "decides how the tests run"
            return Denial(f"{shown} {kind}, and this task may not change that: leave it alone.")
        if self._covers_parts(access.target):
            changed = changed_settings(access.target, access.before, access.after)
            if changed:
                return Denial(
                    f"{shown}: {', '.join(changed)} decides how the tests run, and this task may not change"
                    " that. The rest of the file may be changed."
                )
        return None

    def covers(self, path: str) -> bool:
        """Whether commands may not change a file, or not all of it."""
        return self._covers_whole(path) or self._covers_parts(path)

    def accepts(self, path: str, before: bytes | None, after: bytes) -> bool:
        """Whether what a command made of a covered file may stay."""
        return not self._covers_whole(path) and not changed_settings(path, before, after)

    def enters(self, directory: str) -> bool:
        """Whether anything below a directory can be covered."""
        name = directory.rpartition("/")[2]
        if internal_name(name) is not None:
            return False
        place = fold(directory)
        if place in self._folders or self._is_nested(place):
            return True
        if name == "__pycache__":
            parent = place.rpartition("/")[0]
            return self._all or not parent or parent in self._folders
        return self._all and not is_installed_or_built(name)

    def _covers_whole(self, path: str) -> bool:
        module = source_of(path)
        place = fold(module)
        start = self._start.by_fold.get(place)
        if start is not None:
            return self._matters(start) or (self._all and (is_build_file(start) or is_task_file(start)))
        if self._is_nested(place):
            return self._matters(module)
        if not self._all or any(map(is_installed_or_built, path.split("/")[:-1])):
            return False
        return self._matters(module) or is_task_file(module) or is_start_up_file(path)

    def _covers_parts(self, path: str) -> bool:
        if not has_test_settings(path):
            return False
        place = fold(path)
        if place in self._start.by_fold or self._is_nested(place):
            return True
        return self._all and not any(map(is_installed_or_built, path.split("/")[:-1]))

    def _matters(self, path: str) -> bool:
        return (
            is_test(path)
            or is_runner_setting(path)
            or (bool(self._scripts) and fold(path) in self._scripts)
            or any(is_task_file(path, program) for program in self._programs)
        )

    def _is_nested(self, place: str) -> bool:
        return any(place == nested or place.startswith(f"{nested}/") for nested in self._nested)

    @cached_property
    def _start(self) -> StartFiles:
        return self._begun()

    @cached_property
    def _nested(self) -> tuple[str, ...]:
        return tuple(map(fold, self._start.nested))

    @cached_property
    def _folders(self) -> frozenset[str]:
        """Every folder on the way to something that was there and is protected."""
        found: set[str] = set()
        kept = [path for path in self._start.files if self.covers(path)]
        for path in map(fold, [*kept, *self._start.nested]):
            while (path := path.rpartition("/")[0]) and path not in found:
                found.add(path)
        return frozenset(found)


def _commands(text: str) -> Iterator[Command]:
    """The commands of a step, those that it hands to another shell as one word included."""
    for command in split_commands(text):
        yield command
        for word in command.words:
            if " " in word:
                yield from split_commands(word)


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


def _join(directory: str, word: str) -> str:
    """A word of a command as a path in the repository; what leads out of it is no file of ours."""
    parts: list[str] = []
    for part in f"{directory}/{word}".split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)

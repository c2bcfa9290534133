"""Tests that a task may not touch: the guard for tools, and what `ProtectedTree` keeps from commands."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from headgate.core import Access, Denial, show_path
from headgate.errors import ToolError
from headgate.first_use import dataclass
from headgate.guard.given_tests import NamedTests, read_text
from headgate.guard.guards import Boundaries
from headgate.guard.restore import Change
from headgate.guard.step_commands import StepFiles, read_steps
from headgate.reading import (
    changed_settings,
    has_test_settings,
    is_build_file,
    is_code,
    is_installed_or_built,
    is_runner_module,
    is_runner_setting,
    is_start_up_file,
    is_task_file,
    is_test,
    is_tool_setting,
    shadowing_module,
    source_of,
)
from headgate.tree import ConfinedTree, ancestors, fold_case, internal_name

REASON = "tests and what decides how they run are protected"
_INSTALLED = frozenset({"node_modules", "site-packages", "dist-packages", ".venv", "venv", ".tox", ".nox"})
_MODULE_FOLDERS = frozenset({"src", "lib"})


@dataclass(frozen=True)
class StartFiles:
    """What there was when the task began."""

    files: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    """Repositories within the repository, of whose files nothing is known."""
    by_fold: dict[str, str] = field(init=False)
    """The files by a spelling in which those are equal that some file system takes for one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_fold", {fold_case(path): path for path in self.files})


class ProtectedTests:
    """Denies writing to tests and to what decides how they run.

    `existing` is about what there was when the task began; `all` also about what is new: another test, a
    setting, a module that would be run first or taken for a test library. Of files that hold much else as
    well (`pyproject.toml`, `package.json`) only the parts count that decide how tests run.

    `begun` is asked once, with the first write or command. `commands` are those that verify the work, run in
    `directory` of the repository `root`: the scripts that they run are protected like tests. What they give
    to test runners is tests, whatever it is called, and so is what `paths` (patterns) match. What `paths`
    take back with `!` is neither a test nor such a script: it is the work itself.
    """

    def __init__(
        self,
        mode: Literal["existing", "all"],
        begun: Callable[[], StartFiles],
        commands: Iterable[str] = (),
        directory: str = "",
        root: Path | None = None,
        paths: Iterable[str] = (),
    ) -> None:
        self.mode = mode
        self._all = mode == "all"
        self._begun = begun
        self._directory = directory
        self._root = root
        self._paths = Boundaries(tuple(paths))
        self._read_steps = partial(read_steps, tuple(commands), directory, root)

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act != "write":
            return None
        shown = show_path(access.target)
        if self._covers_whole(access.target):
            module = None if self._is_test(access.target) else self._shadowed(access.target)
            if module is not None:
                return Denial(
                    f"{shown} decides how the tests run: the test runner would import it as the module"
                    f" {module}. Choose another name."
                )
            kind = "is a test" if self._is_test(access.target) else "decides how the tests run"
            if kind != "is a test" and self._is_linked(fold_case(access.target)):
                kind = "is read by tests, which have a link to it"
            return Denial(f"{shown} {kind}: this task may not change it.")
        if self._covers_parts(access.target):
            changed = changed_settings(access.target, access.before, access.after)
            if changed:
                return Denial(
                    f"{shown}: {', '.join(changed)} decides how the tests run; this task may not change that."
                    " You may change the rest of the file."
                )
        return None

    def tests(self) -> tuple[str, ...]:
        """The tests that there were when the task began, without what decides how they run."""
        return tuple(path for path in self._start.files if self._is_test(path))

    def covers(self, path: str) -> bool:
        """Whether commands may not change a file, or not all of it."""
        return self._covers_whole(path) or self._covers_parts(path)

    def accepts(self, path: str, before: bytes | None, after: bytes) -> bool:
        """Whether what a command made of a covered file may stay."""
        return not self._covers_whole(path) and not changed_settings(path, before, after)

    def decides(self, path: str) -> bool:
        """Whether a covered file decides how tests run. A test does not, nor does data beside it."""
        if not self.covers(path):
            return False
        module = source_of(path)
        place = fold_case(module)
        if self._is_script(module) or not (self._is_test(module) or self._is_linked(place)):
            return True
        return (
            is_runner_setting(module)
            or is_tool_setting(module)
            or is_start_up_file(path)
            or self._shadowed(path) is not None
            or (is_task_file(module) and _split(place)[0] in self._steps.folders)
        )

    def may_be_prepared(self, path: str, change: Change) -> bool:
        """Whether a step that installs or configures may make a covered file, or change it."""
        folders = path.split("/")[:-1]
        if not _INSTALLED.isdisjoint(folders) or self._is_program(fold_case(path)):
            return True
        described = any(folder.endswith((".egg-info", ".dist-info")) for folder in folders)
        return change == "created" and (described or is_task_file(path) or is_build_file(path))

    def enters(self, directory: str) -> bool:
        """Whether anything below a directory can be covered."""
        name = directory.rpartition("/")[2]
        if internal_name(name) is not None:
            return False
        place = fold_case(directory)
        if place in self._folders or self._is_nested(place):
            return True
        if name == "__pycache__":
            parent = place.rpartition("/")[0]
            return self._all or not parent or parent in self._folders
        return self._all and not any(map(is_installed_or_built, directory.split("/")))

    def _covers_whole(self, path: str) -> bool:
        module = source_of(path)
        place = fold_case(module)
        start = self._start.by_fold.get(place)
        if place in self._link_targets and not self._paths.takes_back(place):
            return True
        if start is not None:
            if self._all and (is_build_file(start) or is_task_file(start)):
                return True
            return self._matters(start) or self._is_linked(place)
        if self._is_nested(place):
            return self._matters(module)
        if not self._all:
            return False
        if self._is_program(place):
            return True
        if any(map(is_installed_or_built, path.split("/")[:-1])):
            return False
        return (
            self._matters(module)
            or self._is_linked(place)
            or (is_build_file(module) and _split(place)[0] in self._built_folders)
            or is_task_file(module)
            or is_start_up_file(path)
            or self._shadowed(path) is not None
        )

    def _is_script(self, path: str) -> bool:
        """Whether steps run a file in order to check something."""
        return fold_case(path) in self._steps.scripts and not self._paths.takes_back(path)

    def _is_program(self, place: str) -> bool:
        """Whether steps name a path as that of a runner. With `all` none may come to be there."""
        return self._all and place in self._steps.programs and not self._paths.takes_back(place)

    def _shadowed(self, path: str) -> str | None:
        """The module that a new file would be taken for when the tests run."""
        if not self._all or fold_case(path) in self._start.by_fold or self._is_nested(fold_case(path)):
            return None
        parts = path.split("/")
        if any(map(is_installed_or_built, parts[:-1])):
            return None
        named = [found] if (found := shadowing_module(path)) else []
        named += [
            ("/".join(parts[:at]), name) for at, name in enumerate(parts[:-1]) if is_runner_module(name)
        ]
        place = next((one for one in named if self._is_looked_in(one[0])), None)
        return place[1] if place and not self._has_module(*place) else None

    def _is_looked_in(self, folder: str) -> bool:
        """Whether Python looks for modules in a folder when the tests run."""
        place = fold_case(folder)
        if place in self._module_folders:
            return True
        return place.rpartition("/")[2] in _MODULE_FOLDERS and not self._has_module(*_split(folder))

    def _has_module(self, folder: str, name: str) -> bool:
        """Whether the project had a module of its own of this name there."""
        place = fold_case(f"{folder}/{name}" if folder else name)
        return f"{place}.py" in self._start.by_fold or f"{place}/__init__.py" in self._start.by_fold

    def _covers_parts(self, path: str) -> bool:
        if not has_test_settings(path):
            return False
        place = fold_case(path)
        if place in self._start.by_fold or self._is_nested(place):
            return True
        return self._all and not any(map(is_installed_or_built, path.split("/")[:-1]))

    def _is_linked(self, place: str) -> bool:
        """Whether a path is what a link leads to that is among the tests or the settings."""
        targets = self._link_targets
        above = (folder for folder in ancestors(place) if folder in targets)
        found = place in targets or any(targets[folder] or not is_code(place) for folder in above)
        return found and not self._paths.takes_back(place)

    def _is_test(self, path: str) -> bool:
        """Whether a file is a test: by its name, because a step names it, or by the configuration."""
        if self._paths.takes_back(path):
            return False
        inside = path.removeprefix(f"{self._directory}/")
        return (
            is_test(path)
            or (inside != path and is_test(inside))
            or self._named.cover(fold_case(path))
            or self._paths.covers(path)
        )

    def _matters(self, path: str) -> bool:
        return (
            self._is_test(path)
            or is_runner_setting(path)
            or is_tool_setting(path)
            or self._is_script(path)
            or any(is_task_file(path, program) for program in self._steps.tasks)
        )

    def _is_nested(self, place: str) -> bool:
        return any(place == nested or place.startswith(f"{nested}/") for nested in self._nested)

    @cached_property
    def _start(self) -> StartFiles:
        return self._begun()

    @cached_property
    def _steps(self) -> StepFiles:
        return self._read_steps()

    @cached_property
    def _named(self) -> NamedTests:
        root = self._root

        def read(path: str) -> str:
            return read_text(root, path) if root else ""

        return NamedTests(self._steps.tests, self._start.by_fold, read)

    @cached_property
    def _module_folders(self) -> frozenset[str]:
        """The folders of which it is known that modules are imported from them.

        Steps run there, or pytest puts them first because a test lies there, or in a package there.
        """
        found = {"", *self._steps.folders}
        for place in self._start.by_fold:
            folder, name = _split(place)
            if name.endswith(".py") and (
                name.startswith("test_") or name.endswith(("_test.py", "conftest.py"))
            ):
                while folder and f"{folder}/__init__.py" in self._start.by_fold:
                    folder = folder.rpartition("/")[0]
                found.add(folder)
        return frozenset(found)

    @cached_property
    def _link_targets(self) -> dict[str, bool]:
        """What links lead to that were there, and links on the way; whether source code below it counts.

        All counts below a link that stands for tests itself (`tests` -> `qa`). Where the link lies among
        tests (`tests/data` -> `../fixtures`), source code may be what is tested.
        """
        root, targets = self._root, dict[str, bool]()
        if root is None:
            return targets
        links = {fold_case(path): path for path in self._start.files if (root / path).is_symlink()}
        for place, path in links.items():
            is_tests = self._is_link_of_tests(path)
            # A link may lead out of the repository, or in a circle.
            with suppress(ToolError), ConfinedTree(root).find(path) as spot:
                target = fold_case(spot.path)
                is_above = not target or place.startswith(f"{target}/")
                if not (is_tests or self._matters(path)) or is_above or not spot.status():
                    continue
                on_the_way = [step for one in spot.aliases for step in (one, *ancestors(one))]
                for step in {*map(fold_case, on_the_way)} & links.keys():
                    targets.setdefault(step, False)
                targets[target] = targets.get(target, False) or is_tests
        return targets

    def _is_link_of_tests(self, path: str) -> bool:
        """Whether a link matters by its own name, or because a step or the configuration names it."""
        place, name = fold_case(path), _split(path)[1]
        matters = is_test(name) or is_runner_setting(name) or is_tool_setting(name) or is_task_file(name)
        named = place in self._steps.tests.paths or place in self._steps.scripts
        return matters or named or self._paths.covers(path)

    @cached_property
    def _built_folders(self) -> frozenset[str]:
        """The folders in which there was something that says how to build: another such file may win."""
        start = self._start.by_fold
        return frozenset(
            _split(place)[0] for place in start if is_build_file(place) or has_test_settings(place)
        )

    @cached_property
    def _nested(self) -> tuple[str, ...]:
        return tuple(map(fold_case, self._start.nested))

    @cached_property
    def _folders(self) -> frozenset[str]:
        """Every folder on the way to something that was there and is protected."""
        found: set[str] = set()
        kept = [path for path in self._start.files if self.covers(path)]
        programs = self._steps.programs if self._all else ()
        for path in map(fold_case, [*kept, *self._start.nested, *self._link_targets, *programs]):
            while (path := path.rpartition("/")[0]) and path not in found:
                found.add(path)
        return frozenset(found)


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name

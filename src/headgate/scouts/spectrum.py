"""Which lines each test runs, measured with `coverage` while the project's own commands run.

The commands need not know of it: a `sitecustomize` on Python's path starts the measurement in every Python
that they start, whichever that is. It is tried once, for a bounded time; what does not work brings no lines.
"""

import asyncio
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.core import VerifyStep
from headgate.process import CommandUnavailable, run_command
from headgate.scouts.suspects import Lines

_MOST_TESTS = 5_000
_MAX_OUTPUT = 400_000
_START = "import coverage\ncoverage.process_startup()\n"
_SETTINGS = """[run]
data_file = {folder}/data
parallel = true
dynamic_context = test_function
source = {source}
disable_warnings = no-data-collected,module-not-measured,module-not-imported,couldnt-parse,no-ctracer
"""


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The lines of each test, by its name as a function: `test_cart.TestTotal.test_empty`."""

    tests: Mapping[str, Lines]
    output: str = ""
    """What the commands printed."""

    def split(self, failing: Sequence[str]) -> tuple[list[Lines], list[Lines]]:
        """The tests that failed, by their names as a runner gives them, and the others."""
        names = {_dotted(name) for name in failing}
        failed = [lines for test, lines in self.tests.items() if _is_among(test, names)]
        passed = [lines for test, lines in self.tests.items() if not _is_among(test, names)]
        return failed, passed


def _dotted(name: str) -> str:
    """`test_cart.TestTotal.test_empty` of `tests/test_cart.py::TestTotal::test_empty[0]`."""
    plain = name.split("[", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    file, separator, test = plain.partition("::")
    module = file.rpartition("/")[2].removesuffix(".py")
    return f"{module}.{test.replace('::', '.')}" if separator else plain


def _is_among(test: str, names: set[str]) -> bool:
    """Whether a test is one of these: as far as both names go, they are the same from their ends."""
    return any(f".{test}".endswith(f".{name}") or f".{name}".endswith(f".{test}") for name in names)


async def measure(
    steps: Sequence[VerifyStep],
    tree: Path,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float,
    owner: Path | None = None,
) -> Spectrum:
    """Runs the steps in a copy of the tree, at most so long in all; paths are relative to the copy.

    `owner` is the repository that the copy is of.
    """
    with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as temporary:
        folder = Path(os.path.realpath(temporary))
        variables = _prepare(folder, tree)
        path = os.pathsep.join(filter(None, [variables["PYTHONPATH"], environment.get("PYTHONPATH", "")]))
        measured = {**environment, **variables, "PYTHONPATH": path}
        output: list[str] = []
        for step in steps:
            try:
                timeout = min(step.timeout, seconds)
                done = await run_command(
                    step.command, cwd=cwd, env=measured, timeout=timeout, max_output=_MAX_OUTPUT, owner=owner
                )
            except CommandUnavailable:
                break
            output.append(done.output)
            seconds -= done.seconds
            if seconds <= 0:
                break
        return Spectrum(await asyncio.to_thread(_read, folder, tree), "\n".join(output))


def _prepare(folder: Path, tree: Path) -> dict[str, str]:
    """Lays out what a Python finds on its path; returns the variables that lead it there."""
    modules = folder / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(_START)
    spec = find_spec("coverage")
    for place in (spec.submodule_search_locations if spec else None) or ():
        (modules / "coverage").symlink_to(place, target_is_directory=True)
    settings = folder / "settings"
    settings.write_text(_SETTINGS.format(folder=folder, source=tree))
    return {"PYTHONPATH": str(modules), "COVERAGE_PROCESS_START": str(settings)}


def _read(folder: Path, tree: Path) -> dict[str, Lines]:
    from coverage import CoverageData  # takes a while to load, and few tasks need it
    from coverage.exceptions import CoverageException

    tests: dict[str, dict[str, set[int]]] = {}
    for file in sorted(folder.glob("data.*")):
        try:
            data = CoverageData(str(file))
            data.read()
            for path in data.measured_files():
                name = Path(path).relative_to(tree).as_posix()
                for line, contexts in data.contexts_by_lineno(path).items():
                    for context in filter(None, contexts):
                        tests.setdefault(context, {}).setdefault(name, set()).add(line)
        except (CoverageException, sqlite3.Error, ValueError):
            continue  # a process that was killed leaves half a file
        if len(tests) > _MOST_TESTS:
            break
    return {test: {path: frozenset(lines) for path, lines in ran.items()} for test, ran in tests.items()}

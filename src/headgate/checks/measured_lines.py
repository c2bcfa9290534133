"""Which lines each test runs, measured with `coverage` while the project's own commands run.

They need not know of it: a `sitecustomize` on Python's path starts the measurement in every Python that they
start. It is tried once, for a bounded time; what does not work yields no lines.
"""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.checks.fault_localisation import Lines
from headgate.core import VerifyStep
from headgate.first_use import dataclass
from headgate.process import CommandUnavailable, Sandbox, run_command

_MOST_TESTS = 5_000
_MAX_OUTPUT = 400_000
_INSIDE, _FAILED = "headgate_inside_tests", "failed"
_START = "import coverage\ncoverage.process_startup()\n"
_SETTINGS = """[run]
data_file = {folder}/data
parallel = true
plugins = {inside}
source = {source}
disable_warnings = no-data-collected,module-not-measured,module-not-imported,couldnt-parse,no-ctracer
"""


@dataclass(frozen=True, slots=True)
class CoverageByTest:
    """The lines of each test, by pytest's name for the case, else by its name as a function."""

    tests: Mapping[str, Lines]
    output: str = ""
    """What the commands printed."""
    failed: frozenset[str] = frozenset()
    """The names of the cases that failed, where pytest ran them."""

    def split(self, failing: Sequence[str]) -> tuple[list[Lines], list[Lines]]:
        """The tests that failed, by their names as a runner gives them where nothing better is known, and the
        others."""
        names = {_dotted(name) for name in failing}
        failed: list[Lines] = []
        passed: list[Lines] = []
        for test, lines in self.tests.items():
            by_case = "::" in test and self.failed
            is_among = test in self.failed if by_case else _is_among(_dotted(test), names)
            (failed if is_among else passed).append(lines)
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


@dataclass(frozen=True)
class Measurement:
    """What has every Python that a command starts note down the lines it runs, while `measuring` holds."""

    tree: Path
    folder: Path
    """Where they are noted down."""
    environment: Mapping[str, str]
    """What the commands are to be given."""
    sandbox: Sandbox | None
    """What they are to run in."""

    def read(self, output: str = "") -> CoverageByTest:
        """What was noted down so far; paths are relative to the tree."""
        return CoverageByTest(_read(self.folder, self.tree), output, _read_failed(self.folder))


@contextmanager
def measuring(
    tree: Path, environment: Mapping[str, str], sandbox: Sandbox | None = None
) -> Iterator[Measurement]:
    """Lets commands be measured that run in a copy of the tree."""
    with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as temporary:
        folder = Path(os.path.realpath(temporary))
        variables = _prepare(folder, tree)
        path = os.pathsep.join(filter(None, [variables["PYTHONPATH"], environment.get("PYTHONPATH", "")]))
        plugins = ",".join(filter(None, [_INSIDE, environment.get("PYTEST_PLUGINS", "")]))
        measured = {**environment, **variables, "PYTHONPATH": path, "PYTEST_PLUGINS": plugins}
        measured.pop("PYTEST_CURRENT_TEST", None)  # of a pytest around this
        library = [place.resolve() for place in (folder / "modules").iterdir()]
        inside = sandbox and sandbox.with_paths(read_only=library, writable=[folder])
        yield Measurement(tree, folder, measured, inside)


async def measure_coverage(
    steps: Sequence[VerifyStep],
    tree: Path,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float,
    owner: Path | None = None,
    sandbox: Sandbox | None = None,
) -> CoverageByTest:
    """Runs the steps in a copy of the tree, at most so long in all; paths are relative to the copy.

    `owner` is the repository that the copy is of.
    """
    with measuring(tree, environment, sandbox) as measured:
        output: list[str] = []
        for step in steps:
            try:
                timeout = min(step.timeout, seconds)
                done = await run_command(
                    step.command,
                    cwd=cwd,
                    env=measured.environment,
                    timeout=timeout,
                    max_output=_MAX_OUTPUT,
                    owner=owner,
                    sandbox=measured.sandbox,
                )
            except CommandUnavailable:
                break
            output.append(done.output)
            seconds -= done.seconds
            if seconds <= 0:
                break
        return await asyncio.to_thread(measured.read, "\n".join(output))


def _prepare(folder: Path, tree: Path) -> dict[str, str]:
    """Lays out what a Python finds on its path; returns the variables that lead it there."""
    modules = folder / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(_START)
    shutil.copyfile(Path(__file__).with_name("inside_tests.py"), modules / f"{_INSIDE}.py")
    spec = find_spec("coverage")
    for place in (spec.submodule_search_locations if spec else None) or ():
        (modules / "coverage").symlink_to(place, target_is_directory=True)
    settings = folder / "settings"
    settings.write_text(_SETTINGS.format(folder=folder, source=tree, inside=_INSIDE))
    return {
        "PYTHONPATH": str(modules),
        "COVERAGE_PROCESS_START": str(settings),
        "HEADGATE_FAILED": str(folder / _FAILED),
    }


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


def _read_failed(folder: Path) -> frozenset[str]:
    try:
        return frozenset((folder / _FAILED).read_text("utf-8", "replace").splitlines())
    except FileNotFoundError:
        return frozenset()  # pytest did not run, or nothing failed

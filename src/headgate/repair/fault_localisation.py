"""Where a bug may be: the lines that failing tests ran and passing ones did not, and where the trace went.

The measure for a line is Ochiai's: the failing tests that ran it, over the geometric mean of all failing
tests and of all tests that ran it. Which lines each test runs is measured with `coverage` while the project's
own commands run. They need not know of it: a `sitecustomize` on Python's path starts the measurement in every
Python that they start. It is tried once, for a bounded time; what does not work yields no lines.
"""

import asyncio
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.core import VerifyStep
from headgate.process import CommandUnavailable, Sandbox, run_command
from headgate.reading import find_functions, lines_with_logic

TRACE_BONUS = 0.15
"""What being in the trace of a failure adds: it breaks ties, and little more."""
Lines = Mapping[str, frozenset[int]]
"""The lines of each file, by its path."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A function, or a whole file where functions are not known, and how suspect it is, up to about 1."""

    path: str
    function: str = ""
    first: int = 1
    last: int = 0
    score: float = 0.0
    lines: tuple[int, ...] = ()
    """Its lines that failing tests ran, the most suspect first, less those that hold nothing to get wrong."""
    scores: tuple[float, ...] = ()
    """How suspect each of these is."""
    line: int = 0
    """The one line that is meant, where it is one."""

    @property
    def place(self) -> str:
        """What people are told: `cart.py: Cart.total`, or the file alone."""
        if self.line:
            return f"{self.path}:{self.line}"
        return f"{self.path}: {self.function}" if self.function else self.path


def suspect_lines(suspects: Iterable[Suspect]) -> list[Suspect]:
    """The lines of functions, the most suspect first; of equals, those of the more suspect function."""
    found = [
        (score, replace(suspect, line=line))
        for suspect in suspects
        for line, score in zip(suspect.lines, suspect.scores, strict=True)
    ]
    return [line for _, line in sorted(found, key=lambda each: -each[0])]


def score_lines(failed: Sequence[Lines], passed: Sequence[Lines]) -> dict[tuple[str, int], float]:
    """How suspect each line is that a failing test ran."""
    ran: dict[tuple[str, int], list[int]] = {}
    for place, tests in enumerate((failed, passed)):
        for test in tests:
            for path, lines in test.items():
                for line in lines:
                    ran.setdefault((path, line), [0, 0])[place] += 1
    return {
        key: failing / sqrt(len(failed) * (failing + passing))
        for key, (failing, passing) in ran.items()
        if failing
    }


def rank_functions(
    sources: Mapping[str, str],
    scores: Mapping[tuple[str, int], float],
    trace: Iterable[tuple[str, int]] = (),
) -> tuple[Suspect, ...]:
    """The functions of Python sources, the most suspect first, those that nothing speaks against left out.

    `trace` holds the places that the trace of a failure names, outermost first.
    """
    traced = list(trace)
    found: list[tuple[float, int, Suspect]] = []
    for path, source in sources.items():
        telling = lines_with_logic(source)
        for function in find_functions(source):
            # The line of the `def` is run on import, by whichever test comes first; it may be all there is.
            inside = range(function.first + (function.last > function.first), function.last + 1)
            lines = {line: scores[path, line] for line in inside if (path, line) in scores}
            depth = max(
                (at for at, (file, line) in enumerate(traced) if file == path and line in inside), default=-1
            )
            if not lines and depth < 0:
                continue
            top = max(lines.values(), default=0.5)
            score = top + (TRACE_BONUS if depth >= 0 else 0.0)
            ordered = sorted((-value, line) for line, value in lines.items() if line in telling)
            suspect = Suspect(
                path,
                function.name,
                function.first,
                function.last,
                score,
                tuple(line for _, line in ordered),
                tuple(-value for value, _ in ordered),
            )
            found.append((score, depth, suspect))
    # Of equals, the one with more in it to get wrong comes first.
    found.sort(key=lambda each: (-each[0], -each[1], -len(each[2].lines)))
    return tuple(suspect for _, _, suspect in found)


# Measuring which lines each test runs.


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
class CoverageByTest:
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
    with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as temporary:
        folder = Path(os.path.realpath(temporary))
        variables = _prepare(folder, tree)
        path = os.pathsep.join(filter(None, [variables["PYTHONPATH"], environment.get("PYTHONPATH", "")]))
        measured = {**environment, **variables, "PYTHONPATH": path}
        library = [place.resolve() for place in (folder / "modules").iterdir()]
        inside = sandbox and sandbox.with_paths(read_only=library, writable=[folder])
        output: list[str] = []
        for step in steps:
            try:
                timeout = min(step.timeout, seconds)
                done = await run_command(
                    step.command,
                    cwd=cwd,
                    env=measured,
                    timeout=timeout,
                    max_output=_MAX_OUTPUT,
                    owner=owner,
                    sandbox=inside,
                )
            except CommandUnavailable:
                break
            output.append(done.output)
            seconds -= done.seconds
            if seconds <= 0:
                break
        return CoverageByTest(await asyncio.to_thread(_read, folder, tree), "\n".join(output))


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

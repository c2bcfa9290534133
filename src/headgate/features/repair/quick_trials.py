"""Many changes tried at the cost of one start of pytest, where the check is pytest's.

The project's command runs in one copy of the tree, with a plugin that tries one change after the other; see
`inside_pytest`. What it says to a change decides only whether an ordinary trial is worth its time.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from headgate.checks import Verifier
from headgate.core import VerifyStep
from headgate.first_use import dataclass
from headgate.process import CommandUnavailable, run_command
from headgate.regular_files import read_own
from headgate.run import Trials
from headgate.tree import FileChange

SECONDS = 2.0
"""After so long no further change is begun: others wait for the machine."""
_PLUGIN = "headgate_inside_pytest"
_MOST_OUTPUT = 10_000
_MOST_RESULT = 1_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one change."""

    passed: bool = False
    failing: frozenset[str] | None = None
    """Which tests fail; None if that is not known. If no test was fixed, those that failed before."""


Changes = tuple[FileChange, ...]


@dataclass(frozen=True)
class QuickTrials:
    """Tries changes to the tree of one task."""

    trials: Trials
    step: VerifyStep
    """The step that fails."""
    longest: float
    """How long the tests may take for one change, in seconds."""
    failing: frozenset[str] = frozenset()
    """The tests that fail without any change, by pytest's names for them."""
    seconds: float = SECONDS

    @classmethod
    async def begin(cls, trials: Trials, step: VerifyStep, longest: float) -> Self | None:
        """Tries the tree as it is; None if this does not work here, or nothing fails."""
        quick = cls(trials, step, longest)
        outcomes = await quick.run([()])
        if not outcomes or outcomes[0].passed or not outcomes[0].failing:
            return None
        return replace(quick, failing=outcomes[0].failing)

    async def run(self, changes: Sequence[Changes]) -> list[Outcome]:
        """What became of the first of these changes, of as many as there was time for."""
        seconds = self.seconds + 2 * self.longest + self.step.timeout
        async with self.trials.verifier() as (tree, verifier):
            with _prepared(tree, verifier, self, changes) as (folder, prepared):
                try:
                    await run_command(
                        self.step.command,
                        cwd=prepared.directory,
                        env=prepared.environment,
                        timeout=seconds,
                        max_output=_MOST_OUTPUT,
                        owner=prepared.owner,
                        sandbox=prepared.sandbox,
                    )
                except CommandUnavailable:
                    return []
                return await asyncio.to_thread(_read_outcomes, folder, len(changes))


@contextmanager
def _prepared(
    tree: Path, verifier: Verifier, quick: QuickTrials, changes: Sequence[Changes]
) -> Iterator[tuple[Path, Verifier]]:
    """The changes in a folder, and the verifier whose commands find it."""
    with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as temporary:
        folder = Path(os.path.realpath(temporary))
        top, modules = Path(os.path.realpath(tree)), folder / "modules"
        modules.mkdir()
        shutil.copyfile(Path(__file__).with_name("inside_pytest.py"), modules / f"{_PLUGIN}.py")
        laid: list[dict[str, str]] = []
        for number, each in enumerate(changes):
            files = {str(top / change.path): f"{number}-{place}" for place, change in enumerate(each)}
            for name, change in zip(files.values(), each, strict=True):
                (folder / name).write_bytes(change.after or b"")
            laid.append(files)
        work = {
            "tree": str(top),
            "changes": laid,
            "paths": sorted({path for files in laid for path in files}),
            "failing": sorted(quick.failing),
            "seconds": quick.seconds,
            "longest": quick.longest,
        }
        (folder / "work.json").write_text(json.dumps(work), encoding="utf-8")
        own = verifier.environment
        environment = {
            **own,
            "HEADGATE_CHANGES": str(folder),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(modules), own.get("PYTHONPATH", "")])),
            "PYTEST_PLUGINS": ",".join(filter(None, [_PLUGIN, own.get("PYTEST_PLUGINS", "")])),
        }
        sandbox = verifier.sandbox and verifier.sandbox.with_paths(writable=[folder])
        yield folder, replace(verifier, environment=environment, sandbox=sandbox)


def _read_outcomes(folder: Path, most: int) -> list[Outcome]:
    """What became of each change that was tried. The tests could have written all of it."""
    count = _read(folder / "count")
    if (folder / "unfit").exists() or not isinstance(count, int):
        return []
    return [_read_outcome(folder / f"{number}.json") for number in range(min(count, most))]


def _read_outcome(file: Path) -> Outcome:
    """What a child left; nothing is known of one that was killed or ended early."""
    match _read(file):
        case {"passed": bool(passed), "failed": list(failed)}:
            return Outcome(passed, frozenset(map(str, failed)))
        case _:
            return Outcome()


def _read(file: Path) -> Any:
    try:
        return json.loads(read_own(file, _MOST_RESULT))
    except (OSError, ValueError, RecursionError):
        return None

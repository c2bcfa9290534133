"""Trying a change out: the project's own check, run in a copy of the tree that has it."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.checks import Verification, Verifier, unless_cut_short
from headgate.core import Pass, VerifyStep
from headgate.process import uninterrupted
from headgate.protect import Restored, protected_while
from headgate.run.job import Job
from headgate.workspace import FileChange, tree_copy

PATIENCE = 5.0
"""A trial may take so many times as long as the check took at first: what takes longer does not end."""
LEAST_SECONDS = 10.0


@dataclass(frozen=True)
class Trials:
    """Copies of one task's tree, and the check in them."""

    job: Job

    @cached_property
    def root(self) -> Path:
        return Path(os.path.realpath(self.job.context.workspace.root))

    @asynccontextmanager
    async def verifier(
        self, changes: Sequence[FileChange] = (), *, protect: bool = True
    ) -> AsyncIterator[tuple[Path, Verifier]]:
        """A copy with these changes, and the verifier that runs in it; its logs go where others do.

        Without `protect`, somebody else already watches the protected files. CopyImpossible if there can be
        no such copy.
        """
        job, own = self.job, self.job.verifier
        assert own is not None
        ignored = await asyncio.to_thread(lambda: job.ignored)
        restored: list[Restored] = []
        copy = tree_copy(self.root, ignored, changes)
        tree = await uninterrupted(asyncio.to_thread(copy.__enter__))
        try:
            inside = tree / Path(os.path.realpath(own.directory)).relative_to(self.root)
            # An installed package may lead to the tree itself; what is on Python's path comes before that.
            folders = dict.fromkeys([inside, inside / "src", tree, tree / "src"])
            places = [*map(str, folders), own.environment.get("PYTHONPATH", "")]
            environment = {
                **own.environment,
                "PYTHONPATH": os.pathsep.join(filter(None, places)),
                # Two answers of one length, tried within a second, look the same to Python's cache.
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            async with protected_while(job.context.protected if protect else None, restored):
                yield tree, replace(own, directory=inside, environment=environment, owner=self.root)
        finally:
            await uninterrupted(asyncio.to_thread(copy.__exit__, None, None, None))

    async def verify(self, changes: Sequence[FileChange]) -> Verification:
        """What the check says to these changes. Nothing of the run is kept."""
        with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as runs:
            async with self.verifier(changes) as (_, verifier):
                steps = tuple(map(self._impatient, verifier.steps))
                found = await replace(verifier, runs=Path(runs), steps=steps).run("trial")
            if isinstance(found.verdict, Pass):
                return await asyncio.to_thread(unless_cut_short, found, Path(runs) / "trial")
            return found

    def _impatient(self, step: VerifyStep) -> VerifyStep:
        opening = self.job.state.answers.opening
        took = sum(ran.seconds for ran in opening.steps if ran.name == step.name) if opening else 0.0
        return step.model_copy(update={"timeout": min(step.timeout, max(LEAST_SECONDS, PATIENCE * took))})

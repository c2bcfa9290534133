"""Trying a change out: the project's own check, run in a copy of the tree that has it."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.checks.verify import Verification, Verifier
from headgate.host.copies import tree_copy
from headgate.host.ignored import IgnoredPaths
from headgate.host.overlay import OverlayWorkspace
from headgate.host.protect import Restored
from headgate.host.protecting import protected_while
from headgate.host.workspace import FileChange
from headgate.run.job import Job


@dataclass
class Trials:
    """Copies of one task's tree. What runs there can neither be seen in the tree nor leave anything in it."""

    job: Job
    _ignored: IgnoredPaths | None = field(default=None, init=False)

    @cached_property
    def root(self) -> Path:
        return Path(os.path.realpath(self.job.context.workspace.root))

    @asynccontextmanager
    async def verifier(self, changes: Sequence[FileChange] = ()) -> AsyncIterator[tuple[Path, Verifier]]:
        """A copy with these changes, and the verifier that runs in it; its logs go where others do."""
        own = self.job.verifier
        assert own is not None
        if self._ignored is None:
            self._ignored = IgnoredPaths(self.root)
        workspace = self.job.context.workspace
        proposed = workspace.changes() if isinstance(workspace, OverlayWorkspace) else ()
        restored: list[Restored] = []
        with tree_copy(self.root, self._ignored, (*proposed, *changes)) as tree:
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
            async with protected_while(self.job.context.protected, restored):
                yield tree, replace(own, directory=inside, environment=environment)

    async def verify(self, changes: Sequence[FileChange]) -> Verification:
        """What the check says to these changes. Nothing of the run is kept."""
        with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as runs:
            async with self.verifier(changes) as (_, verifier):
                return await replace(verifier, runs=Path(runs)).run("trial")

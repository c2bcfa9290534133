"""What verification steps themselves change, such as formatters and code generators: that is the task's.

A person may edit the same tree while a step runs. So a change counts as the step's only if the step makes it
again, in a copy of the tree as it was before the step.
"""

from collections import Counter
from dataclasses import dataclass, field

from headgate.checks import StepRun
from headgate.core import EditsNoticed
from headgate.run.job import Job, Window
from headgate.run.trials import MOST_SECONDS, Trials, replace_timeout
from headgate.tree import CopyImpossible

_MEMORY = "steps that do not repeat their changes"
_MOST_IN_VAIN = 2
"""How often a step is run again for a file that it then does not write in the same way."""


@dataclass
class StepChanges:
    """Looks at the tree after each step of one run."""

    job: Job
    tree: str
    """The git tree as it was last looked at."""
    known: str = ""
    """The git tree that the run left, if steps changed it."""
    _found: list[tuple[StepRun, Window]] = field(default_factory=list)

    async def look(self, ran: StepRun) -> None:
        """A step has ended."""
        before, self.tree = self.tree, await self.job.tree.mark()
        if before != self.tree:
            self._found.append((ran, await self.job.tree.window(before, self.tree)))

    async def settle(self) -> list[EditsNoticed]:
        """Finds out what of it the steps did; returns what others did."""
        edits = []
        for ran, window in self._found:
            made = await self._made_by(ran, window)
            if noticed := await self.job.tree.note_step(window, made):
                edits.append(noticed)
        if self._found:
            self.known = await self.job.tree.known()
        return edits

    async def _made_by(self, ran: StepRun, window: Window) -> frozenset[str]:
        """The files that the step changes in the same way when it runs again."""
        in_vain: Counter[tuple[str, str]] = self.job.memory.setdefault(_MEMORY, Counter())
        asked = {(ran.step.command, path) for path in window.files}
        is_worth_it = any(in_vain[one] < _MOST_IN_VAIN for one in asked)
        if not is_worth_it or ran.result.seconds > MOST_SECONDS:
            return frozenset()
        changes = await self.job.tree.way_back(window.before)
        if changes is None:
            return frozenset()
        try:
            step = replace_timeout(ran.step, ran.result.seconds)
            async with Trials(self.job, step.timeout, quiet=True).after_step(step, changes) as copy:
                made = await self.job.tree.remade(window, copy)
        except (CopyImpossible, OSError):
            return frozenset()
        in_vain.update((command, path) for command, path in asked if path not in made)
        return made

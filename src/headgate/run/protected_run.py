"""A run of the verification steps in which no step can change what the next one goes by."""

import asyncio
import os
from collections.abc import Collection, Iterable
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from headgate.checks import AfterStep, StepRun, Verification, Verifier, stop
from headgate.core import Fail, Pass, VerifyStep
from headgate.first_use import dataclass
from headgate.guard import (
    REASON,
    InstalledPackages,
    Protected,
    Restored,
    preparing_steps,
    protect_between,
    protected_while,
)
from headgate.process import MOST_MOUNTS, Sandbox
from headgate.tools import ToolContext


@dataclass
class ProtectedRun:
    """Protected files are checked after each step."""

    verifier: Verifier
    context: ToolContext
    restored: list[Restored] = field(default_factory=list)

    async def run(self, run_id: str, after_step: AfterStep = stop) -> Verification:
        """Runs the steps. What came of it has still to be judged."""
        protected, installed = self.context.protected, self.context.installed
        preparing = await asyncio.to_thread(self._preparing)
        steps_left = list(self.verifier.steps)

        async def settle(ran: StepRun) -> Literal["stop", "go_on", "forgive"]:
            is_prepared = steps_left.pop(0).command in preparing
            # First of all: it opens folders that the step has locked.
            await protect_between(protected, self.restored, prepared=is_prepared, more=bool(steps_left))
            return await after_step(ran)

        async with protected_while(protected, self.restored):
            return await _narrowed(self.verifier, protected, installed, preparing).run(run_id, settle)

    def judge(self, found: Verification) -> Verification:
        """A run does not count if a step, or code that it ran, changed what a later step went by.

        That holds even if it was put back after the step, or by a later one. Data beside the tests is another
        matter, since tests may well write it; but not if it cannot be put back.
        """
        if not isinstance(found.verdict, Pass):
            return found
        tampered = dict.fromkeys(
            one.path for one in self.restored if one.decides or (one.reason == REASON and one.problem)
        )
        if not tampered:
            return found
        reason = f"tests, or what decides how they run, were changed during the run: {list_some(tampered)}"
        return replace(found, verdict=Fail("verify", reason))

    def _preparing(self) -> frozenset[str]:
        """The commands of steps that install packages or configure a build."""
        root = Path(os.path.realpath(self.context.workspace.root))
        directory = os.path.relpath(os.path.realpath(self.verifier.directory), root)
        commands = [step.command for step in self.verifier.steps]
        return preparing_steps(commands, "" if directory == os.curdir else directory, root)


def list_some(paths: Iterable[str]) -> str:
    """The first of many paths, for a message."""
    return ", ".join([*paths][:5])


def _narrowed(
    verifier: Verifier,
    protected: Protected | None,
    installed: InstalledPackages | None,
    preparing: Collection[str],
) -> Verifier:
    """The verifier, in whose sandbox protected tests and what decides how they run cannot be changed.

    Data beside tests can be. Installed packages can be changed by steps that install.
    """
    if verifier.sandbox is None or protected is None:
        return verifier
    kept = protected.paths(deciding=True)[:MOST_MOUNTS]
    if installed is None:
        return replace(verifier, sandbox=verifier.sandbox.with_paths(read_only=kept))
    inside = [path for path in kept if installed.holds(path)]
    packages, caches = installed.folders(), installed.caches()

    def narrow(step: VerifyStep, sandbox: Sandbox) -> Sandbox:
        if step.command in preparing:
            return sandbox
        return sandbox.with_paths(read_only=[*inside, *packages], writable=caches)

    sandbox = verifier.sandbox.with_paths(read_only=[path for path in kept if path not in inside])
    return replace(verifier, sandbox=sandbox, narrow=narrow)

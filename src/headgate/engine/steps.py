"""The verification steps on a tree as it is: without a task, or after a task's changes were applied to it."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from headgate.checks import COMBINED, Missing, StepRun, new_run_id
from headgate.config import Config
from headgate.core import Broken, Pass, StepResult, VerifyStep, say_failed
from headgate.engine.assembly import build_verifier, command_environment, find_sandbox
from headgate.engine.resolved import resolve_package
from headgate.errors import HeadgateError
from headgate.first_use import dataclass
from headgate.log import Bus, Folder
from headgate.process import NoSandbox
from headgate.reading import describe


@dataclass
class StepsOutcome:
    """What came of the steps."""

    run_id: str
    log: str
    """Where the output of all steps is, from the repository's root."""
    steps: int
    """How many there are."""
    ran: list[StepRun] = field(default_factory=list)
    broken: str = ""
    """Why the steps could not be run to their end, if so."""

    @property
    def failed(self) -> list[StepRun]:
        """The steps that did not pass."""
        return [ran for ran in self.ran if not isinstance(ran.verdict, Pass)]

    @property
    def passed(self) -> bool:
        return not self.failed and not self.broken

    @property
    def results(self) -> tuple[StepResult, ...]:
        return tuple(ran.result for ran in self.ran)

    @property
    def reason(self) -> str:
        """Why they did not pass, for people; empty if they did."""
        return self.broken or "; ".join(map(_say_failed, self.failed))

    def sentence(self) -> str:
        """What people are told at the end."""
        if self.broken:
            is_word = self.broken.partition(" ")[0].isalpha()  # and not the name of a file
            return f"{self.broken[:1].upper() if is_word else self.broken[:1]}{self.broken[1:].rstrip('.')}."
        if self.failed:
            return f"{len(self.failed)} of {self.steps} step{'s' * (self.steps != 1)} failed."
        return "All steps passed." if self.steps > 1 else "The step passed."


def _say_failed(ran: StepRun) -> str:
    reason = "" if isinstance(ran.verdict, Pass) else ran.verdict.reason
    late = f"; {reason}" if ran.result.timed_out else ""
    return say_failed([describe(failure) for failure in ran.failures], reason, late)


async def missing_of_steps(repo: Path, config: Config, environ: Mapping[str, str]) -> list[Missing]:
    """What the steps name that is not there; nothing of the repository is run.

    HeadgateError if that cannot be looked at.
    """
    sandbox = find_sandbox(config, environ)
    bubblewrap = None if isinstance(sandbox, NoSandbox) else sandbox
    verifier = build_verifier(Folder(repo), resolve_package(repo, config), Bus(), bubblewrap)
    if verifier is None:
        return []
    return await replace(verifier, environment=command_environment(config, environ)).missing()


async def run_steps(
    folder: Folder,
    config: Config,
    begin: Callable[[VerifyStep], None] = lambda step: None,
    end: Callable[[StepRun], None] = lambda ran: None,
) -> StepsOutcome:
    """Runs every step in the user's own tree, also after one that fails.

    HeadgateError if they cannot be begun. Nobody else may work in the repository meanwhile.
    """
    folder.create()
    sandbox = find_sandbox(config, os.environ)
    bubblewrap = None if isinstance(sandbox, NoSandbox) else sandbox
    verifier = build_verifier(folder, resolve_package(folder.repo, config), Bus(), bubblewrap)
    if verifier is None:
        raise HeadgateError("No verification steps are configured.")
    steps = list(verifier.steps)
    run_id = new_run_id(time.time())
    found = StepsOutcome(run_id, f".headgate/runs/{run_id}/{COMBINED}", len(steps))

    async def hear(ran: StepRun) -> Literal["stop", "go_on"]:
        found.ran.append(ran)
        end(ran)
        if isinstance(ran.verdict, Broken):
            return "stop"
        if len(found.ran) < len(steps):
            begin(steps[len(found.ran)])
        return "go_on"

    begin(steps[0])
    verdict = (await verifier.run(run_id, hear)).verdict
    found.broken = verdict.reason if isinstance(verdict, Broken) else ""
    if broken := [ran.verdict.reason for ran in found.ran if isinstance(ran.verdict, Broken)]:
        found.broken = broken[0]
    return found

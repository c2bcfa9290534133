"""Running the verification steps without a task: for `headgate verify` and `headgate doctor --checks`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headgate.checks import COMBINED, StepRun, new_run_id
from headgate.cli.doctor.setup_checks import advise_steps
from headgate.config import Config
from headgate.core import Broken, Pass, VerifyStep
from headgate.engine import build_verifier, resolve_package
from headgate.errors import ConfigError
from headgate.process import FileLock
from headgate.store import Bus, Folder

NO_STEPS = "No verification steps are configured: {advice}."


@dataclass
class StepsOutcome:
    """What came of the steps on the tree as it is."""

    run_id: str
    log: str
    """Where the output of all steps is, from the repository's root."""
    ran: list[StepRun] = field(default_factory=list)
    broken: str = ""
    """Why the steps could not be run to their end, if so."""

    @property
    def failed(self) -> list[StepRun]:
        """The steps that did not pass."""
        return [ran for ran in self.ran if not isinstance(ran.verdict, Pass)]


def check_idle(repo: Path) -> None:
    """ConfigError while a task is at work here: both would see each other's half-made files."""
    lock = FileLock(Folder(repo).lock)
    if lock.is_held():
        raise ConfigError(
            f"Process {lock.holder() or '?'} is running a task in this repository: "
            "wait until it has ended (headgate watch), or cancel it."
        )


async def run_steps(
    repo: Path,
    config: Config,
    begin: Callable[[VerifyStep], None] = lambda step: None,
    end: Callable[[StepRun], None] = lambda ran: None,
) -> StepsOutcome:
    """Runs every step, also after one that fails; ConfigError if there are none, or while a task runs."""
    if not config.verification.steps:
        raise ConfigError(NO_STEPS.format(advice=advise_steps(repo)))
    check_idle(repo)
    folder = Folder(repo)
    folder.create()
    verifier = build_verifier(folder, resolve_package(repo, config), Bus())
    assert verifier is not None
    steps = list(verifier.steps)
    run_id = new_run_id(time.time())
    found = StepsOutcome(run_id, f".headgate/runs/{run_id}/{COMBINED}")

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


def say_result(ran: StepRun) -> str:
    """`passed in 1.2 s`, or how it failed."""
    result = ran.result
    if isinstance(ran.verdict, Pass):
        return f"passed in {result.seconds:.1f} s"
    if isinstance(ran.verdict, Broken):
        return "could not be run"
    if result.timed_out:
        return f"failed: it took longer than {ran.step.timeout:g} s"
    if result.exit_code == 0:
        return "failed: it ran no tests"
    return f"failed with exit code {result.exit_code} in {result.seconds:.1f} s"

"""The verification steps without a task: for `headgate verify`, and for `headgate doctor --checks`."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import click
import orjson

from headgate.checks import COMBINED, StepRun, new_run_id
from headgate.cli.live import printable, say
from headgate.cli.setup_checks import advise_steps
from headgate.cli.shared import (
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    EXIT_SUCCESS,
    config_option,
    find_repo,
    repo_option,
)
from headgate.config import Config, load_config
from headgate.core import Broken, Pass, VerifyStep
from headgate.engine import build_verifier, find_sandbox, resolve_package
from headgate.errors import ConfigError
from headgate.process import NoSandbox
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
    lock = Folder(repo).work_lock()
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
    sandbox = find_sandbox(config, os.environ)
    bubblewrap = None if isinstance(sandbox, NoSandbox) else sandbox
    verifier = build_verifier(folder, resolve_package(repo, config), Bus(), bubblewrap)
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


TAIL_LINES = 20


@click.command("verify")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@repo_option
@config_option
def command(as_json: bool, repo: Path | None, config: Path | None) -> None:
    """Run the verification steps on the current working tree, without a task or a model.

    Every step runs, even after one fails. The logs are kept in .headgate/runs, like those of a task. The exit
    code is 0 if all steps pass, 1 if one fails, 2 if there are no steps or a task is running, and 3 if a step
    cannot be run.
    """
    root = find_repo(repo)
    loaded = load_config(root, config_file=config, environ=os.environ, flags={})
    if not as_json:
        sys.exit(check_tree(root, loaded.config))
    found = asyncio.run(run_steps(root, loaded.config))
    say(orjson.dumps(_as_json(found), option=orjson.OPT_INDENT_2).decode())
    sys.exit(_exit_code(found))


def check_tree(root: Path, config: Config) -> int:
    """Runs the steps on the tree as it is and shows what comes of them; returns the exit code."""
    found = asyncio.run(run_steps(root, config, _say_step, _say_run))
    _conclude(found, len(config.verification.steps))
    return _exit_code(found)


def _exit_code(found: StepsOutcome) -> int:
    return EXIT_ENVIRONMENT if found.broken else EXIT_FAILED if found.failed else EXIT_SUCCESS


def _say_step(step: VerifyStep) -> None:
    if sys.stderr.isatty():
        click.echo(f"Running {step.name}: {printable(step.command)}", err=True)


def _say_run(ran: StepRun) -> None:
    say(f"{ran.step.name}: {say_result(ran)}  ({printable(ran.step.command)})", hanging=2)
    for line in ran.tail.splitlines()[-TAIL_LINES:]:
        say(f"  | {printable(line)}", hanging=4)


def _conclude(found: StepsOutcome, steps: int) -> None:
    if found.broken:
        say(f"{found.broken[:1].upper()}{found.broken[1:]}.")
    elif found.failed:
        say(f"{len(found.failed)} of {steps} step{'s' * (steps != 1)} failed.")
    else:
        say("All steps passed." if steps > 1 else "The step passed.")
    say(f"Log: {found.log}")


def _as_json(found: StepsOutcome) -> dict[str, object]:
    return {
        "run_id": found.run_id,
        "passed": not found.failed and not found.broken,
        "broken": found.broken,
        "log": found.log,
        "steps": [
            {
                **ran.result.model_dump(),
                "command": ran.step.command,
                "tail": "\n".join(ran.tail.splitlines()[-TAIL_LINES:]),
            }
            for ran in found.ran
        ],
    }

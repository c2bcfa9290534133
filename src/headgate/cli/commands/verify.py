"""The verification steps without a task: for `headgate verify`, and for `headgate doctor --checks`."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from headgate.checks import StepRun
from headgate.cli.printing import printable, say, say_json, tell
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
from headgate.engine import StepsOutcome, run_steps
from headgate.errors import ConfigError
from headgate.log import Folder

NO_STEPS = "No verification steps are configured: {advice}."


def check_idle(repo: Path) -> None:
    """ConfigError while a task is at work here: both would see each other's half-made files."""
    lock = Folder(repo).work_lock()
    if lock.is_held():
        raise ConfigError(
            f"Process {lock.holder() or '?'} is running a task in this repository: "
            "wait until it has ended (headgate watch), or cancel it."
        )


async def verify_tree(
    repo: Path,
    config: Config,
    begin: Callable[[VerifyStep], None] = lambda step: None,
    end: Callable[[StepRun], None] = lambda ran: None,
) -> StepsOutcome:
    """Runs every step, also after one that fails; ConfigError if there are none, or while a task runs."""
    if not config.verification.steps:
        raise ConfigError(NO_STEPS.format(advice=advise_steps(repo)))
    check_idle(repo)
    return await run_steps(Folder(repo), config, begin, end)


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
    found = asyncio.run(verify_tree(root, loaded.config))
    say_json(_as_json(found))
    sys.exit(steps_exit_code(found))


def check_tree(root: Path, config: Config) -> int:
    """Runs the steps on the tree as it is and shows what comes of them; returns the exit code."""
    found = asyncio.run(verify_tree(root, config, say_step, say_run))
    conclude(found)
    return steps_exit_code(found)


def steps_exit_code(found: StepsOutcome) -> int:
    """The exit code of steps that were run."""
    return EXIT_ENVIRONMENT if found.broken else EXIT_FAILED if found.failed else EXIT_SUCCESS


def say_step(step: VerifyStep) -> None:
    """Says which step begins, to somebody who watches."""
    if sys.stderr.isatty():
        tell(f"Running {step.name}: {printable(step.command)}")


def say_run(ran: StepRun) -> None:
    """Says what came of a step."""
    say(f"{ran.step.name}: {say_result(ran)}  ({printable(ran.step.command)})", hanging=2)
    for line in ran.tail.splitlines()[-TAIL_LINES:]:
        say(f"  | {printable(line)}", hanging=4)


def conclude(found: StepsOutcome) -> None:
    """Says what came of the steps, at the end."""
    say(found.sentence())
    if found.log:
        say(f"Log: {found.log}")


def _as_json(found: StepsOutcome) -> dict[str, object]:
    return {
        "run_id": found.run_id,
        "passed": found.passed,
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

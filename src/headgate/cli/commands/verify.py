"""`headgate verify`: the verification steps, now, on the tree as it is."""

import asyncio
import os
import sys
from pathlib import Path

import click
import orjson

from headgate.checks import StepRun
from headgate.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_SUCCESS
from headgate.cli.options import config_option, find_repo, repo_option
from headgate.cli.show.live import printable, say
from headgate.cli.step_runs import StepsOutcome, run_steps, say_result
from headgate.config import load_config
from headgate.core import VerifyStep

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
    show = StepLines() if not as_json else None
    begin, end = (show.begin, show.end) if show else (lambda step: None, lambda ran: None)
    found = asyncio.run(run_steps(root, loaded.config, begin, end))
    if as_json:
        say(orjson.dumps(_as_json(found), option=orjson.OPT_INDENT_2).decode())
    else:
        _conclude(found, len(loaded.config.verification.steps))
    sys.exit(EXIT_ENVIRONMENT if found.broken else EXIT_FAILED if found.failed else EXIT_SUCCESS)


class StepLines:
    """Says on a terminal which step runs, and then for each what came of it."""

    def begin(self, step: VerifyStep) -> None:
        if sys.stderr.isatty():
            click.echo(f"Running {step.name}: {printable(step.command)}", err=True)

    def end(self, ran: StepRun) -> None:
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

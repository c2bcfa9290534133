"""`headgate demo`: the real engine on a small repository, with a scripted model that makes real mistakes."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import click

from headgate.cli.endings import print_ending
from headgate.cli.follow import run_shown
from headgate.cli.live import Progress
from headgate.cli.local_server import LocalServer, find_model, local_server
from headgate.cli.printing import print_diff, say
from headgate.cli.shared import EXIT_CODES
from headgate.config import load_config
from headgate.core import Constraints, Limits, Model, Options, times
from headgate.engine import Engine
from headgate.errors import ConfigError
from headgate.log import Bus, Report
from headgate.models import ScriptedModel
from headgate.models.network import open_model

TASK = "Fix the failing test of basket.total.\n\nConstraints:\n- Do not change the tests"
INTRODUCTION = (
    "The real engine works on a small repository with a failing test. The model is a script that makes"
    " typical mistakes: it writes too early, and it says that it is done when it is not."
)
LOCAL_INTRODUCTION = (
    "The real engine works on a small repository with a failing test. The model is real: SmolLM2 with 135"
    " million parameters, on one processor of this machine. A model of this size will not fix the test. The"
    " demo shows how Headgate controls it: the model has only the tools of its current stage, its claims are"
    " checked, it is stopped when it loops, and the report is true. If the task has not ended after three"
    " minutes, Headgate ends it."
)
FLOW = "staged"
"""Whatever a user's own settings say: the script was written for it, and it has the most to show."""
LOCAL_SAMPLING = {
    "temperature": 0,
    "max_tokens": 96,
    "extra_body": {"frequency_penalty": 0.5},
}
"""As much as one call needs, and a reason to end it: a model of this size fills a string with one word."""
LOCAL_LIMITS = Limits(seconds=180)


@click.command("demo")
@click.option("--into", type=click.Path(path_type=Path), metavar="DIR", help="Create the repository in DIR.")
@click.option("--local", is_flag=True, help="Use a real, tiny model on this machine instead of a script.")
def command(into: Path | None, local: bool) -> None:
    """Watch a task run in a throwaway repository, without a model of your own.

    The exit code is the task's own. With --local it is most likely 1: the task is stuck.
    """
    if into is not None and into.exists():
        raise ConfigError(f"{into} already exists: name a new folder.")
    if local:
        find_model()
    target = into.resolve() if into else Path(tempfile.mkdtemp(prefix="headgate-demo-")) / "basket"
    say(LOCAL_INTRODUCTION if local else INTRODUCTION, hanging=0)
    say()
    say(f"$ cd {target}")
    flow = f" --flow {FLOW}" if local else ""
    say(f"$ headgate run '{TASK.splitlines()[0]}' --keep 'Do not change the tests'{flow}\n", hanging=4)
    sys.stdout.flush()
    with ExitStack() as stack:
        sample = stack.enter_context(as_file(files("headgate.cli").joinpath("sample")))
        server = stack.enter_context(local_server()) if local else None
        _make_repository(sample / "repo", target)
        report = asyncio.run(_run(target, sample / "script.yaml", server))
    print_ending(report)
    if local:
        say()
        for line in describe_control(report):
            say(line, hanging=2)
    if report.files_changed:
        say(f"\n$ headgate diff {report.task_id}")
        print_diff(subprocess.check_output(["git", "-C", str(target), "diff", "--no-color"]))
    program = "headgate" if shutil.which("headgate") else str(Path(sys.argv[0]).absolute())
    say(f"\nThe repository is in {target}: try git diff there, or {program} show --detail.", hanging=2)
    sys.exit(EXIT_CODES[report.state])


def describe_control(report: Report) -> Iterator[str]:
    """What a model tried, what became of it, and how that shows to a shell."""
    yield "How Headgate controlled the model:"
    yield (
        f"- Tool calls in {report.requests} replies: {report.tool_calls_total}. Refused or failed, each with "
        f"a reason: {report.tool_errors_total}."
    )
    counted = {
        "It said that a stage was done when it was not": report.feedback_counts.get("not_done", 0),
        "It repeated a call that had returned nothing new": report.feedback_counts.get("repeated", 0),
        "Its reply did not end and was cut off": report.feedback_counts.get("cut_off", 0),
        "It had to conclude, with no other tool left": len(report.final_turns),
    }
    for words, count in counted.items():
        if count:
            yield f"- {words}: {times(count)}."
    if report.verified:
        yield "Against all odds, the test passes now. Headgate ran it."
    else:
        yield (
            "The task is not done, and Headgate does not claim that it is: "
            f"the state is {report.state}, and the exit code {EXIT_CODES[report.state]}."
        )


def _make_repository(source: Path, target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, target, ignore=ignored)
    (target / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    who = ("-c", "user.name=Headgate", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
    for args in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "A basket with a bug")):
        subprocess.run(["git", "-C", str(target), *args], check=True, stdin=subprocess.DEVNULL)


async def _run(repo: Path, script: Path, server: LocalServer | None) -> Report:
    bus = Bus()
    progress = Progress(bus)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    loaded = load_config(repo, environ=environ, flags={})
    if server is not None:
        loaded = replace(loaded, config=loaded.config.model_copy(update={"limits": LOCAL_LIMITS}))
    async with AsyncExitStack() as stack:
        model: Model
        if server is None:
            model = ScriptedModel.load(script)
        else:
            settings = server.settings(tool_transport="schema", **LOCAL_SAMPLING)
            model = await stack.enter_async_context(open_model(settings))
        engine = Engine.open(repo, loaded, bus, {None: model})
        stack.callback(engine.store.close)
        task = engine.submit(TASK, Constraints(), Options(flow=FLOW))
        with progress:
            report, _ = await run_shown(engine, task, progress)
            return report

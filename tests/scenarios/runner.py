"""Runs a scenario folder: a whole task, from its text to the tree and the report it leaves.

task.txt          what the person typed
agent.yaml        the configuration (optional)
flags.yaml        what else was given; see Flags (optional)
repo/             the repository's files (optional)
setup.sh          makes what files cannot hold: odd names, symlinks, secrets (optional)
no_commits        an empty file: nothing is committed (optional)
after.sh          run after the first commit (optional)
script.yaml       what the model answers, and what it must have been shown
expected/
  outcome.yaml    what must hold afterwards; see Outcome
  tree/           files that must be there, byte for byte
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from headgate.cli.commands.settle import apply_exit_code
from headgate.cli.shared import EXIT_CODES
from headgate.config import Loaded, ScoutSettings, load_config
from headgate.core import Constraints, Event, Options, Price, fold
from headgate.engine import Engine, Overlap
from headgate.errors import ConfigError
from headgate.log import Report, build_report
from headgate.models import ScriptedModel

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where there is one


class Flags(BaseModel):
    """What a person gives besides the text: options, and the environment."""

    model_config = ConfigDict(extra="forbid")

    keep: tuple[str, ...] = ()
    non_goal: tuple[str, ...] = ()
    boundary: tuple[str, ...] = ()
    flow: str | None = None
    environ: dict[str, str] = {}
    """Variables in Headgate's own environment."""
    dry_run: bool = False
    worktree: bool = False
    commit: bool = False
    cancel_at: str | None = None
    """The task is cancelled at the first event that matches; written as in `events` of outcome.yaml."""
    price: Price = Price()
    """What the scripted model costs."""
    conclude_at: str | None = None
    """The task is asked to conclude at the first event that matches."""
    say: dict[str, str | list[str]] = {}
    """What a person says at the first event that matches, one line or several; `submitted`: while the task
    is in the queue."""
    then: list[str] = []
    """What is done after the task, one after the other: `apply`, `abort`, `resume WORDS` (the
    latest task; the words are optional), `follow TEXT` (a follow-up of it; `follow_latest`: of the one
    that was submitted last), `submit TEXT` (queue another task, do not run it), `cancel` (that
    one), `run TEXT` (another task), `merge` (its worktree into the tree), `undo`, `sh COMMAND` (in the
    repository). What is expected holds after the last of them."""


class Outcome(BaseModel):
    """What a scenario asserts. Absent keys assert nothing, but `exit` and `script` always do."""

    model_config = ConfigDict(extra="forbid")

    exit: int
    error: str | None = None
    """A part of the sentence that a configuration error must have."""
    script: str | None = None
    """A part of what is wrong with the script itself; absent: it must fit, to its last entry."""
    report: dict[str, Any] = {}
    """Fields of the report that must be equal."""
    summary: list[str] = []
    """Parts of the summary."""
    unsaid: list[str] = []
    """What must not be in the summary."""
    first_line: str | None = None
    """The beginning of the summary."""
    events: list[str] = []
    """Events that must occur in this order, others between: `kind`, or `kind field=value field=value`."""
    no_events: list[str] = []
    """Events that must not occur."""
    present: list[str] = []
    """Globs, each of which something in the repository must match."""
    absent: list[str] = []
    """Paths that must not exist."""
    waits: list[float] | None = None
    """The seconds that the runtime waited, each time."""
    requests: int | None = None
    """How often the model was asked."""
    runs: int | None = None
    """How many verification runs the report names; each has an id, a manifest and a log of its own."""
    told: dict[str, int] = {}
    """How often a text occurs in the messages of the last request."""
    diff: list[str] | None = None
    """Parts of what `headgate diff` prints; a proposal must moreover pass `git apply --check`."""
    tasks: list[str] | None = None
    """The states of all tasks in the store, oldest first."""
    sandboxed: bool = False
    """It is about the sandbox: without a bubblewrap that works, it is skipped."""
    proves: list[str] = []
    """Keys of agent.yaml whose effect this scenario shows; docs/configuration.md names it there."""


@dataclass
class Run:
    """What came of a scenario."""

    repo: Path
    exit: int
    error: str
    report: Report | None
    events: list[Event]
    waits: list[float]
    model: ScriptedModel
    diff: bytes = b""
    tasks: tuple[str, ...] = ()


def run_scenario(folder: Path, place: Path) -> Run:
    repo = make_repo(folder, place / "repo")
    flags = Flags.model_validate(_read_yaml(folder / "flags.yaml"))
    model = ScriptedModel.load(folder / "script.yaml")
    constraints = Constraints(keep=flags.keep, non_goals=flags.non_goal, boundaries=flags.boundary)
    events: list[Event] = []
    waits: list[float] = []

    async def no_sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run(engine: Engine) -> Report:
        text = (folder / "task.txt").read_text(encoding="utf-8")
        options = Options(dry_run=flags.dry_run, worktree=flags.worktree, commit=flags.commit)
        task = engine.submit(text, constraints, options)
        speaker = Speaker(engine, flags.say)
        speaker.say("submitted", task.id)
        engine.bus.on_event.append(speaker.hear)
        if flags.cancel_at:
            engine.bus.on_event.append(lambda event: _cancel_at(engine, event, flags.cancel_at or ""))
        if flags.conclude_at:
            engine.bus.on_event.append(lambda event: _conclude_at(engine, event, flags.conclude_at or ""))
        report = await engine.run(task)
        for step in flags.then:
            report = await _go_on(engine, report, step)
        return report

    given = {"flow": flags.flow}
    engine: Engine | None = None
    try:
        with environment(flags.environ):
            loaded = load_config(repo, environ={}, flags=given, user_file=folder / "user.yaml")
            loaded = _without_scouts(loaded)
            model.price = flags.price
            engine = Engine.open(repo, loaded, models={None: model})
            engine.bus.on_event.append(events.append)
            engine.sleep = no_sleep
            report = asyncio.run(run(engine))
            has_diff = any(event.kind in ("task_ended", "proposal_made") for event in events)
            diff = engine.diff(report.task_id) if has_diff and report.reason != "aborted" else b""
            tasks = tuple(row.state for row in engine.store.tasks())
    except ConfigError as error:
        return Run(repo, 2, str(error), None, events, waits, model)
    finally:
        if engine:
            engine.store.close()
    exit_code = apply_exit_code(report) if "apply" in flags.then else EXIT_CODES[report.state]
    return Run(repo, exit_code, "", report, events, waits, model, diff, tasks)


def _without_scouts(loaded: Loaded) -> Loaded:
    """Most scenarios are about something else: those about scouts say so in their agent.yaml."""
    if "scouts" in loaded.config.model_fields_set:
        return loaded
    silent = loaded.config.model_copy(update={"scouts": ScoutSettings(code="off", build="off")})
    return replace(loaded, config=silent)


async def _go_on(engine: Engine, report: Report, step: str) -> Report:
    action, _, rest = step.partition(" ")
    match action:
        case "apply":
            after = len(engine.store.events())
            return await engine.run(await engine.apply(report.task_id), after=after)
        case "abort":
            task = await engine.abort(report.task_id)
            return build_report(fold(engine.store.events(task.id)))
        case "merge" | "undo":
            outcome = await (engine.merge if action == "merge" else engine.undo)(report.task_id)
            assert not isinstance(outcome, Overlap), outcome
            return build_report(fold(engine.store.events(report.task_id)))
        case "resume":
            return await engine.run(engine.retry(report.task_id, Constraints(), Options(), rest))
        case "follow" | "follow_latest":
            latest = engine.store.latest()
            assert latest is not None
            options = Options(follows=report.task_id if action == "follow" else latest.task.id)
            return await engine.run(engine.submit(rest, Constraints(), options))
        case "run":
            return await engine.run(engine.submit(rest, Constraints()))
        case "submit":
            engine.submit(rest, Constraints())
        case "cancel":
            latest = engine.store.latest()
            assert latest is not None
            assert engine.cancel(latest.task.id) in ("removed", "returned")
        case "sh":
            _sh(engine.repo, "sh", "-euc", rest)
        case _:
            raise ValueError(f"There is no step {step!r}.")
    return report


@dataclass
class Speaker:
    """The person who says something at some point of the run."""

    engine: Engine
    lines: dict[str, str | list[str]]

    def hear(self, event: Event) -> None:
        for pattern in list(self.lines):
            if matches(pattern, describe(event)):
                self.say(pattern, event.task)

    def say(self, pattern: str, task: str) -> None:
        said = self.lines.pop(pattern, [])
        for line in [said] if isinstance(said, str) else said:
            assert self.engine.say(task, line)


def _conclude_at(engine: Engine, event: Event, pattern: str) -> None:
    if matches(pattern, describe(event)):
        assert engine.conclude(event.task)


def _cancel_at(engine: Engine, event: Event, pattern: str) -> None:
    if matches(pattern, describe(event)):
        engine.cancel(event.task)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process for a while: what commands are given is taken from there."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def _template() -> Path:
    """The `.git` folder of an empty repository, made once: hundreds of scenarios begin with one."""
    made = Path(tempfile.mkdtemp(prefix="template-"))
    _sh(made, "git", "init", "-q", "-b", "main")
    return made / ".git"


def make_repo(folder: Path, repo: Path) -> Path:
    repo.mkdir()
    if (folder / "repo").is_dir():
        shutil.copytree(folder / "repo", repo, dirs_exist_ok=True, symlinks=True)
    if (folder / "agent.yaml").exists():
        shutil.copy(folder / "agent.yaml", repo / "agent.yaml")
    if (folder / "setup.sh").exists():
        _sh(repo, "sh", "-eu", str(folder / "setup.sh"))
    if not (repo / ".git").exists():
        shutil.copytree(_template(), repo / ".git")
    if not (folder / "no_commits").exists():
        _sh(repo, "git", "add", "-A")
        who = ("-c", "user.name=Tests", "-c", "user.email=tests@localhost", "-c", "commit.gpgsign=false")
        _sh(repo, "git", *who, "commit", "-q", "--allow-empty", "-m", "start")
    if (folder / "after.sh").exists():
        _sh(repo, "sh", "-eu", str(folder / "after.sh"))
    return repo


def read_outcome(folder: Path) -> Outcome:
    return Outcome.model_validate(_read_yaml(folder / "expected" / "outcome.yaml"))


def describe(event: Event) -> dict[str, str]:
    """An event's fields as text, for `events` in outcome.yaml."""
    fields = event.as_json()
    flat = {"kind": fields["kind"], "path": fields["path"], **fields["body"]}
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in flat.items()}


def matches(pattern: str, event: dict[str, str]) -> bool:
    kind, *fields = pattern.split()
    wanted = [field.partition("=") for field in fields]
    return event["kind"] == kind and all(event.get(key) == value for key, _, value in wanted)


def find_in_order(patterns: list[str], events: list[dict[str, str]]) -> str | None:
    """The first pattern that has no event after the event of the one before."""
    position = 0
    for pattern in patterns:
        while position < len(events) and not matches(pattern, events[position]):
            position += 1
        if position == len(events):
            return pattern
        position += 1
    return None


def count_told(text: str, run: Run) -> int:
    return sum(message.content.count(text) for message in run.model.requests[-1].messages)


def _read_yaml(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), _LOADER) if path.exists() else {}


def _sh(repo: Path, *command: str) -> None:
    subprocess.run(command, cwd=repo, check=True, stdin=subprocess.DEVNULL)

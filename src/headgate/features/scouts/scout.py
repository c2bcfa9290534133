"""The kind `scout`: facts about a task that are found out without a model, before it is asked.

Scout A (`code`) maps the code that the task is about. Scout B (`build`) finds out how the project is tested,
what is missing, and what fails, if the task is about that. What they say is part of the first message of
every conversation that begins afterwards.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from headgate.checks import COMBINED
from headgate.config import ScoutSettings, detect_project
from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    OWN_FOLDER,
    SCOUTS,
    AnswersTried,
    Body,
    Broken,
    Data,
    Decision,
    Role,
    VerifyRuns,
    VerifyStep,
    clean_text,
    render_notes,
    show_path,
)
from headgate.errors import ToolError
from headgate.features.scouts.build_facts import (
    BuildFacts,
    FailureClues,
    Problem,
    environment_problems,
    find_framework,
    render_build,
)
from headgate.features.scouts.code_map import MapLimits, MapQuery
from headgate.features.scouts.events import ScoutReported
from headgate.features.scouts.failure_clues import FailedRun, find_clues
from headgate.features.scouts.mapping import INDEX_NAME, LastTree, map_code
from headgate.features.scouts.render import render_map
from headgate.features.scouts.tool_versions import VERSION, NeededTool, needed_tools
from headgate.first_use import dataclass, regex
from headgate.process import CommandUnavailable, run_command
from headgate.reading import FailedTest, find_failures, plain_lines
from headgate.run import Finder, Job, StageEnd, StageRun, run_verification, window_of

WINDOW_SHARE = 0.1
"""Of the context window, for what one scout says."""
MAP_SECONDS = 20.0
"""The first map of a large repository stops reading then; the next one continues there."""
TELL_SECONDS = 0.5
"""How often people who wait are told how far it is."""
SAID_LINES, LOG_CHARS = 12, 200_000
_VERSION_SECONDS = 10.0
_NO_DOWNLOADS = {"GOTOOLCHAIN": "local", "RUSTUP_AUTO_INSTALL": "0"}
"""A repository can ask for another version of Go or Rust, which these programs download unasked."""


_FAILURE = regex(
    r"Traceback \(most recent|File \"[^\"\n]+\", line \d|\bFAIL(?:ED|URES)?\b|\b[A-Z]\w*(?:Error|Exception)\b"
    r"|(?<!\w)(?:test_\w+|\w+_test\b)|\b[Tt]est[A-Z]\w*|[\w-]\.(?:test|spec)\.\w+"
)
"""What a test runner or a stack trace prints; names of exceptions and tests. No words of a language."""
_WORD = regex(r"\w[\w-]*")


def is_about_checks(text: str, steps: Sequence[VerifyStep]) -> bool:
    """Whether a task quotes a failure, or names a test or a verification step."""
    words = {word.casefold() for word in _WORD.findall(text)}
    named = any(step.name.casefold() in words for step in steps)
    return named or _FAILURE.search(text) is not None or any(find_failures(text, ""))


class ScoutStageSettings(Data):
    """The settings of a stage of the kind `scout`."""

    scout: Literal["code", "build"]
    """`code` maps the code that the task is about; `build` finds out how the project is tested."""
    tokens: int = Field(1200, ge=100)
    """The most that it says, in tokens."""


@dataclass
class ScoutMemory:
    """What only this process knows about the latest failing run."""

    run_id: str = ""
    failures: tuple[FailedTest, ...] = ()
    trace: str = ""
    """What the latest failing run printed."""
    stopped: bool = False
    """The check that was to be run first took too long."""
    is_checked: bool = False
    last_tree: LastTree = field(default_factory=LastTree)
    asked_when: str = ""
    """What had been done when a model last asked a scout."""
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Whoever comes first runs that check, and the other scout waits for it."""
    said: dict[str, str] = field(default_factory=dict)
    """What each scout has said at the start, by its name."""


def scout_memory(job: Job) -> ScoutMemory:
    """The task's one memory of what failed."""
    return job.memory.of(ScoutMemory)


async def report(
    job: Job, name: str, question: str, tokens: int, when: str = ""
) -> tuple[ScoutReported, str]:
    """What a scout finds. `when` tells what was done so far: if it is the same, files are as they were."""
    memory = scout_memory(job)
    if not when or when != memory.asked_when:
        memory.last_tree, memory.asked_when = LastTree(), when
    try:
        found, text = await (_map_code if name == "code" else _look_at_build)(job, question, tokens)
    except (OSError, sqlite3.Error) as error:
        return ScoutReported(scout=name, problem=job.place.redact(clean_text(str(error)))[:300]), ""
    text = job.place.redact(clean_text(text))
    body = ScoutReported(
        scout=name,
        found=tuple(job.place.redact(clean_text(each)) for each in found),
        tokens=int(len(text) / CHARS_PER_CODE_TOKEN),
    )
    return body, text


async def _remember(job: Job) -> ScoutMemory:
    """What is known about the latest failing run, also after a crash."""
    memory, opening = scout_memory(job), job.state[AnswersTried].opening
    latest = job.state[VerifyRuns].failures[-1].run_id if job.state[VerifyRuns].failures else ""
    run_id = latest or (opening.run_id if opening and not opening.passed else "")
    if run_id and run_id != memory.run_id and job.place.verifier:
        memory.run_id, memory.failures, memory.trace = run_id, *await asyncio.to_thread(_read, job, run_id)
    return memory


def _read(job: Job, run_id: str) -> tuple[tuple[FailedTest, ...], str]:
    """The tests that failed in a run, and the end of what it printed."""
    assert job.place.verifier is not None
    try:
        output = (job.place.verifier.runs / run_id / COMBINED).read_text("utf-8", "replace")[-LOG_CHARS:]
    except OSError:
        return (), ""
    return tuple(find_failures(output, str(job.place.verifier.directory))), output


# Scout A.


async def _map_code(job: Job, question: str, tokens: int) -> tuple[Sequence[str], str]:
    memory = await _remember(job)
    query = MapQuery(
        text=f"{question}\n{job.request}" if question else job.request,
        failures=memory.failures,
        traces=tuple(filter(None, (job.task.attached[-LOG_CHARS:], memory.trace))),
    )
    own = Path(job.place.context.workspace.root) / OWN_FOLDER
    # A program that runs a flow in a folder of its own wants no other files in it.
    index = own / INDEX_NAME if own.is_dir() else None
    read = (0, 0)

    def hear(done: int, total: int) -> None:
        nonlocal read
        read = done, total

    async def tell() -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            job.people.pulse("files", "Reading the code", *read)

    telling = asyncio.create_task(tell())
    try:
        limits = MapLimits(seconds=MAP_SECONDS)
        found = await map_code(
            job.place.context.workspace, query, index, limits=limits, hear=hear, last=memory.last_tree
        )
    finally:
        telling.cancel()
    return [show_path(file.path) for file in found.files], render_map(found, tokens)


# Scout B.


async def _run_check_first(run: StageRun) -> StageEnd | None:
    """Runs the verification steps if the task is about what they check: what fails is the best clue.

    That is Scout B's work, but Scout A needs it as well: it says where to look.
    """
    job, memory = run.job, scout_memory(run.job)
    async with memory.checking:
        if memory.is_checked or not _is_checked_first(job):
            return None
        memory.is_checked = True
        return await _check(run)


def _is_checked_first(job: Job) -> bool:
    if job.place.verifier is None or job.place.proposing or job.state[AnswersTried].opening:
        return False
    has_scout_b = any(leaf.settings.get("scout") == "build" for leaf in job.flow.leaves())
    attached = bool(job.task.attached)
    return has_scout_b and (attached or is_about_checks(job.request, job.place.verifier.steps))


async def _check(run: StageRun) -> StageEnd | None:
    job = run.job
    try:
        async with asyncio.timeout(job.pinned.of(ScoutSettings).seconds):
            found = await run_verification(job, run.path, purpose="opening")
    except TimeoutError:
        scout_memory(job).stopped = True
        return None
    if isinstance(found.verdict, Broken):
        return StageEnd(Decision("infra", "check_broken", found.verdict.reason))
    return None


async def _look_at_build(job: Job, question: str, tokens: int) -> tuple[Sequence[str], str]:
    facts = await asyncio.to_thread(_read_project, job)
    versions = [
        (tool, await present_version(job, tool)) for tool in needed_tools(lambda path: _text(job, path))
    ]
    commands = [step.command for step in job.place.verifier.steps] if job.place.verifier else []
    problems = environment_problems(
        commands,
        versions,
        lambda program: _is_there(job, program),
        lambda path: job.place.context.workspace.exists(str(_project(job) / path)),
        _text(job, "package.json"),
    )
    if scout_memory(job).stopped:
        most = job.pinned.of(ScoutSettings).seconds
        said = f"The verification was stopped after {most:g} s: what fails now is not known."
        problems = (*problems, Problem("warning", said))
    opening = job.state[AnswersTried].opening
    failing: dict[str, Any] = {"passes": opening.passed} if opening else {}
    memory = await _remember(job)
    failing |= {
        "is_later": bool(job.state[VerifyRuns].failures),
        "has_run": bool(job.state[VerifyRuns].run_ids),
    }
    if memory.run_id:
        lines = [] if memory.failures else [line for line in plain_lines(memory.trace) if line.strip()]
        failing |= {
            "passes": False,
            "failing": memory.failures,
            "clues": await _find_clues(job, memory),
            "said": "\n".join(lines[-SAID_LINES:]),
        }
    made = BuildFacts(**{**facts, **failing}, versions=tuple(versions), problems=problems)
    stopped = problems[-1:] if scout_memory(job).stopped else ()
    told = [problem.sentence for problem in problems if problem.severity == "blocking" or problem in stopped]
    told += [*made.clues.places, *made.clues.suspects] or [failure.name for failure in made.failing]
    return told, render_build(made, tokens)


async def _find_clues(job: Job, memory: ScoutMemory) -> FailureClues:
    """Where the latest failure may come from. After a verification, that has been looked into already."""
    if job.state[VerifyRuns].failures:
        tree = job.state[VerifyRuns].failures[-1].tree_after
        return await find_clues(job, FailedRun(tree, memory.failures, memory.trace), runs=False)
    opening = job.state[AnswersTried].opening
    assert opening is not None
    names = tuple(failure.name for failure in memory.failures)
    took = sum(step.seconds for step in opening.steps)
    failed = FailedRun(opening.tree_after, memory.failures, memory.trace, took, names)
    # A flow that looks for suspects has measured the same tree itself.
    runs = job.state[AnswersTried].suspects is None and await job.place.tree.mark() == failed.tree
    return await find_clues(job, failed, runs=runs)


def _read_project(job: Job) -> dict[str, Any]:
    """What the project's own files say."""
    root = Path(job.place.context.workspace.root) / _project(job)
    kinds = tuple((kind.name, show_path(kind.evidence)) for kind in detect_project(root).kinds)
    steps = (
        tuple((step.name, step.command) for step in job.place.verifier.steps) if job.place.verifier else ()
    )
    framework, one = find_framework([command for _, command in steps], _text(job, "package.json"))
    return {
        "kinds": kinds,
        "steps": steps,
        "folder": "" if _project(job) == PurePosixPath(".") else show_path(str(_project(job))),
        "framework": framework,
        "one_test": one,
        "red_before": tuple(job.state[VerifyRuns].red),
    }


def _project(job: Job) -> PurePosixPath:
    """The folder that the steps run in, within the tree: that of the package in a monorepo."""
    root = Path(job.place.context.workspace.root).resolve()
    folder = job.place.verifier.directory.resolve() if job.place.verifier else root
    return PurePosixPath(folder.relative_to(root) if folder.is_relative_to(root) else ".")


def _text(job: Job, path: str) -> str:
    """A file in the project's folder; empty if there is none that can be read."""
    path = str(_project(job) / path)
    try:
        return job.place.context.workspace.read(path).text if job.place.context.workspace.exists(path) else ""
    except ToolError:
        return ""


def _is_there(job: Job, program: str) -> bool:
    environment = job.place.verifier.environment if job.place.verifier else job.place.context.environment
    return shutil.which(program, path=environment.get("PATH")) is not None


async def present_version(job: Job, tool: NeededTool) -> str:
    """The version of a program; empty if it is not there. A dry run runs nothing."""
    if job.place.proposing or not _is_there(job, tool.program):
        return ""
    environment = job.place.verifier.environment if job.place.verifier else job.place.context.environment
    flag = "version" if tool.program == "go" else "--version"
    try:
        done = await run_command(
            [tool.program, flag],
            cwd=Path(job.place.context.workspace.root) / _project(job),
            env={**environment, **_NO_DOWNLOADS},
            timeout=_VERSION_SECONDS,
            max_output=1_000,
            sandbox=job.place.verifier.sandbox if job.place.verifier else job.place.context.sandbox,
        )
    except CommandUnavailable:
        return ""
    found = VERSION.search(done.output)
    return found[0] if found else ""


class Scout(Finder):
    """The kind `scout`."""

    name = "scout"
    settings = ScoutStageSettings
    roles = frozenset[Role]({"runs_beside"})

    async def run(self, run: StageRun) -> StageEnd:
        """Finds the facts and records them. A scout that finds nothing is no failure."""
        settings = ScoutStageSettings.model_validate(run.stage.settings)
        if settings.scout not in scout_memory(run.job).said:
            await run.job.log.commit()  # people see now that it has begun
            if broken := await _run_check_first(run):
                return broken
            tokens = min(settings.tokens, int(window_of(run.job, run.stage) * WINDOW_SHARE))
            body, text = await report(run.job, settings.scout, "", tokens)
            run.record(body, text)
            scout_memory(run.job).said[settings.scout] = text
            await run.job.log.commit()
        return StageEnd(Decision("advance", "done"))

    def replay(self, run: StageRun, body: Body, content: str) -> None:
        if isinstance(body, ScoutReported) and not body.question:
            scout_memory(run.job).said[body.scout] = content

    def stages(self, job: Job) -> dict[str, str]:
        """Those of scouts, by their ids, with their titles: a model may read on in one of them."""
        return {leaf.id: leaf.label for leaf in job.flow.leaves() if leaf.label in SCOUTS.values()}

    def say_facts(self, job: Job, tokens: float | None) -> list[str]:
        texts = scout_memory(job).said
        said = [text for name in SCOUTS if (text := texts.get(name))]
        most = job.pinned.of(ScoutSettings).tokens
        room = int(min(most, tokens or most) * CHARS_PER_CODE_TOKEN)
        for name, title in self.stages(job).items():
            note = job.state.notes.get(name)
            if note and note.accepted and note.output is not None:
                said.append(f"{title} says:\n{render_notes([(name, note)], room)}")
        return said

"""One exercise as one task: its repository, its configuration, the engine, and what came of it."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path

from headgate.bench.evidence import Evidence, make_evidence
from headgate.bench.exercises import Exercise
from headgate.bench.languages import find_toolchain, python_command
from headgate.bench.results import ExerciseResult, Timing, Tokens
from headgate.bench.tries import TryRecorder, with_tries
from headgate.bench.work_folder import PACKAGES, WorkFolder, make_work_folder
from headgate.config import Config, Loaded, ScoutSettings, flow_from_config, load_config
from headgate.core import Constraints, Event, Flow, Options, Pass, VerifyStarted, VerifyStep
from headgate.engine import CHECK_SPECS, FLOW_NAMES, Engine, FlowParts, build_verifier, find_sandbox
from headgate.errors import ConfigError, HeadgateError
from headgate.first_use import dataclass, regex
from headgate.guard import Boundaries
from headgate.log import Bus, Folder, Report
from headgate.process import NoSandbox, uninterrupted
from headgate.tree import git

FLOW = "bench"
_PATTERN = regex(r"[\w./ -]+")
"""Paths that are patterns for themselves. Tests with other names are put back as well."""
SECONDS = 180.0
"""How long the tests of an exercise may run."""


class ExerciseUnusable(HeadgateError):
    """An exercise cannot be judged here."""


@dataclass(frozen=True)
class Terms:
    """What holds for every exercise of a run."""

    tries: int = 2
    seconds: float | None = None
    """How long the tests may run; None: 180, or what a plain exercise says itself."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """Commands that run the tests, by language, instead of the usual ones."""
    model: str | None = None
    base_url: str | None = None
    config: Path | None = None
    flow: str = FLOW
    """A flow's name or file."""

    def load(self, repo: Path) -> Loaded:
        """The configuration that they make for a repository. ConfigError if something is wrong with it."""
        flags = {"model": self.model, "base_url": self.base_url}
        return load_config(repo, config_file=self.config, environ=os.environ, flags=flags)

    def find_flow(self, loaded: Loaded, repo: Path) -> Flow:
        """The flow, with as many rounds as there are tries."""
        flow = flow_from_config(loaded.config, self.flow, repo, FLOW_NAMES, loaded.documents)
        return with_tries(flow, self.tries, CHECK_SPECS)


@dataclass
class ExerciseRun:
    """Runs one exercise in a folder of its own."""

    exercise: Exercise
    terms: Terms
    place: Path
    """An empty folder to work in."""
    root: Path
    """The folder of all exercises."""
    on_event: Callable[[Event], None] = lambda event: None
    evidence: Evidence = field(default_factory=Evidence)
    """What there is to look at when it has ended."""
    _diff: bytes = field(default=b"", init=False)

    async def run(self) -> ExerciseResult:
        """Runs it to its end. What goes wrong with the environment is part of the result."""
        started = time.time()
        work = asyncio.ensure_future(self._judge())
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            work.cancel()  # the engine ends its task first
            await asyncio.wait({work})
            raise
        match work.exception():
            case None:
                result, seconds = work.result()
            case HeadgateError() | OSError() as error:
                result, seconds = self._not_judged(str(error)), ()
            case Exception() as bug:
                said = f"Headgate itself failed: {type(bug).__name__}: {bug}"
                result, seconds = self._not_judged(said), ()
            case other:
                raise other
        timing = Timing(
            started=datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
            seconds=round(time.time() - started, 3),
            test_seconds=seconds,
        )
        return result.model_copy(update={"timing": timing})

    async def _judge(self) -> tuple[ExerciseResult, tuple[float, ...]]:
        """The result, but for its timing, and how long the tests took in each try."""
        if self.exercise.problem:
            raise ExerciseUnusable(self.exercise.problem)
        making = asyncio.to_thread(make_work_folder, self.exercise, self.place, self.root)
        work = await uninterrupted(making)
        loaded = self._configure(work)
        flow = self.terms.find_flow(loaded, work.repo)
        commands = tuple(step.command for step in loaded.config.verification.steps)
        recorder = TryRecorder(str(work.repo), commands)
        report = await self._carry_out(work, loaded, flow, recorder)
        if report.state not in ("SUCCESS", "STUCK"):
            said = next(iter(report.summary.splitlines()), "") or report.reason
            raise ExerciseUnusable(said.replace(str(work.repo), "."))
        if recorder.passed is not None and (reason := await self._judge_afresh()):
            recorder.refuse(reason)
        recorder.end(report, self.terms.tries)
        result = ExerciseResult(
            name=self.exercise.name,
            language=self.exercise.language,
            passed=recorder.passed,
            tries=tuple(one.result for one in recorder.tries),
            state=report.state,
            reason=report.reason,
            final_turns=report.final_turns,
            requests=report.requests,
            tokens=Tokens(
                sent=report.prompt_tokens, cached=report.cached_tokens, generated=report.completion_tokens
            ),
            cost=report.cost,
            timing=_NO_TIMING,
        )
        return result, tuple(round(one.seconds, 3) for one in recorder.tries)

    async def _judge_afresh(self) -> str:
        """Runs the tests in a new copy of the exercise with the task's diff; returns why they do not pass.

        Whatever else the task has left in its own folder is not there: ignored files, compiled modules.
        """
        making = asyncio.to_thread(make_work_folder, self.exercise, self.place / "judged", self.root)
        fresh = await uninterrupted(making)
        config = self._configure(fresh).config
        if self._diff:
            git(fresh.repo, "apply", "--whitespace=nowarn", "-", stdin=self._diff)
        fresh.restore_tests()
        found = find_sandbox(config, os.environ)
        verifier = build_verifier(
            Folder(fresh.repo), config, Bus(), None if isinstance(found, NoSandbox) else found
        )
        assert verifier is not None
        judged = await verifier.run("judged")
        if isinstance(judged.verdict, Pass):
            return ""
        return f"passes where the task worked, but not in a fresh copy: {judged.verdict.reason}"

    async def _carry_out(self, work: WorkFolder, loaded: Loaded, flow: Flow, recorder: TryRecorder) -> Report:
        def restore(event: Event) -> None:
            """The event is told before the steps run."""
            if isinstance(event.body, VerifyStarted):
                work.restore_tests()

        bus = Bus([restore, recorder.hear, self.on_event])
        engine = Engine.open(work.repo, loaded, bus, parts=FlowParts(flow=flow))
        try:
            options = Options(protect_tests="all", model=self.terms.model, base_url=self.terms.base_url)
            task = engine.submit(self.exercise.text, Constraints(), options)
            report = await engine.run(task)
            with suppress(ConfigError):  # it ended before it could change anything
                self._diff = await asyncio.to_thread(engine.diff, task.id)
            self.evidence = await asyncio.to_thread(self._collect, engine, recorder)
            return report
        finally:
            engine.store.close()

    def _collect(self, engine: Engine, recorder: TryRecorder) -> Evidence:
        """The diff of the task and the output of its tests."""
        runs = (one.run_id for one in recorder.tries[: self.terms.tries])
        logs = tuple(engine.folder.runs / run_id / "combined.log" for run_id in runs if run_id)
        return make_evidence(self._diff, logs, str(engine.repo))

    def _configure(self, work: WorkFolder) -> Loaded:
        """The configuration of the task. What the rules of a benchmark are is not for it to say."""
        loaded = self.terms.load(work.repo)
        config = loaded.config
        is_plain = self.exercise.layout == "plain"
        stated = Boundaries(config.test_paths)
        for path in filter(stated.takes_back, tuple(work.tests)):
            del work.tests[path]  # the name is that of a test, and the file is the solution
        steps = self._own_steps(work.repo, config) if is_plain else self._test_step(work)
        read = [*config.commands.read, *_readable(self.exercise.language, work)]
        changed = {
            "commands": config.commands.model_copy(update={"read": tuple(read)}),
            "verification": config.verification.model_copy(update={"steps": steps, "red_before": False}),
            "test_paths": (*config.test_paths, *self._own_paths(work)),
            "hypotheses": False,
            "monorepo": config.monorepo if is_plain else None,
        }
        if "scouts" not in config.model_fields_set:
            changed["scouts"] = ScoutSettings.model_validate("off")
        return replace(loaded, config=config.model_copy(update=changed))

    def _own_paths(self, work: WorkFolder) -> list[str]:
        """What is a test of the exercise, and what is none: its solution, even if a step runs that."""
        tests = [path for path in work.tests if _PATTERN.fullmatch(path)]
        solution = [f"!/{path}" for path in self.exercise.solution if _PATTERN.fullmatch(path)]
        return [*tests, *solution]

    def _test_step(self, work: WorkFolder) -> tuple[VerifyStep, ...]:
        """The one step of an exercise whose layout says which files are tests."""
        language = self.exercise.language
        command = self.terms.commands.get(language) or self._usual_command(language, work)
        return (VerifyStep(name="tests", command=command, timeout=self.terms.seconds or SECONDS),)

    def _usual_command(self, language: str, work: WorkFolder) -> str:
        if language == "python":
            return python_command(_runnable(self.exercise.tests))
        toolchain = find_toolchain(language, work.repo)
        if toolchain is None:
            lacking = (
                "gradlew and pom.xml are missing" if language == "java" else f"{language} has no usual one"
            )
            raise ExerciseUnusable(
                f"there is no command for the tests: {lacking}; give one with --command {language}=COMMAND"
            )
        if missing := toolchain.missing(os.environ.get("PATH")):
            raise ExerciseUnusable(f"{missing} is not installed")
        if language == "javascript" and work.packages is None:
            raise ExerciseUnusable(
                f"{PACKAGES} is missing: run npm install at the exercise or in a folder above it"
            )
        return toolchain.command

    def _own_steps(self, repo: Path, config: Config) -> tuple[VerifyStep, ...]:
        """The steps of a plain exercise: they are its own, also where another configuration is given."""
        if self.terms.config is not None:
            config = replace(self.terms, config=None).load(repo).config
        steps = config.verification.steps
        if command := self.terms.commands.get(self.exercise.language):
            steps = (VerifyStep(name="tests", command=command, timeout=SECONDS),)
        if not steps:
            raise ExerciseUnusable("agent.yaml has no verification steps")
        if self.terms.seconds is None:
            return steps
        return tuple(step.model_copy(update={"timeout": self.terms.seconds}) for step in steps)

    def _not_judged(self, problem: str) -> ExerciseResult:
        said = " ".join(problem.split()).removesuffix(".")
        return ExerciseResult(
            name=self.exercise.name,
            language=self.exercise.language,
            passed=None,
            problem=said.replace(str(self.place), ".") or "it could not be run",
            timing=_NO_TIMING,
        )


_NO_TIMING = Timing(started="", seconds=0.0)


def _readable(language: str, work: WorkFolder) -> list[str]:
    """What the tests need in a sandbox besides the repository."""
    python = [sys.prefix, sys.base_prefix] if language == "python" else []
    return [*python, *([str(work.packages)] if work.packages else [])]


def _runnable(tests: tuple[str, ...]) -> list[str]:
    """Of the tests, those that pytest is given."""
    return [path for path in tests if path.endswith(".py")]

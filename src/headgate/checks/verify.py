"""Verification: the project's own commands, run by the runtime, never taken from the model's word."""

import asyncio
import os
import re
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from headgate.checks.step_needs import Missing, find_missing
from headgate.core import Broken, Fail, Pass, StepResult, Verdict, VerifyStep
from headgate.errors import HeadgateError
from headgate.first_use import dataclass, regex
from headgate.process import MAX_LOG, CommandResult, Sandbox, run_command
from headgate.reading import FailedTest, count_tests, explain_doubtful_success, find_failures, plain_lines
from headgate.regular_files import OwnFolder
from headgate.tree import WriteBatch

MANIFEST = "manifest.json"
COMBINED = "combined.log"
TAIL_LINES = 200
"""The folders of `.headgate/runs/RUN`, which a command may have replaced with links."""
_MAX_OUTPUT = 400_000
_NOT_FOUND = regex(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)
_NOT_RUN = (126, 127)
"""With what a shell ends that found no program, or could not run it."""
_NO_MODULE = regex(r"\S*python[\d.]*(?:\.exe)?: No module named ([\w.]+)\s*")
"""All that Python says if the module behind `-m` is not there."""
INSTALLED_RUNNERS = frozenset(
    {"coverage", "flake8", "mypy", "nose2", "nox", "pylint", "pytest", "ruff", "tox"}
)
"""Modules behind `python -m` that a project does not hold itself."""
_WRAPPER_FAILED = regex(r"\s*Downloading \S+(?s:.*?)^\s+at org\.gradle\.wrapper\.", re.MULTILINE)
"""What Gradle's wrapper says, first of all, if it cannot get the Gradle that the project wants."""
_GRADLE_RAN = regex(r"^(?:> Task|BUILD |Welcome to Gradle)", re.MULTILINE)
_RAN_NOTHING = regex(r"^Ran 0 tests in [\d.]+s\s+(OK|NO TESTS RAN)", re.MULTILINE)
"""What unittest says, with success, when it found no tests. Other runners fail by themselves then."""


RUN_ID = r"run_([0-9]{8}_[0-9]{6})_[0-9a-f]{6}"
"""The form of an id, as a regular expression whose group is the time."""


def new_run_id(now: float) -> str:
    """`run_YYYYMMDD_HHMMSS_xxxxxx`, in UTC."""
    return f"run_{datetime.fromtimestamp(now, UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What a run found. `tail` is the end of the failed step's output, for the model."""

    verdict: Verdict
    steps: tuple[StepResult, ...]
    tail: str = ""
    failures: tuple[FailedTest, ...] = ()
    """The failed step's tests that failed, where the runner's format is known."""
    forgiven: tuple[str, ...] = ()
    """Steps that failed and do not count."""


@dataclass(frozen=True, slots=True)
class StepRun:
    """One step that was run."""

    step: VerifyStep
    log: str
    started: float
    finished: float
    result: StepResult
    verdict: Verdict
    tail: str = ""
    failures: tuple[FailedTest, ...] = ()


AfterStep = Callable[[StepRun], Awaitable[Literal["stop", "go_on", "forgive"]]]
"""Hears of each step that was run. After one that failed, it says what follows: the end of the run, the next
step, or the next step as if this one had passed."""


async def stop(ran: StepRun) -> Literal["stop"]:
    """The first step that fails is the last."""
    return "stop"


@dataclass(frozen=True)
class Verifier:
    """Runs the steps in order and, by default, stops at the first that fails.

    Each run leaves its logs in a folder. The manifest is written last and whole: a folder without one is that
    of a run that did not end.
    """

    steps: Sequence[VerifyStep]
    directory: Path
    """Where the commands run."""
    runs: Path
    """Where the logs go: `<run_id>/{manifest.json,combined.log,step-NN-name.log}`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    on_line: Callable[[str], None] = lambda line: None
    on_step: Callable[[str], None] = lambda step: None
    """Is given the name of each step before it runs, and which one of how many it is."""
    now: Callable[[], float] = time.time
    owner: Path | None = None
    """Whose the commands are, should they outlive this process; by default whose the directory is."""
    sandbox: Sandbox | None = None
    """What the commands run in. Each step begins with an empty home folder and an empty /tmp."""
    narrow: Callable[[VerifyStep, Sandbox], Sandbox] = lambda step, sandbox: sandbox
    """Gives a step a sandbox in which it can change less."""

    async def run(self, run_id: str, after_step: AfterStep = stop) -> Verification:
        """Runs the steps. A log that cannot be written is the environment's fault, like a missing program."""
        if not self.steps:
            return Verification(Broken("there are no verification steps"), ())
        folder = self.runs / run_id
        done: list[StepRun] = []
        forgiven: list[str] = []
        started = self.now()
        try:
            _own(folder).make(folder)
            for number, step in enumerate(self.steps, 1):
                log = folder / f"step-{number:02}-{_file_name(step.name)}.log"
                of = f" ({number} of {len(self.steps)})" if len(self.steps) > 1 else ""
                self.on_step(f"{step.name}{of}")
                ran, output = await self._run_fresh(step, log)
                done.append(ran)
                follows = await after_step(ran)  # first of all: it opens folders that the step has locked
                await asyncio.to_thread(_append, folder / COMBINED, step, log, output)
                if isinstance(done[-1].verdict, Fail) and follows == "forgive":
                    forgiven.append(step.name)
                elif not isinstance(done[-1].verdict, Pass) and follows != "go_on":
                    break
            decisive = _decisive(done, forgiven)
            verdict = Pass() if decisive.step.name in forgiven else decisive.verdict
            manifest = _describe_run(run_id, self.steps, done, verdict, started, self.now())
            await asyncio.to_thread(_write_manifest, folder, manifest)
        except OSError as error:
            broken = Broken(f"the logs of {run_id} cannot be written: {error.strerror or error}")
            return Verification(broken, tuple(each.result for each in done))
        results = tuple(each.result for each in done)
        return Verification(verdict, results, decisive.tail, decisive.failures, tuple(forgiven))

    async def _run_fresh(self, step: VerifyStep, log: Path) -> tuple[StepRun, str]:
        """Runs a step with an empty home folder, where the step before it can have left nothing.

        Returns its output as well.
        """
        if self.sandbox is None:
            return await self._run_step(step, log)
        with self.narrow(step, self.sandbox).with_fresh_scratch() as fresh:
            return await replace(self, sandbox=fresh)._run_step(step, log)

    async def _run_step(self, step: VerifyStep, log: Path) -> tuple[StepRun, str]:
        started = self.now()
        try:
            output = os.fdopen(_own(log.parent).open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "wb")
            done = await run_command(
                step.command,
                cwd=self.directory,
                env=self.environment,
                timeout=step.timeout,
                max_output=_MAX_OUTPUT,
                on_line=self.on_line,
                log=output,
                owner=self.owner,
                sandbox=self.sandbox,
            )
        except (OSError, HeadgateError) as error:
            result = StepResult(name=step.name, passed=False, exit_code=None, timed_out=False, seconds=0)
            broken = Broken(f'verification step "{step.name}" cannot be run: {error}')
            return StepRun(step, log.name, started, self.now(), result, broken), f"{error}\n"
        verdict = self._judge(step, done)
        if isinstance(verdict, Broken) or (isinstance(verdict, Fail) and done.exit_code in _NOT_RUN):
            verdict = await self._blame(step) or verdict
        counted = await asyncio.to_thread(count_tests, done.output)
        result = StepResult(
            name=step.name,
            passed=isinstance(verdict, Pass),
            exit_code=done.exit_code,
            timed_out=done.timed_out,
            seconds=round(done.seconds, 3),
            tests=counted.tests,
            left_out=counted.left_out,
            told_all=counted.told_all,
        )
        ran = StepRun(step, log.name, started, self.now(), result, verdict)
        if isinstance(verdict, Fail):
            ran = await asyncio.to_thread(self._read, ran, done.output)
        return ran, done.output

    def _judge(self, step: VerifyStep, done: CommandResult) -> Verdict:
        if done.timed_out:
            return Fail(
                "verify_failed", f'step "{step.name}" ({step.command}) took longer than {step.timeout:g} s'
            )
        if done.exit_code == 0:
            if not _RAN_NOTHING.search(done.output):
                return Pass()
            return Fail("verify_failed", f'step "{step.name}" ({step.command}) ran no tests')
        if _WRAPPER_FAILED.match(done.output) and not _GRADLE_RAN.search(done.output):
            return Broken(f'verification step "{step.name}": ./gradlew could not download Gradle')
        missing = self._missing_program(step.command, done)
        if missing:
            return Broken(f'verification step "{step.name}": the program {missing} is not installed')
        reason = f'step "{step.name}" ({step.command}) failed with exit code {done.exit_code}'
        return Fail("verify_failed", reason)

    async def missing(self, steps: Sequence[VerifyStep] | None = None) -> list[Missing]:
        """What steps, by default all of them, need and do not have."""
        return await find_missing(steps or self.steps, self.directory, self.environment, self.sandbox)

    async def _blame(self, step: VerifyStep) -> Broken | None:
        """Whether a step that the shell could not run names something that is not there.

        A script of the repository that is missing, or calls what is missing, is the task's to correct.
        """
        found = [one for one in await self.missing([step]) if not one.behind and one.sure]
        return Broken(found[0].sentence()) if found else None

    def _missing_program(self, command: str, done: CommandResult) -> str | None:
        """The program that the shell did not find, if the step names it and it really is not installed.

        So too a runner that Python did not find, if that is all that was said.
        """
        module = _NO_MODULE.fullmatch(done.output)
        if module and module[1] in INSTALLED_RUNNERS and f"-m {module[1]}" in command:
            return module[1]
        if done.exit_code != 127:
            return None
        path = self.environment.get("PATH")
        named = (name for name in _NOT_FOUND.findall(done.output) if name in command)
        return next((name for name in named if not shutil.which(name, path=path)), None)

    def _read(self, ran: StepRun, output: str) -> StepRun:
        """Adds what the failed step said."""
        tail = "\n".join(plain_lines(output)[-TAIL_LINES:])
        failures = find_failures(output, str(self.directory))
        return replace(ran, tail=tail, failures=failures)


def _decisive(done: Sequence[StepRun], forgiven: Sequence[str]) -> StepRun:
    """The step that the run comes to: the first that failed and counts, or else the last."""
    counting = (ran for ran in done if not isinstance(ran.verdict, Pass) and ran.step.name not in forgiven)
    return next(counting, done[-1])


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "step"


def _own(run: Path) -> OwnFolder:
    """Headgate's folder, in which `runs/RUN` is."""
    return OwnFolder(run.parents[1])


def _append(combined: Path, step: VerifyStep, log: Path, output: str) -> None:
    """Adds a step's log to that of the run; both are on the disk before the manifest speaks of them.

    A command may have deleted the log, as `git clean -fdx` does; one that could not be run has none.
    """
    own = _own(log.parent)
    if not os.path.lexists(log):
        own.make(log.parent)
        own.write(log, output.encode("utf-8", "replace"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with os.fdopen(own.open(combined, flags, 0o644), "ab") as out:
        out.write(f"$ {step.command}\n".encode())
        with os.fdopen(own.open(log), "rb") as source:
            shutil.copyfileobj(source, out)
            os.fsync(source.fileno())
        out.write(b"\n")
        out.flush()
        os.fsync(out.fileno())


def _describe_run(
    run_id: str,
    steps: Sequence[VerifyStep],
    done: Sequence[StepRun],
    verdict: Verdict,
    started: float,
    finished: float,
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "passed": isinstance(verdict, Pass),
        "reason": "" if isinstance(verdict, Pass) else verdict.reason,
        "started": _utc(started),
        "finished": _utc(finished),
        "seconds": round(finished - started, 3),
        "steps": [
            {
                **ran.result.model_dump(),
                "command": ran.step.command,
                "timeout": ran.step.timeout,
                "log": ran.log,
                "started": _utc(ran.started),
                "finished": _utc(ran.finished),
                "failures": [asdict(failure) for failure in ran.failures],
            }
            for ran in done
        ],
        "skipped": [step.name for step in steps[len(done) :]],
    }


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    data = orjson.dumps(manifest, option=orjson.OPT_INDENT_2)
    with _own(folder).enter(folder) as directory, WriteBatch() as batch:
        batch.write(MANIFEST, directory, MANIFEST, data, mode=0o644, old=None)
        batch.commit()


# A verification that passed, held against what its runners printed.


def unless_cut_short(found: Verification, folder: Path) -> Verification:
    """A run that passed does not count if a known test runner did not get to say so itself."""
    try:
        manifest = orjson.loads(_own(folder).read(folder / MANIFEST))
        logs = [(step, _read_log(folder / step["log"])) for step in manifest["steps"]]
    except (OSError, ValueError) as error:
        return replace(found, verdict=Broken(f"the logs of {folder.name} cannot be read: {error}"))
    for number, (step, output) in enumerate(logs):
        if (
            step["passed"]
            and output is not None
            and (doubt := explain_doubtful_success(step["command"], output))
        ):
            steps = list(found.steps)
            steps[number] = steps[number].model_copy(update={"passed": False})
            tail = "\n".join(plain_lines(output)[-TAIL_LINES:])
            reason = f'step "{step["name"]}" ({step["command"]}) {doubt}'
            return replace(found, verdict=Fail("verify_failed", reason), steps=tuple(steps), tail=tail)
    return found


def _read_log(log: Path) -> str | None:
    """What a step printed; None if it was too much for the log, so that its end is not known."""
    logged = _own(log.parent).read(log, MAX_LOG + 1)
    return None if len(logged) > MAX_LOG else logged.decode("utf-8", "replace")

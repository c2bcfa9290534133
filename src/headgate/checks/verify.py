"""Verification: the project's own commands, run by the runtime, never taken from the model's word."""

import asyncio
import re
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson

from headgate.core.events import StepResult
from headgate.core.rules import Broken, Fail, Pass, Verdict
from headgate.core.settings import VerifyStep
from headgate.errors import HeadgateError
from headgate.host.process import run_command

TAIL_LINES = 200
_NOT_FOUND = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)
_RAN_NOTHING = re.compile(r"^Ran 0 tests in [\d.]+s\s+(OK|NO TESTS RAN)", re.MULTILINE)
"""What unittest says, with success, when it found no tests. Other runners fail by themselves then."""


def new_run_id(now: float) -> str:
    """`run_YYYYMMDD_HHMMSS_xxxxxx`, in UTC."""
    return f"run_{datetime.fromtimestamp(now, UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What a run found. `tail` is the end of the failed step's output, for the model."""

    verdict: Verdict
    steps: tuple[StepResult, ...]
    tail: str = ""


@dataclass(frozen=True)
class Verifier:
    """Runs the steps in order and stops at the first that fails. Each run leaves its logs in a folder."""

    steps: Sequence[VerifyStep]
    directory: Path
    """Where the commands run."""
    runs: Path
    """Where the logs go: `<run_id>/{manifest.json,combined.log,step-NN-name.log}`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    on_line: Callable[[str], None] = lambda line: None

    async def run(self, run_id: str) -> Verification:
        folder = self.runs / run_id
        folder.mkdir(parents=True)
        results: list[StepResult] = []
        verdict: Verdict = Pass()
        tail = ""
        for number, step in enumerate(self.steps, 1):
            log = folder / f"step-{number:02}-{_file_name(step.name)}.log"
            result, verdict, tail = await self._run_step(step, log)
            results.append(result)
            await asyncio.to_thread(_append, folder / "combined.log", step, log)
            if not isinstance(verdict, Pass):
                break
        verification = Verification(verdict, tuple(results), tail)
        _write_manifest(folder, run_id, self.steps, verification)
        return verification

    async def _run_step(self, step: VerifyStep, log: Path) -> tuple[StepResult, Verdict, str]:
        try:
            done = await run_command(
                step.command,
                cwd=self.directory,
                env=self.environment,
                timeout=step.timeout,
                max_output=100_000,
                on_line=self.on_line,
                log=log,
            )
        except (OSError, HeadgateError) as error:
            log.write_text(f"{error}\n", encoding="utf-8")
            result = StepResult(name=step.name, passed=False, exit_code=None, timed_out=False, seconds=0)
            return result, Broken(f'verification step "{step.name}" cannot be run: {error}'), ""
        passed = done.exit_code == 0 and not done.timed_out
        result = StepResult(
            name=step.name,
            passed=passed,
            exit_code=done.exit_code,
            timed_out=done.timed_out,
            seconds=round(done.seconds, 3),
        )
        if passed and _RAN_NOTHING.search(done.output):
            reason = f'step "{step.name}" ({step.command}) ran no test at all'
            return result.model_copy(update={"passed": False}), Fail("verify_failed", reason), done.output
        if passed:
            return result, Pass(), ""
        missing = self._missing_program(step.command, done.output) if done.exit_code == 127 else None
        if missing:
            reason = f'verification step "{step.name}": the program {missing} is not installed'
            return result, Broken(reason), ""
        how = (
            f"took longer than {step.timeout:g} s"
            if done.timed_out
            else f"failed with exit code {done.exit_code}"
        )
        tail = "\n".join(done.output.splitlines()[-TAIL_LINES:])
        return result, Fail("verify_failed", f'step "{step.name}" ({step.command}) {how}'), tail

    def _missing_program(self, command: str, output: str) -> str | None:
        """The program that the shell did not find, if the step names it and it really is not installed."""
        path = self.environment.get("PATH")
        named = (name for name in _NOT_FOUND.findall(output) if name in command)
        return next((name for name in named if not shutil.which(name, path=path)), None)


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "step"


def _append(combined: Path, step: VerifyStep, log: Path) -> None:
    with combined.open("ab") as out:
        out.write(f"$ {step.command}\n".encode())
        if log.exists():
            with log.open("rb") as source:
                shutil.copyfileobj(source, out)
        out.write(b"\n")


def _write_manifest(folder: Path, run_id: str, steps: Sequence[VerifyStep], done: Verification) -> None:
    manifest = {
        "run_id": run_id,
        "passed": isinstance(done.verdict, Pass),
        "reason": "" if isinstance(done.verdict, Pass) else done.verdict.reason,
        "steps": [
            {**result.model_dump(), "command": step.command}
            for result, step in zip(done.steps, steps, strict=False)
        ],
        "skipped": [step.name for step in steps[len(done.steps) :]],
    }
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))

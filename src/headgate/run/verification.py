"""Running the project's own checks: as the flow's last word, or because the model asked."""

import asyncio
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from headgate.checks import StepRun, Verification, Verifier, new_run_id, unless_cut_short
from headgate.config import fill
from headgate.core import (
    OWN_FOLDER,
    Broken,
    CheckFinished,
    Fail,
    Pass,
    Verdict,
    VerifyFinished,
    VerifyStarted,
    VerifyStep,
)
from headgate.process import MOST_MOUNTS, Sandbox
from headgate.protect import (
    REASON,
    CommitsFound,
    InstalledPackages,
    Protected,
    Restored,
    preparing_steps,
    protect_between,
    protected_while,
)
from headgate.reading import describe, is_code, render_failures
from headgate.run.job import Job
from headgate.run.trials import RedBefore

MOST_REWRITES = 2
"""How often the steps are run again because they changed source."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run brought, and what the model is told about it if it failed."""

    verdict: Verdict
    run_id: str
    message: str = ""
    rewritten: tuple[str, ...] = ()
    """Source files that a run which passed has changed, so that another run has to tell."""


async def run_verification(
    job: Job, path: str = "", turn: int = 0, *, asked: bool = False, opening: bool = False
) -> Finding:
    """Runs the steps under a new id and records what came of it. A broken environment is recorded as such.

    Code may rewrite itself while its tests run. Only a tree that a run has left as it was is verified, so a
    run that changed source is followed by another, and by no more than a few.
    """
    for runs_left in range(MOST_REWRITES, -1, -1):
        found = await _run_once(job, path, turn, asked=asked, opening=opening, last=not runs_left)
        if not found.rewritten:
            break
    return found


async def _run_once(job: Job, path: str, turn: int, *, asked: bool, opening: bool, last: bool) -> Finding:
    """One run. If it is the `last` one, it fails if it changed source."""
    assert job.verifier is not None
    run_id = new_run_id(job.now())
    steps = tuple(step.name for step in job.verifier.steps)
    job.log.record(path, turn, VerifyStarted(run_id=run_id, steps=steps, asked=asked, opening=opening))
    await job.log.commit()
    if job.context.protected:
        # Verification must not depend on what a command left where it may not write.
        # It is told again by what follows if something cannot be put back.
        await asyncio.to_thread(job.context.protected.check_and_restore)
    tree = await job.tree.mark()
    restored: list[Restored] = []
    before = RedBefore(job, tree)
    steps_left = list(job.verifier.steps)
    packages = _Packages(job.context.installed)
    preparing = await asyncio.to_thread(_preparing, job)

    async def hear(ran: StepRun) -> Literal["stop", "go_on", "forgive"]:
        step = steps_left.pop(0)
        is_prepared, more = step.command in preparing, bool(steps_left)
        if not is_prepared:
            await packages.compare()
        await protect_between(job.context.protected, restored, prepared=is_prepared, more=more)
        return await before.hear(ran)

    async with protected_while(job.context.protected, restored):
        await packages.compare()
        verifier = keeping_tests(job.verifier, job.context.protected, job.context.installed, preparing)
        found = await verifier.run(run_id, hear)
    if not opening:  # the check that a task begins with is itself what was red before
        found = _with_red_before(found, before)
    found = _unless_tampered(packages.judge(found), restored)
    after = await job.tree.mark()
    rewritten: tuple[str, ...] = ()
    if isinstance(found.verdict, Pass):
        rewritten = tuple(filter(is_code, await job.tree.changed_between(tree, after)))
        if rewritten and last:
            reason, rewritten = f"every run changes the code that it verifies: {_list(rewritten)}", ()
            found = replace(found, verdict=Fail("verify_failed", reason))
    protects = job.task.protect_tests or job.state.config.get("protect_tests")
    if protects == "all" and isinstance(found.verdict, Pass):
        found = await asyncio.to_thread(unless_cut_short, found, job.verifier.runs / run_id)
    reason = "" if isinstance(found.verdict, Pass) else job.redact(found.verdict.reason)
    if isinstance(found.verdict, Broken) and (opening or not asked):
        job.log.record(path, turn, CheckFinished(check="verify", verdict="broken", reason=reason))
        await job.log.commit()
        return Finding(found.verdict, run_id)
    before.record(found)
    message = _failure_message(job, "tests_failed" if asked else "verify_failed", run_id, found)
    failing = tuple(job.redact(describe(failure)) for failure in found.failures)
    if message and not asked and job.state.round.is_idle(job.state.failures, tree, reason, failing):
        message = fill("verify_unchanged", run_id=job.state.failures[-1].run_id) + "\n\n" + message
    if message and (lost := [one.sentence() for one in restored if _is_told(one)]):
        message = "\n".join([message, *lost])
    finished = VerifyFinished(
        run_id=run_id,
        passed=isinstance(found.verdict, Pass),
        steps=found.steps,
        reason=reason,
        tree=tree,
        tree_after=after,
        left_behind=await job.tree.left_behind(tree),
        failing=failing,
        asked=asked,
        opening=opening,
        red_before=tuple(before.same),
        forgiven=found.forgiven if isinstance(found.verdict, Pass) else (),
        rewritten=rewritten,
    )
    job.log.record(path, turn, finished, None if asked else message or None)
    await job.log.commit()
    return Finding(found.verdict, run_id, message, rewritten)


def _preparing(job: Job) -> frozenset[str]:
    """The commands of steps that install packages or configure a build."""
    assert job.verifier is not None
    root = Path(os.path.realpath(job.context.workspace.root))
    directory = os.path.relpath(os.path.realpath(job.verifier.directory), root)
    commands = [step.command for step in job.verifier.steps]
    return preparing_steps(commands, "" if directory == os.curdir else directory, root)


@dataclass
class _Packages:
    """What has become of installed packages, as it was found before and after each step."""

    installed: InstalledPackages | None
    changed: dict[str, None] = field(default_factory=dict)
    created: dict[str, None] = field(default_factory=dict)

    async def compare(self) -> None:
        if self.installed is not None:
            found = await asyncio.to_thread(self.installed.find_changes)
            self.changed.update(dict.fromkeys(found.changed))
            self.created.update(dict.fromkeys(found.created))

    def judge(self, found: Verification) -> Verification:
        """A run does not count if its packages are not those that were installed.

        New packages can be removed. What was changed cannot be put back, so that no run can tell any more.
        """
        if self.changed:
            reason = f"installed packages were changed since the task began: {_list(self.changed)}."
            return replace(found, verdict=Broken(f"{reason} Install them again and start a new task"))
        if self.created and isinstance(found.verdict, Pass):
            reason = f"packages were installed since the task began. Remove them: {_list(self.created)}"
            return replace(found, verdict=Fail("verify", reason))
        return found


def keeping_tests(
    verifier: Verifier,
    protected: Protected | None,
    installed: InstalledPackages | None = None,
    preparing: Collection[str] = (),
) -> Verifier:
    """The verifier, in whose sandbox protected tests and what decides how they run cannot be changed.

    Data beside tests can be. Installed packages can be changed by steps that install.
    """
    if verifier.sandbox is None or protected is None:
        return verifier
    kept = protected.paths(deciding=True)[:MOST_MOUNTS]
    if installed is None:
        return replace(verifier, sandbox=verifier.sandbox.with_paths(read_only=kept))
    inside = [path for path in kept if installed.holds(path)]
    packages, caches = installed.read_only(), installed.writable()

    def narrow(step: VerifyStep, sandbox: Sandbox) -> Sandbox:
        if step.command in preparing:
            return sandbox
        return sandbox.with_paths(read_only=[*inside, *packages], writable=caches)

    sandbox = verifier.sandbox.with_paths(read_only=[path for path in kept if path not in inside])
    return replace(verifier, sandbox=sandbox, narrow=narrow)


def _with_red_before(found: Verification, before: RedBefore) -> Verification:
    """Says of a failure what of it was red before the task."""
    if not isinstance(found.verdict, Fail) or not before.found.clause:
        return found
    reason = f"{found.verdict.reason}{before.found.clause}"
    return replace(found, verdict=replace(found.verdict, reason=reason))


def _unless_tampered(found: Verification, restored: Sequence[Restored]) -> Verification:
    """A run that passed does not count if a step, or the code it ran, changed what a later step went by.

    That holds even if it was put back after the step, or by a later one. Data beside the tests is another
    matter, since tests may well write it; but not if it cannot be put back.
    """
    tampered = dict.fromkeys(
        one.path for one in restored if one.decides or (one.reason == REASON and one.problem)
    )
    if not tampered or not isinstance(found.verdict, Pass):
        return found
    reason = f"tests, or what decides how they run, were changed during the run: {_list(tampered)}"
    return replace(found, verdict=Fail("verify", reason))


def _list(paths: Iterable[str]) -> str:
    return ", ".join([*paths][:5])


def _is_told(one: Restored) -> bool:
    """Whether the model hears about it: a test that writes where it may not is told by its failure alone."""
    return one.path == OWN_FOLDER or isinstance(one, CommitsFound)


def _failure_message(job: Job, text: str, run_id: str, found: Verification) -> str:
    if isinstance(found.verdict, Pass):
        return ""
    tail = job.redact(found.tail)[-job.context.result_chars :]
    listed = job.redact(render_failures(found.failures))
    failing = f"\nFailing tests:\n{listed}\n" if listed else ""
    return fill(text, reason=found.verdict.reason, run_id=run_id, failing=failing, tail=tail)

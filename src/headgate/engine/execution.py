"""One task being carried out: from the moment it is RUNNING to its report."""

import asyncio
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field

from headgate.checks.retention import prune_runs
from headgate.config.flows import flow_from_config
from headgate.config.load import Loaded
from headgate.config.schema import Config
from headgate.core.boundaries import Resolved
from headgate.core.events import (
    ApplyStarted,
    Event,
    FileHashes,
    PhaseProbed,
    ProposalMade,
    ReplyFailed,
    ReplyReceived,
    TaskEnded,
    TaskReportInvalid,
    TaskResumed,
    TaskStarted,
)
from headgate.core.flow import Flow
from headgate.core.messages import Model
from headgate.core.report import Report, build_report, render_markdown, write_summary
from headgate.core.report_check import report_problems
from headgate.core.rules import Decision
from headgate.core.settings import ModelSettings
from headgate.core.state import fold
from headgate.core.task import Options, Task, TaskState
from headgate.engine.bus import Bus
from headgate.engine.folder import Folder
from headgate.engine.log import TaskLog, recall
from headgate.engine.outfit import (
    TOOLS,
    build_context,
    build_verifier,
    pinned,
    secret_patterns,
    task_boundaries,
    tools_for,
    without_secrets,
)
from headgate.engine.phaselog import PhaseFile
from headgate.engine.proposals import apply_proposal
from headgate.engine.store import Store
from headgate.engine.tree import Changes, TaskTree
from headgate.errors import HeadgateError
from headgate.host.git import Snapshots
from headgate.host.lastwords import last_words, read_last_words
from headgate.host.leftovers import kill_leftovers
from headgate.host.overlay import OverlayWorkspace
from headgate.host.unfinished import settle_writes
from headgate.host.uninterrupted import uninterrupted
from headgate.models.base import open_model
from headgate.models.scripted import ScriptedModel
from headgate.run.flow import run_flow
from headgate.run.job import Job
from headgate.run.restore import restore, restore_overlay
from headgate.tools.guards import redactor

ENDINGS: dict[str, TaskState] = {
    "advance": "SUCCESS",
    "propose": "PROPOSED",
    "stuck": "STUCK",
    "infra": "INFRA_ERROR",
}
SPECS = tuple(tool.spec for tool in TOOLS)
CANCELLED = Decision("fail", "cancelled")
MAX_CRASHES = 3
"""How often in a row a task may end its process without getting anywhere."""
CONTROL_SECONDS = 0.2
"""How often a running task looks whether another process wants it cancelled."""


@dataclass
class Execution:
    """Carries a task out, hears when it is to be cancelled, and ends it with a record whatever happens."""

    task: Task
    folder: Folder
    store: Store
    bus: Bus
    configure: Callable[[Options], Loaded]
    models: Mapping[str | None, Model]
    """Models to use instead of those that the configuration names."""
    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    keep_last_words: bool = False
    """Have the interpreter write down where it was, should it crash: for processes that do nothing else."""
    crash: Exception | None = None
    """A bug in Headgate that ended the task, once it has ended."""
    _work: "asyncio.Task[Decision] | None" = field(default=None, init=False)
    _keep_conversation: bool = field(default=False, init=False)
    _stopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.log = TaskLog(self.store, self.bus, self.task, self.now)
        self.tree = TaskTree(Snapshots(self.folder.repo), lambda: self.log.state.first_hashes)
        self._past = self.store.events(self.task.id)
        if self._past:
            # A process that is gone left it RUNNING; this one goes on from there.
            self.log.state = fold(self._past)
            self.tree.resume(self.log.state.baseline, self.log.state.left_behind)
            self._keep_conversation = bool(self.log.state.config.get("keep_conversations"))
        phase = self.log.state.phase
        self._proposing = self.task.dry_run and phase == "stages"
        self._interrupted = bool(self._past) and phase != "proposed"

    def cancel(self) -> None:
        """Wakes the task up to be cancelled, once: what it has to clean up is not to be cancelled as well."""
        if self._work and not self._work.cancelling():
            self._work.cancel()

    async def run(self) -> Report:
        """The task's report. If this call is cancelled, so is the task, and only then does the call end."""
        if self.store.is_cancelled(self.task.id):
            await asyncio.to_thread(kill_leftovers, self.folder.repo)
            return await uninterrupted(self._end("CANCELLED", CANCELLED))
        words = read_last_words(self.folder.last_words)
        with last_words(self.folder.last_words) if self.keep_last_words else nullcontext():
            return await self._run(words)

    async def _run(self, words: str) -> Report:
        self._work = asyncio.create_task(self._carry_out(words))
        watch = asyncio.create_task(self._watch_control())
        stopped: asyncio.CancelledError | None = None
        while not self._work.done():
            try:
                await asyncio.wait({self._work})
            except asyncio.CancelledError as error:
                stopped = error
                self.cancel()
        watch.cancel()
        report = await uninterrupted(self._conclude(self._work))
        await asyncio.wait({watch})
        if not watch.cancelled():
            watch.result()
        if stopped:
            raise stopped
        return report

    async def _watch_control(self) -> None:
        while (asked := self.store.control(self.task.id)) != "cancel":
            self._stopping = asked == "conclude"
            await asyncio.sleep(CONTROL_SECONDS)
        self.cancel()

    async def _conclude(self, work: "asyncio.Task[Decision]") -> Report:
        if work.cancelled():
            return await self._end("CANCELLED", CANCELLED)
        match work.exception():
            case None if work.result().action == "propose":
                return await self._pause(work.result())
            case None:
                return await self._end(ENDINGS[work.result().action], work.result())
            case HeadgateError() | OSError() as error:
                return await self._end("INFRA_ERROR", Decision("infra", "environment", str(error)))
            case Exception() as bug:
                self.crash = bug
                detail = f"Headgate itself failed: {type(bug).__name__}: {bug}"
                trace = "".join(traceback.format_exception(bug))
                return await self._end("INFRA_ERROR", Decision("infra", "crash", detail), trace)
            case other:
                raise other

    async def _carry_out(self, words: str) -> Decision:
        task, log, repo = self.task, self.log, self.folder.repo
        loaded = self.configure(task)
        config = pinned(loaded.config, log.state.config)
        self._keep_conversation = config.keep_conversations
        flow = log.state.flow or choose_flow(loaded, task, self.folder)
        if config.phase_log in ("log", "both"):
            self.bus.on_event.append(PhaseFile(self.folder).hear)
        async with AsyncExitStack() as stack:
            models, settings = await self._open_models(stack, loaded, flow)
            bounds = await asyncio.to_thread(self._boundaries, config)
            redact = redactor(repo, secret_patterns(config))
            context = build_context(
                self.folder,
                config,
                task,
                self.bus,
                redact,
                lambda: log.state.plan,
                bounds,
                baseline=lambda: log.state.baseline,
                proposing=self._proposing,
            )
            if isinstance(context.workspace, OverlayWorkspace):
                self.tree.overlay = context.workspace
            stack.callback(context.protected.forget if context.protected else lambda: None)
            job = Job(
                task=task,
                flow=flow,
                log=log,
                models=models,
                model_settings=settings,
                tools={tool.name: tool for tool in tools_for(config, proposing=self._proposing)},
                context=context,
                verifier=build_verifier(self.folder, config, self.bus),
                tree=self.tree,
                redact=redact,
                now=self.now,
                sleep=self.sleep,
                pulse=self.bus.pulse,
                agents_md=config.agents_md,
                phase_control=config.phase_control,
                phase_prompt_place=config.phase_prompt_place,
                limits=config.limits,
                stopping=lambda: self._stopping,
                status_always=config.task_status == "always",
                stable_tools=config.tools_visibility == "stable",
                proposing=self._proposing,
                earlier_report=self._earlier_report(),
            )
            ended = await self._take_up(job, words) if self._past else None
            if not self._past:
                await self._record_start(job, config, bounds)
            decision = ended or await run_flow(job)
            for model in models.values():
                if isinstance(model, ScriptedModel) and decision.action == "advance":
                    model.check_finished()
            return decision

    async def _take_up(self, job: Job, words: str) -> Decision | None:
        """Goes on with what an earlier process recorded; returns what ends the task at once, if it does."""
        if self._interrupted:
            await asyncio.to_thread(kill_leftovers, self.folder.repo)
            if not self._proposing:
                await asyncio.to_thread(settle_writes, self.folder.repo, self._begun_writes())
            self.log.record("", 0, TaskResumed(traceback=words))
            await self.log.commit()
            if job.state.resumes >= MAX_CRASHES:
                said = "" if job.state.traceback else " Nothing was left that says why."
                return Decision(
                    "infra", "crash_loop", f"It was interrupted {MAX_CRASHES} times in a row.{said}"
                )
        contents = self.store.contents(self.task.id)
        if self.tree.overlay:
            restore_overlay(self.tree.overlay, self._past, contents)
        restore(job, self._past, contents)
        if job.state.phase in ("proposed", "applying"):
            return await apply_proposal(job, self.tree, self._past, contents)
        return None

    def _begun_writes(self) -> list[tuple[FileHashes, ...]]:
        """What may have been half written when the process died."""
        begun = [call.changes for call in self.log.state.open_calls.values()]
        applied = [event.body.changes for event in self._past if isinstance(event.body, ApplyStarted)]
        return [*begun, *(applied[-1:] if self.log.state.phase == "applying" else [])]

    def _earlier_report(self) -> str:
        """What is left of the task that this one takes up: its report, and nothing else."""
        row = self.store.task(self.task.resumes) if self.task.resumes else None
        if row is None:
            return ""
        state = recall(self.store, row)
        return render_markdown(build_report(state), state).strip()

    async def _record_start(self, job: Job, config: Config, bounds: Resolved) -> None:
        started = TaskStarted(
            text=self.task.text,
            goal=self.task.goal,
            constraints=self.task.constraints,
            flow=job.flow,
            model=job.models[None].name,
            tools=tuple(job.tools),
            boundaries=bounds.globs,
            unenforced=bounds.unenforced,
            baseline=await self.tree.begin(),
            config=without_secrets(config),
        )
        self.log.record("", 0, started)
        await self.log.commit()

    def _boundaries(self, config: Config) -> Resolved:
        """What is out of bounds: as resolved when the task began, not anew against a tree that it changed."""
        if self._past:
            return Resolved(self.log.state.boundaries, unenforced=self.log.state.unenforced)
        return task_boundaries(self.folder.repo, config, self.task)

    async def _open_models(
        self, stack: AsyncExitStack, loaded: Loaded, flow: Flow
    ) -> tuple[dict[str | None, Model], dict[str | None, ModelSettings]]:
        models: dict[str | None, Model] = {}
        settings: dict[str | None, ModelSettings] = {}
        for name in model_names(flow):
            given = self.models.get(name)
            if given is not None:
                models[name], settings[name] = given, ModelSettings(model=given.name)
            else:
                settings[name] = loaded.config.model_settings(name)
                opened = await stack.enter_async_context(open_model(settings[name], self.folder.repo))
                if isinstance(opened, ScriptedModel):
                    opened.skip(requests_made(self._past, flow, name))
                models[name] = opened
        return models, settings

    async def _pause(self, why: Decision) -> Report:
        """A dry run waits for `apply` or `abort`, and so does a proposal that could not be applied."""
        if why.reason != "conflict":
            made = await self.tree.record_proposal()
            summary = write_summary(self.log.state, "PROPOSED", why.reason, why.detail, made.files)
            self.log.record(
                "",
                0,
                ProposalMade(before=made.before, after=made.after, summary=summary, files_changed=made.files),
            )
        await self.log.commit_state("PROPOSED")
        return build_report(self.log.state)

    async def _end(self, ending: TaskState, why: Decision, trace: str = "") -> Report:
        """Records how it ended, with what really differs in the tree, and writes the report."""
        log = self.log
        changes = Changes() if self._proposing else await self.tree.final_changes()
        verified = ending == "SUCCESS" and bool(log.state.passing_run)
        ended = TaskEnded(
            state=ending,
            verified=verified,
            reason=why.reason,
            summary=write_summary(log.state, ending, why.reason, why.detail, changes.files),
            files_changed=changes.files,
            tree=changes.tree,
            diffstat=changes.diffstat,
            traceback=trace,
        )
        log.record("", 0, ended)
        keep = self._keep_conversation
        await log.commit_state(ending, keep_bodies=keep)
        if not keep:
            self.folder.forget_outputs(log.state.task)
        report = build_report(log.state)
        if codes := report_problems(report.model_dump(mode="json")):
            log.record("", 0, TaskReportInvalid(codes=codes))
            await log.commit()
        self.folder.write_report(report, log.state)
        await asyncio.to_thread(prune_runs, self.folder.runs, self._runs_to_keep(report), self.now())
        return report

    def _runs_to_keep(self, report: Report) -> set[str]:
        """Runs that a report refers to: this task's, and those of tasks that ended stuck."""
        stuck = (row.task.id for row in self.store.tasks() if row.state == "STUCK")
        return {*report.run_ids, *(run for task in stuck for run in fold(self.store.events(task)).run_ids)}


def choose_flow(loaded: Loaded, options: Options, folder: Folder) -> Flow:
    """The flow that a task is carried out with; ConfigError where there is none such."""
    return flow_from_config(loaded.config, options.flow, folder.repo, SPECS, loaded.documents)


def requests_made(past: Iterable[Event], flow: Flow, model: str | None) -> int:
    """How often a task has asked one of its models so far."""
    models = {stage.id: stage.model for stage in (*flow.stages, flow.replan)}
    asked = [event for event in past if isinstance(event.body, ReplyReceived | ReplyFailed | PhaseProbed)]
    return sum(models.get(re.split(r"#", event.path)[0]) == model for event in asked)


def model_names(flow: Flow) -> tuple[str | None, ...]:
    """The models that a flow's stages name; None is the default."""
    return tuple(dict.fromkeys((None, *(stage.model for stage in flow.stages))))

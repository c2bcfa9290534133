"""The engine: takes tasks in, carries them out one at a time, and leaves a record whatever happens."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headgate.checks.retention import prune_runs
from headgate.config.flows import flow_from_config
from headgate.config.load import Loaded
from headgate.config.schema import Config
from headgate.core.boundaries import Resolved
from headgate.core.events import TaskEnded, TaskResumed, TaskStarted
from headgate.core.flow import Flow
from headgate.core.messages import Model, clean_text
from headgate.core.report import Report, build_report, write_summary
from headgate.core.rules import Decision
from headgate.core.settings import ModelSettings
from headgate.core.state import State, fold
from headgate.core.task import Constraints, Task, TaskState, parse_task_text
from headgate.engine.bus import Bus
from headgate.engine.folder import Folder
from headgate.engine.log import TaskLog
from headgate.engine.outfit import (
    TOOLS,
    build_context,
    build_verifier,
    check_monorepo,
    pinned,
    secret_patterns,
    task_boundaries,
    tools_for,
    without_secrets,
)
from headgate.engine.store import Store
from headgate.engine.tree import TaskTree
from headgate.errors import ConfigError, HeadgateError
from headgate.host.git import Snapshots
from headgate.host.lock import FileLock
from headgate.models.base import check_model, open_model
from headgate.models.scripted import ScriptedModel
from headgate.run.flow import run_flow
from headgate.run.job import Job
from headgate.run.restore import restore
from headgate.tools.guards import redactor

ENDINGS: dict[str, TaskState] = {"advance": "SUCCESS", "stuck": "STUCK", "infra": "INFRA_ERROR"}
SPECS = tuple(tool.spec for tool in TOOLS)
MAX_RESUMES = 3
"""How often in a row a task may be taken up again without getting anywhere."""


@dataclass
class Engine:
    """One repository's engine. Models, clock and sleep can be handed in; by default they are real."""

    repo: Path
    loaded: Loaded
    store: Store
    folder: Folder
    bus: Bus = field(default_factory=Bus)
    models: Mapping[str | None, Model] = field(default_factory=dict)
    """Models to use instead of those that the configuration names."""
    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @classmethod
    def open(
        cls,
        repo: Path,
        loaded: Loaded,
        bus: Bus | None = None,
        models: Mapping[str | None, Model] | None = None,
    ) -> "Engine":
        repo = repo.resolve()
        folder = Folder(repo)
        folder.create()
        return cls(repo, loaded, Store(folder.database), folder, bus or Bus(), models or {})

    def submit(self, text: str, constraints: Constraints, flow: str | None = None) -> Task:
        """Takes a task in. What is wrong with its flow or its model is said now, not later."""
        given = (text, *constraints.keep, *constraints.non_goals, *constraints.boundaries)
        if any(clean_text(part) != part for part in given):
            raise ConfigError("The task is not UTF-8 text.")
        goal, stated = parse_task_text(text)
        if not goal:
            raise ConfigError("The task is empty: say in plain words what is to be done.")
        chosen = self._flow(flow)
        check_monorepo(self.repo, self.loaded.config)
        for name in self._model_names(chosen):
            if name not in self.models:
                check_model(self.loaded.config.model_settings(name), self.repo)
        return self.store.add_task(
            lambda task_id: Task(
                id=task_id, text=text, goal=goal, constraints=stated + constraints, flow=flow
            ),
            self.now(),
        )

    async def run(self, task: Task, on_wait: Callable[[str], None] = lambda holder: None) -> Report:
        """Carries a task out, when nobody else is working in the repository, and returns its report."""
        lock = FileLock(self.folder.lock)
        try:
            await self._acquire(lock, on_wait)
        except asyncio.CancelledError:
            self.store.forget(task)
            raise
        try:
            for row in self.store.tasks():
                if row.state == "RUNNING":
                    # Nobody has the lock, so the process that ran it is gone.
                    await self._run_locked(row.task)
            return await self._run_locked(task)
        finally:
            lock.release()

    async def _acquire(self, lock: FileLock, on_wait: Callable[[str], None]) -> None:
        if lock.try_acquire():
            return
        on_wait(lock.holder())
        while not lock.try_acquire():
            await asyncio.sleep(0.2)

    async def _run_locked(self, task: Task) -> Report:
        log = TaskLog(self.store, self.bus, task, self.now)
        tree = TaskTree(Snapshots(self.repo), lambda: log.state.first_hashes)
        try:
            decision = await self._carry_out(task, log, tree)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current:
                current.uncancel()
            return await self._end(log, tree, "CANCELLED", Decision("fail", "cancelled"))
        except (HeadgateError, OSError) as error:
            return await self._end(log, tree, "INFRA_ERROR", Decision("infra", "environment", str(error)))
        except BaseException as error:
            detail = f"Headgate itself failed: {type(error).__name__}: {error}"
            await self._end(log, tree, "INFRA_ERROR", Decision("infra", "crash", detail))
            raise
        return await self._end(log, tree, ENDINGS[decision.action], decision)

    async def _carry_out(self, task: Task, log: TaskLog, tree: TaskTree) -> Decision:
        events = self.store.events(task.id)
        if events:
            log.state = fold(events)
            tree.resume(log.state.baseline, log.state.left_behind)
        config = pinned(self.loaded.config, log.state.config)
        flow = log.state.flow or self._flow(task.flow)
        async with AsyncExitStack() as stack:
            models, settings = await self._open_models(stack, flow)
            bounds = await asyncio.to_thread(self._boundaries, config, task, log.state)
            redact = redactor(self.repo, secret_patterns(config))
            context = build_context(
                self.folder, config, task, self.bus, redact, lambda: log.state.plan, bounds
            )
            stack.callback(context.protected.forget if context.protected else lambda: None)
            job = Job(
                task=task,
                flow=flow,
                log=log,
                models=models,
                model_settings=settings,
                tools={tool.name: tool for tool in tools_for(config)},
                context=context,
                verifier=build_verifier(self.folder, config, self.bus),
                tree=tree,
                redact=redact,
                now=self.now,
                sleep=self.sleep,
                pulse=self.bus.pulse,
                agents_md=config.agents_md,
            )
            if events:
                log.record("", 0, TaskResumed())
                await log.commit()
                if log.state.resumes > MAX_RESUMES:
                    return Decision("infra", "crash_loop", "It was interrupted again and again.")
                restore(job, events, self.store.contents(task.id))
            else:
                started = TaskStarted(
                    text=task.text,
                    goal=task.goal,
                    constraints=task.constraints,
                    flow=flow,
                    model=models[None].name,
                    tools=tuple(job.tools),
                    boundaries=bounds.globs,
                    unenforced=bounds.unenforced,
                    baseline=await tree.begin(),
                    config=without_secrets(config),
                )
                log.record("", 0, started)
                await log.commit_state("RUNNING")
            decision = await run_flow(job)
            for model in models.values():
                if isinstance(model, ScriptedModel) and decision.action != "infra":
                    model.check_finished()
            return decision

    def _boundaries(self, config: Config, task: Task, state: State) -> Resolved:
        """What is out of bounds: as resolved when the task began, not anew against a tree that it changed."""
        if state.started_at:
            return Resolved(state.boundaries, unenforced=state.unenforced)
        return task_boundaries(self.repo, config, task)

    async def _end(self, log: TaskLog, tree: TaskTree, ending: TaskState, why: Decision) -> Report:
        """Records how it ended, with what really differs in the tree, and writes the report."""
        files = await tree.final_changes()
        verified = ending == "SUCCESS" and bool(log.state.passing_run)
        summary = write_summary(log.state, ending, why.reason, why.detail, files)
        ended = TaskEnded(
            state=ending,
            verified=verified,
            reason=why.reason,
            summary=summary,
            files_changed=files,
        )
        log.record("", 0, ended)
        keep = self.loaded.config.keep_conversations
        await log.commit_state(ending, keep_bodies=keep)
        if not keep:
            self.folder.forget_outputs(log.state.task)
        report = build_report(log.state)
        self.folder.write_report(report, log.state.notes)
        await asyncio.to_thread(prune_runs, self.folder.runs, self._runs_to_keep(report), self.now())
        return report

    def _runs_to_keep(self, report: Report) -> set[str]:
        """Runs that a report refers to: this task's, and those of tasks that ended stuck."""
        stuck = (row.task.id for row in self.store.tasks() if row.state == "STUCK")
        return {*report.run_ids, *(run for task in stuck for run in fold(self.store.events(task)).run_ids)}

    async def _open_models(
        self, stack: AsyncExitStack, flow: Flow
    ) -> tuple[dict[str | None, Model], dict[str | None, ModelSettings]]:
        models: dict[str | None, Model] = {}
        settings: dict[str | None, ModelSettings] = {}
        for name in self._model_names(flow):
            given = self.models.get(name)
            if given is not None:
                models[name], settings[name] = given, ModelSettings(model=given.name)
            else:
                settings[name] = self.loaded.config.model_settings(name)
                models[name] = await stack.enter_async_context(open_model(settings[name], self.repo))
        return models, settings

    def _flow(self, name: str | None) -> Flow:
        return flow_from_config(self.loaded.config, name, self.repo, SPECS, self.loaded.documents)

    def _model_names(self, flow: Flow) -> tuple[str | None, ...]:
        return tuple(dict.fromkeys((None, *(stage.model for stage in flow.stages))))

"""One task being carried out: from the moment it is RUNNING to its report."""

import asyncio
import faulthandler
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from headgate.config import Config, is_on_this_machine
from headgate.core import (
    Decision,
    Report,
    State,
    Task,
    TaskResumed,
    TaskStarted,
    TaskState,
    build_report,
    fold,
    render_markdown,
)
from headgate.engine.assembly import (
    build_context,
    build_verifier,
    secret_patterns,
    task_boundaries,
    tools_for,
    without_secrets,
)
from headgate.engine.ending import PhaseFile, Rest
from headgate.engine.flow_models import open_models
from headgate.engine.interrupted import Leftovers, TellingProtection
from headgate.engine.keeping import Keeper, KeepingProtection, commit_events
from headgate.engine.proposals import apply_proposal
from headgate.engine.resolved import ResolvedConfig, resolve_package
from headgate.engine.tree import TaskTree
from headgate.errors import HeadgateError
from headgate.models import ScriptedModel
from headgate.process import uninterrupted
from headgate.protect import Resolved, Restored, redactor
from headgate.run import Job, restore, restore_overlay, run_flow
from headgate.store import Bus, Folder, Store, TaskLog, recall
from headgate.workspace import OverlayWorkspace, Snapshots

# What a process whose interpreter crashes can still say: where it was.


_LONGEST = 20_000


def read_last_words(path: Path) -> str:
    """What the process before this one left there, if it died."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:_LONGEST].strip()
    except OSError:
        return ""


@contextmanager
def last_words(path: Path) -> Iterator[None]:
    """Has the interpreter write a traceback there if it crashes; the file is gone when all went well."""
    with path.open("w", encoding="utf-8") as file:
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()
    path.unlink(missing_ok=True)


ENDINGS: dict[str, TaskState] = {
    "advance": "SUCCESS",
    "fail": "CANCELLED",
    "stuck": "STUCK",
    "infra": "INFRA_ERROR",
}
CANCELLED = Decision("fail", "cancelled")
"""The only decision to fail that ends a task: a stage that fails leaves it stuck."""
MAX_CRASHES = 3
"""How often in a row a task may end its process without getting anywhere."""
CONTROL_SECONDS = 0.2
"""How often a running task looks whether another process wants it cancelled."""


def _stays_here(address: str) -> bool:
    """Whether a model is on this machine; a script has no address."""
    return not address or is_on_this_machine(address)


@dataclass
class Execution:
    """Carries a task out, hears when it is to be cancelled, and ends it with a record whatever happens."""

    task: Task
    folder: Folder
    store: Store
    bus: Bus
    resolve: Callable[[Task, State], ResolvedConfig]
    """Finds what the task is carried out with, once; the state is what earlier processes recorded."""
    known: State
    """What was folded of the task's events so far; it is used if no event is missing."""
    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    keep_last_words: bool = False
    """Have the interpreter write down where it was, should it crash: for processes that do nothing else."""
    crash: Exception | None = None
    """A bug in Headgate that ended the task, once it has ended."""
    _work: "asyncio.Task[Decision] | None" = field(default=None, init=False)
    _cancel_sent: bool = field(default=False, init=False)
    _keep_conversation: bool = field(default=False, init=False)
    _stopping: bool = field(default=False, init=False)
    _restored: tuple[Restored, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.log = TaskLog(self.store, self.bus, self.task, self.now)
        self.tree = TaskTree(Snapshots(self.folder.repo), lambda: self.log.state.first_hashes)
        self._past = self.store.events(self.task.id)
        self._attempts = self.store.attempts(self.task.id)
        if self._past:
            # A process that is gone left it RUNNING; this one goes on from there.
            self.log.state = self.known if self.known.last_seq == self._past[-1].seq else fold(self._past)
            self.tree.resume(self.log.state.baseline, self.log.state.left_behind)
            self._keep_conversation = bool(self.log.state.config.get("keep_conversations"))
        phase = self.log.state.phase
        self._proposing = self.task.dry_run and self.log.state.proposal is None
        self._interrupted = bool(self._past) and phase != "proposed"
        self._left = Leftovers(self.task, self.folder, self.store, self.log.state)
        self._keeper = Keeper(self.folder, self.store, lambda event: self.log.record("", 0, event))
        self._rest = Rest(self.task, self.folder, self.store, self.log, self.tree, self.now)

    def cancel(self) -> None:
        """Wakes the task up to be cancelled, once: what it has to clean up is not to be cancelled as well."""
        if self._work and not self._cancel_sent:
            self._cancel_sent = True
            self._work.cancel()

    async def run(self) -> Report:
        """The task's report. If this call is cancelled, so is the task, and only then does the call end."""
        self.folder.keep_ballast()
        words = read_last_words(self.folder.last_words)
        self.store.owned = True
        try:
            with last_words(self.folder.last_words) if self.keep_last_words else nullcontext():
                return await self._run(words)
        finally:
            self.store.owned = False

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
        await asyncio.to_thread(self._keeper.put_back)
        if work.cancelled():
            return await self._come_to_rest(CANCELLED)
        match work.exception():
            case None:
                return await self._come_to_rest(work.result())
            case HeadgateError() | OSError() as error:
                return await self._come_to_rest(Decision("infra", "environment", str(error)))
            case Exception() as bug:
                self.crash = bug
                detail = f"Headgate itself failed: {type(bug).__name__}: {bug}"
                trace = "".join(traceback.format_exception(bug))
                return await self._come_to_rest(Decision("infra", "crash", detail), trace)
            case other:
                raise other

    async def _come_to_rest(self, why: Decision, trace: str = "") -> Report:
        """A proposal of which nothing is written is not lost, whatever went wrong."""
        phase = self.log.state.phase
        unwritten = phase == "applying" and await asyncio.to_thread(self._left.abandon_apply, self.tree)
        if phase == "proposed" or (unwritten and why is not CANCELLED):
            return await self._rest.give_back(why)
        if why.action == "propose":
            return await self._rest.propose(why)
        return await self._rest.end(
            ENDINGS[why.action],
            why,
            trace,
            is_proposing=self._proposing,
            keep_conversation=self._keep_conversation,
        )

    async def _put_in_order(self, words: str) -> Decision | None:
        """Cleans up after a process that is gone; returns what ends the task at once, if it does."""
        if self._interrupted or self._attempts > 1:
            try:
                self._restored = await uninterrupted(asyncio.to_thread(self._left.clean_up))
            except (HeadgateError, OSError):
                if not self.store.is_cancelled(self.task.id):
                    raise  # otherwise the end, which looks at protected files again, tells of it
        if self._interrupted:
            for event in commit_events(self._restored):
                self.log.record("", 0, event)
        if self.store.is_cancelled(self.task.id):
            return CANCELLED
        if self._interrupted:
            told = tuple(one.sentence() for one in self._restored)
            self.log.record("", 0, TaskResumed(traceback=words, restored=told))
            await self.log.commit()
        if self._attempts > MAX_CRASHES:
            said = "" if words or self.log.state.traceback else " Nothing shows why."
            return Decision("infra", "crash_loop", f"It was interrupted {MAX_CRASHES} times in a row.{said}")
        return None

    async def _carry_out(self, words: str) -> Decision:
        if ended := await self._put_in_order(words):
            return ended
        task, log, repo = self.task, self.log, self.folder.repo
        resolved = self.resolve(task, log.state)
        # Tasks that came before this one may have moved or removed the package since it was submitted.
        config, flow = resolve_package(repo, resolved.config), resolved.flow
        self._keep_conversation = config.keep_conversations
        async with AsyncExitStack() as stack:
            if config.phase_log in ("log", "both"):
                stack.enter_context(self.bus.listening(PhaseFile(self.folder).hear))
            models, settings = await open_models(stack, resolved.models, flow, repo, self._past)
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
            if context.protected:
                kept = KeepingProtection(context.protected, self._keeper)
                context = replace(context, protected=TellingProtection(kept, self._restored))
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
                tests_closed=(self.task.protect_tests or config.protect_tests) == "all",
                proposing=self._proposing,
                earlier_report=self._earlier_report(),
            )
            refused = await self._take_up(job) if self._past else None
            if not self._past:
                await self._record_start(job, config, bounds)
            decision = refused or await run_flow(job)
            for model in models.values():
                if isinstance(model, ScriptedModel) and decision.action == "advance":
                    model.check_finished()
            return decision

    async def _take_up(self, job: Job) -> Decision | None:
        """Goes on with what an earlier process recorded; returns what ends the task at once, if it does."""
        contents = self.store.contents(self.task.id)
        if self.tree.overlay:
            restore_overlay(self.tree.overlay, self._past, contents)
        restore(job, self._past, contents)
        if job.state.phase in ("proposed", "applying"):
            return await apply_proposal(job, self.tree, self._past, contents)
        return None

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
            elsewhere=tuple(place for place in self.task.models if not _stays_here(place[1])),
            tools=tuple(job.tools),
            boundaries=bounds.globs,
            unenforced=bounds.unenforced,
            unmatched=bounds.unmatched,
            baseline=await self.tree.begin(),
            config=without_secrets(config),
        )
        self.log.record("", 0, started)
        await self.log.commit()

    def _boundaries(self, config: Config) -> Resolved:
        """What is out of bounds: as resolved when the task began, not anew against a tree that it changed."""
        if self._past:
            return Resolved(self.log.state.boundaries)
        return task_boundaries(self.folder.repo, config, self.task)

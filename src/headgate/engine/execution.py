"""One task being carried out: from the moment it is RUNNING to its report."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import field
from datetime import UTC, datetime

from headgate.config import is_on_this_machine
from headgate.core import (
    Decision,
    Event,
    Mishaps,
    OthersEdits,
    PersonSpoke,
    Proposed,
    StageEnded,
    StageStarted,
    State,
    Task,
    TaskResumed,
    TaskStarted,
    TaskState,
    VerifyRuns,
    clean_text,
    fold,
)
from headgate.engine.assembly import (
    secret_patterns,
    with_spared_tests,
    without_secrets,
)
from headgate.engine.outcome import OutcomeRecorder
from headgate.engine.preparation import Preparation, Prepared
from headgate.engine.proposals import apply_proposal, restore_overlay
from headgate.engine.recovery import InterruptedTask, LockLost, OwnFiles, restored_events, restoring_own_files
from headgate.engine.resolved import ResolvedConfig, resolve_package
from headgate.engine.tree import TaskTree, hides_secrets
from headgate.engine.worktree import Worktree, WorktreeGone, check_worktree, make_worktree
from headgate.errors import HeadgateError, describe_system
from headgate.features.phases import PhaseChanged
from headgate.features.recipes import RecipeEnded, RecipeStarted
from headgate.features.recipes.feature import describe_task
from headgate.first_use import dataclass
from headgate.guard import AskPerson, Restored, SecretNames
from headgate.log import Bus, Folder, Report, Store, TaskLog
from headgate.models import ScriptedModel
from headgate.process import FileLock, uninterrupted
from headgate.run import (
    Clock,
    Job,
    cannot_verify,
    restore,
    run_flow,
)
from headgate.tree import Snapshots

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


@dataclass
class Execution:
    """Carries a task out, watches for requests to cancel it, and always records how it ended."""

    task: Task
    folder: Folder
    store: Store
    bus: Bus
    resolve: Callable[[Task, State], ResolvedConfig]
    """Finds what the task is carried out with, once; the state is what earlier processes recorded."""
    known: State
    """What was folded of the task's events so far; it is used if no event is missing."""
    lock: FileLock
    """Held by this process: nobody else works in the repository."""
    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    keep_crash_trace: bool = False
    """Let the interpreter write a traceback to a file if it crashes: for processes that do nothing else."""
    person: AskPerson | None = None
    """Asks somebody who watches before a command runs or a file is written."""
    crash: Exception | None = None
    """A bug in Headgate that ended the task, once it has ended."""
    _work: "asyncio.Task[Decision] | None" = field(default=None, init=False)
    _began: float = field(default=0.0, init=False)
    _cancel_sent: bool = field(default=False, init=False)
    _keep_conversation: bool = field(default=False, init=False)
    _stopping: bool = field(default=False, init=False)
    _restored: tuple[Restored, ...] = field(default=(), init=False)
    _worktree: Worktree | None = field(default=None, init=False)
    """The worktree that was made for the task, if it has one and starts now."""

    def __post_init__(self) -> None:
        if self.task.worktree:
            self.folder = self.folder.at(self.task.id)
        self.log = TaskLog(self.store, self.bus, self.task, self.now)
        self._snapshots = Snapshots(self.folder.tree, self._is_hidden, self.folder.objects)
        self.tree = TaskTree(
            self._snapshots, lambda: self.log.state.first_hashes, lambda: self.log.state[OthersEdits]
        )
        self._past = self.store.events(self.task.id)
        self._attempts = self.store.attempts(self.task.id)
        if self._past:
            # A process that is gone left it RUNNING; this one goes on from there.
            self.log.state = self.known if self.known.last_seq == self._past[-1].seq else fold(self._past)
            self.tree.resume(self.log.state.baseline, self.log.state[VerifyRuns].left_behind)
            self._keep_conversation = bool(self.log.state.config.get("keep_conversations"))
        self._hides = hides_secrets(self.log.state)
        self._proposing = self.task.dry_run and self.log.state[Proposed].trees is None
        self._interrupted = bool(self._past) and self.log.state[Proposed].step != "proposed"
        self._interrupted_task = InterruptedTask(self.task, self.folder, self.store, self.log.state)
        self._own_files = OwnFiles(
            self.folder, self.store, self.lock, lambda event: self.log.record("", 0, event)
        )
        self._outcome = OutcomeRecorder(self.task, self.folder, self.store, self.log, self.tree, self.now)

    def _is_hidden(self, path: str) -> bool:
        return self._hides(path)

    def cancel(self) -> None:
        """Cancels the task. Only the first call counts, because the cleanup must not be cancelled as well."""
        if self._work and not self._cancel_sent:
            self._cancel_sent = True
            self._work.cancel()

    def conclude(self) -> None:
        """Lets the task conclude with what there is. Another process asks for it through the store."""
        self._stopping = True

    async def run(self) -> Report:
        """The task's report. If this call is cancelled, so is the task, and only then does the call end."""
        self.folder.keep_ballast()
        earlier_trace = self.folder.read_crash_trace()
        self.store.owned = True
        try:
            with self.folder.writing_crash_trace() if self.keep_crash_trace else nullcontext():
                return await self._run(earlier_trace)
        finally:
            self.store.owned = False

    async def _run(self, earlier_trace: str) -> Report:
        self._began = self.now()
        self._work = asyncio.create_task(self._carry_out(earlier_trace))
        watch = asyncio.create_task(self._watch_control())
        telling = asyncio.create_task(
            self.tree.tell(self.bus.pulse, lambda: not self.log.state.clock.started_at)
        )
        stopped: asyncio.CancelledError | None = None
        while not self._work.done():
            try:
                await asyncio.wait({self._work})
            except asyncio.CancelledError as error:
                stopped = error
                self.cancel()
        watch.cancel()
        telling.cancel()
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
        if not work.cancelled() and isinstance(lost := work.exception(), LockLost):
            raise lost
        await asyncio.to_thread(self._own_files.restore)
        if work.cancelled():
            return await self._record_outcome(CANCELLED)
        match work.exception():
            case None:
                return await self._record_outcome(work.result())
            case HeadgateError() as error:
                return await self._record_outcome(Decision("infra", "environment", str(error)))
            case OSError() as error:
                return await self._record_outcome(Decision("infra", "environment", describe_system(error)))
            case Exception() as bug:
                self.crash = bug
                detail = f"Headgate itself failed: {type(bug).__name__}: {bug}"
                trace = "".join(traceback.format_exception(bug))
                return await self._record_outcome(Decision("infra", "crash", detail), trace)
            case other:
                raise other

    async def _record_outcome(self, why: Decision, trace: str = "") -> Report:
        """Records how the task ended. A proposal of which nothing is written stays one in any case."""
        if self.log.state[Proposed].step == "proposed" or why.action == "propose":
            return await self._outcome.record("PROPOSED", why)
        keep = self._keep_conversation
        return await self._outcome.record(ENDINGS[why.action], why, trace, keep_conversation=keep)

    async def _clean_up(self, earlier_trace: str) -> Decision | None:
        """Cleans up after a process that is gone; returns a decision if the task ends at once."""
        if self._interrupted or self._attempts > 1:
            try:
                self._restored = await uninterrupted(asyncio.to_thread(self._interrupted_task.clean_up))
            except (HeadgateError, OSError):
                if not self.store.is_cancelled(self.task.id):
                    raise  # otherwise the end, which looks at protected files again, tells of it
        if self._interrupted:
            for event in restored_events(self._restored):
                self.log.record("", 0, event)
        if self.store.is_cancelled(self.task.id):
            return CANCELLED
        if self._interrupted:
            told = tuple(one.sentence() for one in self._restored)
            self.log.record("", 0, TaskResumed(traceback=earlier_trace, restored=told))
            await self.log.commit()
        if self._attempts > MAX_CRASHES:
            said = "" if earlier_trace or self.log.state[Mishaps].traceback else " Nothing shows why."
            return Decision("infra", "crash_loop", f"It was interrupted {MAX_CRASHES} times in a row.{said}")
        return None

    async def _carry_out(self, earlier_trace: str) -> Decision:
        try:
            if self._past:
                check_worktree(self.folder)
        except WorktreeGone as gone:
            return Decision("infra", "worktree_gone", str(gone))
        if ended := await self._clean_up(earlier_trace):
            return ended
        task = self.task
        resolved = self.resolve(task, self.log.state)
        if task.worktree and not self._past:
            try:
                self._worktree = await asyncio.to_thread(make_worktree, self.folder, task, resolved.config)
            except (HeadgateError, OSError) as error:
                return Decision("infra", "worktree_failed", str(error))
        # Tasks that came before this one may have moved or removed the package since it was submitted.
        config = with_spared_tests(resolve_package(self.folder.tree, resolved.config), task)
        self._keep_conversation = config.keep_conversations
        self._hides = SecretNames(secret_patterns(config)).covers
        async with AsyncExitStack() as stack:
            if config.phase_log in ("log", "both"):
                stack.enter_context(self.bus.listening(self._log_phase))
            prepared = await self._preparation().prepare(stack, resolved, config)
            job = prepared.job
            self._outcome.redact, self._outcome.protected = job.place.redact, job.place.context.protected
            if job.flow.recipes:
                stack.enter_context(self.bus.listening(lambda event: self._write_context(job, event)))
                stack.callback(self.folder.forget_context)
            if self._past:
                refused = await self._resume(job)
            else:
                refused = await cannot_verify(job)  # before the task's time begins
                await self._record_start(prepared)
            decision = refused or await run_flow(job)
            for model in job.models.clients.values():
                if isinstance(model, ScriptedModel) and decision.action == "advance":
                    model.check_finished()
            return decision

    def _preparation(self) -> Preparation:
        return Preparation(
            task=self.task,
            folder=self.folder,
            store=self.store,
            bus=self.bus,
            log=self.log,
            tree=self.tree,
            snapshots=self._snapshots,
            past=self._past,
            clock=Clock(self.now, self.sleep),
            person=self.person,
            stopping=lambda: self._stopping,
            proposing=self._proposing,
            around=restoring_own_files(self._own_files, self._restored),
        )

    def _write_context(self, job: Job, event: Event) -> None:
        """Keeps the document about the task up to date, for people and for the steps of recipes."""
        if isinstance(event.body, TaskStarted | RecipeStarted | RecipeEnded | StageStarted | StageEnded):
            self.folder.write_context(describe_task(job))

    def _log_phase(self, event: Event) -> None:
        """Writes each change of phase to a file."""
        if isinstance(event.body, PhaseChanged):
            at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="seconds")
            self.folder.log_phase(event.task, f"{at} {event.path} turn {event.turn} {event.body}")

    async def _resume(self, job: Job) -> Decision | None:
        """Restores what an earlier process recorded; returns a decision if that ends the task at once."""
        contents = self.store.contents(self.task.id)
        if self.tree.overlay:
            restore_overlay(self.tree.overlay, self._past, contents)
        restore(job, self._past, contents)
        if job.state[Proposed].step == "proposed":
            return await apply_proposal(job, self.tree)
        return None

    async def _record_start(self, prepared: Prepared) -> None:
        job, bounds = prepared.job, prepared.bounds
        started = TaskStarted(
            began=self._began,
            text=self.task.text,
            goal=self.task.goal,
            constraints=self.task.constraints,
            flow=job.flow,
            model=job.models.clients[None].name,
            elsewhere=tuple(
                (model, address)
                for model, address in self.task.models
                if address and not is_on_this_machine(address)  # a script has no address
            ),
            tools=tuple(job.parts.tools),
            boundaries=bounds.globs,
            unenforced=bounds.unenforced,
            unmatched=bounds.unmatched,
            baseline=await self.tree.begin(),
            config=without_secrets(prepared.config),
            tells_edits=True,
            worktree=self._worktree.base if self._worktree else "",
            remarks=self._worktree.notes if self._worktree else (),
            sandbox="" if self._proposing else prepared.sandbox,
            follows=self.task.follows,
        )
        self.log.record("", 0, started)
        for line in self.store.lines(self.task.id):  # said while it was queued
            spoke = PersonSpoke(text=job.place.redact(clean_text(line.text)), number=line.number)
            self.log.record("", 0, spoke)
        await self.log.commit()

"""The engine: accepts tasks, runs them one at a time in the order of submission, and cancels them."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from headgate.config import Loaded, pin
from headgate.core import (
    SETTLED_STATES,
    Constraints,
    Model,
    Options,
    State,
    Task,
    check_line,
    check_task_text,
    parse_task_text,
)
from headgate.engine.assembly import secret_guard, task_boundaries
from headgate.engine.bring_in import Overlap, settle_rewrite
from headgate.engine.execution import Execution
from headgate.engine.flow_models import describe_servers
from headgate.engine.merging import (
    UNHEARD,
    Merged,
    MergeProgress,
    discard_worktree,
    is_mergeable,
    merge_task,
)
from headgate.engine.proposals import discard_proposal, settle_proposal
from headgate.engine.recovery import check_lock, write_missing_report
from headgate.engine.resolved import PARTS, FlowParts, ResolvedConfig, load_options, resolve, resolve_stored
from headgate.engine.successors import Successor, follow_up, retry_of
from headgate.engine.task_follower import QueueWait, TaskFollower, removed
from headgate.engine.tree import diff_of
from headgate.engine.undo import Undone, undo_task
from headgate.engine.worktree import check_worktree_options
from headgate.errors import ConfigError
from headgate.features.mentions.feature import check_mentions
from headgate.first_use import dataclass
from headgate.guard import AskPerson
from headgate.log import (
    Bus,
    CancelOutcome,
    Folder,
    Pause,
    Report,
    Store,
    build_report,
    complete_state,
    find_pause,
    load_state,
)
from headgate.process import FileLock
from headgate.tree import DiskWorkspace

FOLLOW_SECONDS = 0.2
"""How often a process that waits looks at the store and the lock."""
HAND_OVERS = 3
"""Workers that `run` starts for the tasks before its own; if they all die, it does their work itself."""


@dataclass
class Engine:
    """One repository's engine. Models, clock and sleep can be handed in; by default they are real."""

    repo: Path
    loaded: Loaded | None
    """The configuration for every task; None reads it for each when it is submitted."""
    store: Store
    folder: Folder
    bus: Bus = field(default_factory=Bus)
    models: Mapping[str | None, Model] = field(default_factory=dict)
    """Models to use instead of those that the configuration names."""
    start_worker: Callable[[FileLock], None] | None = None
    """Starts a process that drains the queue and hands it the lock. None: `run` carries out what is before
    its own task by itself, and what comes after it stays queued."""
    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    keep_crash_trace: bool = False
    person: AskPerson | None = None
    """See `Execution`, also for `keep_crash_trace`."""
    on_notice: Callable[[str], None] = lambda line: None
    """Called with each line that the person who submits a task should read before it is stored."""
    notes: tuple[str, ...] = ()
    """What people should know about the opening: what was lost or damaged, and what was restored."""
    read_config: Callable[[Options], Loaded] | None = None
    """Reads the configuration for a task with these options; None reads the files each time."""
    parts: FlowParts = PARTS
    """What a flow may name besides tools: checks, and kinds of stages."""
    _execution: Execution | None = field(default=None, init=False)
    _latest: tuple[str, str, ResolvedConfig] | None = field(default=None, init=False)
    """What the task that was submitted last is carried out with, and its id and pin."""

    @classmethod
    def open(
        cls,
        repo: Path,
        loaded: Loaded | None = None,
        bus: Bus | None = None,
        models: Mapping[str | None, Model] | None = None,
        start_worker: Callable[[FileLock], None] | None = None,
        read_config: Callable[[Options], Loaded] | None = None,
        parts: FlowParts = PARTS,
    ) -> "Engine":
        repo = repo.resolve()
        folder = Folder(repo)
        folder.check_deleted()
        folder.create()
        store = Store(folder.database)
        write_missing_report(folder, store)
        return cls(
            *(repo, loaded, store, folder, bus or Bus(), models or {}, start_worker),
            notes=store.notes,
            read_config=read_config,
            parts=parts,
        )

    def submit(self, text: str, constraints: Constraints, options: Options | None = None) -> Task:
        """Stores a task as QUEUED, with its configuration and its flow as they are now.

        Later changes to files have no effect on it. ConfigError if something is wrong with them.
        """
        stated = parse_task_text(text).constraints + constraints
        if options and options.follows:
            return self._add_task(follow_up(self.store, text, stated, options))
        return self._add_task(Successor(text, stated, options or Options()))

    def _add_task(self, new: Successor) -> Task:
        text, constraints, options = new.text, new.constraints, new.options
        stated = check_task_text(text, constraints)
        for line in filter(None, (new.notice, *check_worktree_options(self.repo, options))):
            self.on_notice(line)
        resolved, stored = self._pin_now(options, stated.request)
        workspace = DiskWorkspace(self.repo, (secret_guard(self.repo, resolved.config),))
        models = [model.settings for model in resolved.models]
        for line in check_mentions(workspace, resolved.config.package, models, f"{text}\n{new.added}"):
            self.on_notice(line)
        fields = {**options.model_dump(), **resolved.task_fields(self.repo, options), "added": new.added}
        task = self.store.add_task(
            lambda task_id: Task(id=task_id, text=text, goal=stated.goal, constraints=constraints, **fields),
            self.now(),
            stored,
        )
        self._latest = (task.id, stored, resolved)
        return task

    def _pin_now(self, options: Options, request: str) -> tuple[ResolvedConfig, str]:
        """Resolves the configuration of a task that is submitted now; returns it and the pin to store."""
        resolved = resolve(self._present(options), options, request, self.folder, self.models, self.parts)
        for line in describe_servers(resolved.models, resolved.loaded, options, self.repo, resolved.flow):
            self.on_notice(line)
        return resolved, pin(resolved.loaded, resolved.flow, os.environ)

    def _present(self, options: Options) -> Loaded:
        """The configuration as it is now, for a task with these options."""
        read = self.read_config or (lambda asked: load_options(self.repo, asked, os.environ))
        return self.loaded or read(options)

    def pin_again(self, task_id: str) -> Task:
        """Gives a queued task the configuration as it is now, as if it were submitted now.

        A proposal that waits to be applied keeps the configuration that it was made with.
        """
        row = self.store.task(task_id)
        if row is None:
            raise ConfigError(f"Task {task_id} is gone.")
        task = row.task
        if row.state != "QUEUED" or row.applying:
            return task
        resolved, stored = self._pin_now(task.options, parse_task_text(task.text).request)
        task = task.model_copy(update=resolved.task_fields(self.repo, task.options))
        self.store.pin_again(task, stored)
        self._latest = (task.id, stored, resolved)
        return task

    def describe_boundaries(self, task: Task) -> tuple[str, ...]:
        """What the person who submitted a task should know about its boundaries: a line each."""
        return task_boundaries(self.repo, self._resolve(task, State()).config, task).describe()

    def retry(self, task_id: str, constraints: Constraints, options: Options, further: str = "") -> Task:
        """Stores a new task that tries an ended one again. It knows only the report of that one.

        It has the text, the constraints and the options of that one. What is given now is added, and an
        option that is given now replaces the earlier one.
        """
        return self._add_task(retry_of(self.store, task_id, constraints, options, further))

    async def apply(self, task_id: str) -> Task:
        """Puts a proposal at the queue's end, to be written and verified; `run` then follows it."""
        return await settle_proposal(self.store, task_id, "QUEUED", [])

    async def abort(self, task_id: str) -> Task:
        """Discards a proposal, or what an ended task left in its worktree."""
        row = self.store.task(task_id)
        if row and is_mergeable(row):
            await discard_worktree(self.folder, self.store, task_id, self.now)
            return row.task
        task = await discard_proposal(self.store, self.folder, task_id, self.now())
        if task.worktree:
            await discard_worktree(self.folder, self.store, task.id, self.now)
        return task

    async def merge(self, task_id: str, progress: MergeProgress = UNHEARD) -> Merged | Overlap:
        """Writes what an ended task changed in its worktree to the user's own tree, all or nothing; verifies.

        The steps are those that the task was started with.
        """
        with self._waking():
            return await merge_task(self.folder, self.store, task_id, self.now, progress)

    async def undo(self, task_id: str) -> Undone | Overlap:
        """Takes back what an ended task changed: all of it or nothing. ConfigError while a task runs."""
        with self._waking():
            return await undo_task(self.folder, self.store, task_id, self.now)

    @contextmanager
    def _waking(self) -> Iterator[None]:
        """Starts a worker afterwards: who submitted a task meanwhile relied on this process."""
        try:
            yield
        finally:
            self.wake_worker()

    def diff(self, task_id: str) -> bytes:
        """What a task proposes, or has changed (since it was applied), as a diff that `git apply` takes."""
        row = self.store.task(task_id)
        if row is None:
            raise ConfigError(f"Task {task_id} is gone.")
        return diff_of(self.repo, row, load_state(self.store, row))

    async def run(
        self,
        task: Task,
        on_wait: Callable[[QueueWait], None] = lambda wait: None,
        after: int = 0,
        known: State | None = None,
    ) -> Report:
        """Waits for a task's end, in whichever process it runs, and returns its report.

        While the lock is free, this process takes it and carries the task out. The bus hears of this task
        alone, from event number `after` on; `on_wait` is told, again and again, why it has not started. A
        call that is cancelled cancels the task. If the queue is paused before it is the task's turn, the task
        stays QUEUED and its report says so; a pause of before is an occasion to try again. `known` is what
        the caller has folded of the task's events so far; later events are folded into it.
        """
        follower = TaskFollower(self.store, self.bus, task, after, known or State())
        paused = self._pausing_event()
        lock = self.folder.work_lock()
        hand_overs = HAND_OVERS if self.start_worker else 0
        try:
            while True:
                row = self.store.task(task.id)
                follower.catch_up()
                if row is None or row.state in SETTLED_STATES:
                    break
                if row.state == "QUEUED" and self._pausing_event() > paused and not lock.is_held():
                    break
                if lock.try_acquire():
                    hand_overs -= await self._work_towards(task, lock, follower, hand_overs > 0, on_wait)
                else:
                    if not follower.has_started:
                        on_wait(QueueWait(self.store.count_ahead(task.id), lock.holder()))
                    await asyncio.sleep(FOLLOW_SECONDS)
        except asyncio.CancelledError:
            self.cancel(task.id)
            raise
        if self.start_worker and not find_pause(self.store):
            self._start_worker_if_needed(lock)
        if follower.crash:
            raise follower.crash
        return build_report(complete_state(follower.state, row)) if row else removed(task)

    async def _work_towards(
        self,
        task: Task,
        lock: FileLock,
        follower: TaskFollower,
        may_hand_over: bool,
        on_wait: Callable[[QueueWait], None],
    ) -> bool:
        """Runs the tasks before a task, and then the task itself; True if a worker was started to do it.

        This process holds the lock.
        """
        try:
            while (first := self.store.running() or self.store.head()) is not None:
                if first.task.id != task.id:
                    interrupted = first.task.id if first.state == "RUNNING" else ""
                    on_wait(QueueWait(self.store.count_ahead(task.id), lock.holder(), interrupted))
                    if may_hand_over and self.start_worker:
                        # What others submitted must outlive this process, which its user may end any time.
                        self.start_worker(lock)
                        return True
                following = await self._take_next(lock)
                if following is None:
                    break
                own = following.id == task.id
                if own:
                    follower.catch_up()
                    follower.crash = await self._execute(
                        following, lock, follower.execution_bus, follower.state
                    )
                else:
                    await self._execute(following, lock, Bus())
                if own or find_pause(self.store):
                    break
            if self.start_worker and self.store.head() and not find_pause(self.store):
                self.start_worker(lock)
        finally:
            lock.release()
        return False

    def _start_worker_if_needed(self, lock: FileLock) -> None:
        """Starts a worker if tasks are left and no process works on them."""
        if self.start_worker and self._is_work_left() and lock.try_acquire():
            try:
                self.start_worker(lock)
            finally:
                lock.release()

    def wake_worker(self, *, try_again: bool = False) -> Pause | None:
        """Starts a worker, unless a process is at work: that process finds the queued tasks.

        A paused queue stays paused, and the pause is returned, unless somebody asks to try again.
        """
        if not try_again and (pause := find_pause(self.store)):
            return pause
        self._start_worker_if_needed(self.folder.work_lock())
        return None

    async def drain(
        self, lock: FileLock | None = None, on_crash: Callable[[Exception], None] = lambda bug: None
    ) -> None:
        """Carries out what is queued, first in, first out, until nothing is left or another process works.

        It stops at a task that the environment fails, if the next one would fail in the same way.
        The queue is looked at again after the lock was released: who submits meanwhile finds the lock held
        and relies on that.
        """
        lock = lock or self.folder.work_lock()
        while lock.held or (self._is_work_left() and lock.try_acquire()):
            try:
                while task := await self._take_next(lock):
                    if crash := await self._execute(task, lock, self.bus):
                        on_crash(crash)
                    if find_pause(self.store):
                        return
            finally:
                lock.release()

    def working_lock(self) -> FileLock | None:
        """The lock under which this process carries a task out now; None if it carries out none."""
        return self._execution.lock if self._execution else None

    def cancel(self, task_id: str) -> CancelOutcome:
        """Cancels a queued task; asks whoever runs it to cancel a running one."""
        outcome = self.store.cancel(task_id, self.now())
        if outcome == "asked" and self._execution and self._execution.task.id == task_id:
            self._execution.cancel()
        return outcome

    def conclude(self, task_id: str) -> bool:
        """Asks for a running task to be concluded with what there is; False if it does not run."""
        asked = self.store.conclude(task_id, self.now())
        if asked and self._execution and self._execution.task.id == task_id:
            self._execution.conclude()
        return asked

    def say(self, task_id: str, text: str) -> bool:
        """Tells a queued or running task something, in any process; False if there is none such.

        The model reads it before its next turn. ConfigError if it is empty, too long or not text.
        """
        return self.store.say(task_id, check_line(text), self.now())

    async def settle_cancelled(self) -> None:
        """Ends a task that is to be cancelled and whose process is gone, if there is one."""
        lock = self.folder.work_lock()
        if not lock.try_acquire():
            return
        try:
            await settle_rewrite(self.folder, self.store, self.now)
            row = self.store.running()
            if row and self.store.is_cancelled(row.task.id):
                self.store.count_attempt(row.task.id)
                await self._execute(row.task, lock, Bus())
        finally:
            lock.release()
        if not find_pause(self.store):
            self._start_worker_if_needed(lock)

    def _pausing_event(self) -> int:
        """The number of the event that paused the queue; 0 if it is not paused."""
        pause = find_pause(self.store)
        return pause.seq if pause else 0

    def _is_work_left(self) -> bool:
        """Whether a task is queued or was interrupted, or an undo was."""
        return (self.store.head() or self.store.running()) is not None or bool(self.store.open_rewrite())

    async def _take_next(self, lock: FileLock) -> Task | None:
        """The task to carry out now: one that a crashed process left RUNNING, or the first in the queue.

        Only the holder of the lock may ask: while it is held, nobody else can be running a task.
        """
        check_lock(lock)
        await settle_rewrite(self.folder, self.store, self.now)
        row = self.store.running()
        if row is None:
            return self.store.claim()
        self.store.count_attempt(row.task.id)
        return row.task

    def _resolve(self, task: Task, state: State) -> ResolvedConfig:
        """What a task is carried out with: what this process submitted it with, or else what is stored."""
        stored = self.store.pin(task.id)
        if self._latest and stored and self._latest[:2] == (task.id, stored):
            return self._latest[2]
        present = self.loaded if stored else self._present(task)
        return resolve_stored(task, stored, state, present, self.folder, self.models, self.parts)

    async def _execute(
        self, task: Task, lock: FileLock, bus: Bus, known: State | None = None
    ) -> Exception | None:
        """Carries a claimed task out; returns the bug that ended it, if one did."""
        what = (task, self.folder, self.store, bus, self._resolve, known or State(), lock)
        how = (self.now, self.sleep, self.keep_crash_trace, self.person)
        self._execution = Execution(*what, *how)
        try:
            await self._execution.run()
            return self._execution.crash
        finally:
            self._execution = None

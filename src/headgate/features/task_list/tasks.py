"""A list of tasks that a model works through: which may start, which is in progress, what follows its end."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from headgate.core import (
    DRIVEN,
    SKIP_CONDITION,
    Decision,
    Ending,
    Note,
    Stage,
    StageState,
    cut_text,
    decide_given_up,
    decide_next,
    join_path,
    list_names,
    place_of,
    render_notes,
    say_reason,
    skip_stage,
    split_path,
    unknown_name,
)
from headgate.errors import ToolFailed
from headgate.first_use import dataclass
from headgate.run import (
    Entrance,
    GroupRun,
    Job,
    StageEnd,
    StageRun,
    clean_value,
    leave_stage,
    open_attempt,
    open_conversation,
    plan_room,
    record_end,
    reopen_attempt,
    stage_message,
    tell,
    wait_for_retry,
)

REASON_CHARS = 1_000
NAMES = 30
NAMES_CHARS = 1_000
DONE = Decision("advance", "done")
_FIXES = ("check_failed", "review")
"""Why a driver is entered again after its tasks have ended: to fix what was found."""
_MARKS: Mapping[str, str] = {
    "completed": "[x]",
    "exhausted": "[x]",
    "failed": "[!]",
    "skipped": "[-]",
    "running": "[>]",
    "pending": "[ ]",
}


@dataclass
class Tasks:
    """The tasks of one driver."""

    job: Job
    stage: Stage
    place: str
    driver: StageRun | None = None
    active: StageRun | None = None
    """The task in progress, if it continues the driver's conversation."""
    ended: Decision | None = None
    """What ends the flow, or the driver."""
    last: StageState | None = None
    """The latest attempt at a task in the driver's conversation that has ended."""
    is_cut_short: bool = False
    """A crash came before the answer to the call that ended it."""
    is_fixing: bool = False
    """The tasks have ended in an earlier round. The driver fixes what was found then."""

    @property
    def current(self) -> StageRun:
        """The attempt that the next call belongs to: at the task in progress, or at the stage around it."""
        assert self.driver is not None
        return self.active or self.driver

    @cached_property
    def round(self) -> GroupRun:
        return GroupRun(self.job, self.stage, self.place)

    def endings(self) -> Mapping[str, Ending]:
        return self.round.now().endings

    def open_tasks(self) -> list[str]:
        """The tasks that have not ended."""
        if self.is_fixing:
            return []
        now = self.round.now()
        over = {**now.endings, **now.absent}
        return [task.id for task in self.stage.stages if task.id not in over and not now.one_completed]

    def recap(self) -> str:
        """The list as it stands, for a model that no longer sees all that was said."""
        lines = [f"{_MARKS[self._status(task)]} {task.id}: {_about(task)}" for task in self.stage.stages]
        return "Tasks:\n" + "\n".join(lines)

    def _status(self, task: Stage) -> str:
        now = self.round.now()
        if task.id in now.endings:
            return now.endings[task.id]
        if task.id in now.absent:
            return "skipped"
        return "running" if self.active and self.active.stage.id == task.id else "pending"

    def available(self) -> Sequence[Stage]:
        """The tasks that may be started now."""
        return () if self.is_fixing else self.round.now().ready

    def say_available(self) -> str:
        names = [task.id for task in self.available()]
        if names:
            return f"Available tasks: {list_names(names, NAMES, NAMES_CHARS)}."
        return "All tasks have ended."

    # What the model calls.

    async def start(self, task: str) -> str:
        await self.job.log.commit()
        stage = self._find(task)
        if self.active and self.active.stage.id == stage.id:
            return f'Task "{stage.id}" is in progress.\n\n{stage_message(stage)}'
        if self.active:
            name = self.active.stage.id
            raise ToolFailed(f'Task "{name}" is in progress: end it with complete_task or fail_task first.')
        await self.record_what_follows()
        if self.is_cut_short and stage.kind != DRIVEN and stage.id in self.endings():
            return f"{self._result(stage)}\n\n{self.say_available()}"
        if self.ended or stage.id not in [ready.id for ready in self.available()]:
            raise ToolFailed(f"{self._why_not(stage)} {self.say_available()}")
        stage = self._within_budget(stage)
        if stage.kind != DRIVEN:
            self.ended = await self.round.run_stage(self.job, stage) or self.ended
            await self.record_what_follows()
            return f"{self._result(stage)}\n\n{self.say_available()}"
        entrance = await wait_for_retry(self.job, stage, join_path(self.place, stage.id))
        self.active = open_attempt(self.job, stage, self.place, entrance or Entrance())
        self.active.transcript.begin_stage(place_of(self.active.path), self.active.path)
        assignment = f"{entrance.message}\n\n" if entrance else ""
        return f'Task "{stage.id}" is started.\n\n{assignment}{stage_message(stage)}'

    async def complete(self, task: str, note: Note) -> str:
        await self.job.log.commit()
        child = self._in_progress(task)
        if child is None:
            return self._say_ended()
        said = note.summary or ("" if note.output is None else str(clean_value(child, note.output)))
        kept = await leave_stage(child, note.model_copy(update={"summary": cut_text(said, REASON_CHARS)}))
        await self._end(child, StageEnd(DONE, kept))
        return self._say_ended()

    async def fail(self, task: str, reason: str) -> str:
        await self.job.log.commit()
        child = self._in_progress(task)
        if child is None:
            return self._say_ended()
        why = cut_text(reason.strip(), REASON_CHARS) or "the model gave it up"
        decision = decide_given_up(child.state.counts.attempts, child.stage.budget, why)
        await self._end(child, StageEnd(decision, Note(summary=why, accepted=False)))
        return self._say_ended()

    def _say_ended(self) -> str:
        """The answer to the call that ended a task."""
        assert self.last is not None
        again = place_of(self.last.path) in self.job.state.tree.retries
        how = "is completed" if self.last.ending == "completed" else "has failed"
        again_said = " It can be started again." if again else ""
        return f'Task "{self.last.stage}" {how}.{again_said} {self.say_available()}'

    def _find(self, task: str) -> Stage:
        stages = {stage.id: stage for stage in self.stage.stages}
        by_name = {name.casefold(): stage for stage in stages.values() for name in (stage.id, stage.title)}
        found = stages.get(task) or by_name.get(task.strip().casefold())
        if found is None:
            said = unknown_name("task", task[:80], stages).removesuffix("?")
            mark = "?" if "did you mean" in said else "."
            raise ToolFailed(f"{said[0].upper()}{said[1:]}{mark} {self.say_available()}")
        return found

    def _in_progress(self, task: str) -> StageRun | None:
        """The task that a call ends; None if it has ended already, so that a crash cut the answer short."""
        named = self._find(task).id if task else ""
        if self.active and named in ("", self.active.stage.id):
            return self.active
        if self.active:
            name = self.active.stage.id
            raise ToolFailed(f'Task "{named}" was not started: the task in progress is "{name}".')
        ended = self.endings()
        if self.is_cut_short and self.last and named in ("", self.last.stage):
            return None
        if named in ended:
            raise ToolFailed(f'Task "{named}" has ended already. {self.say_available()}')
        what = f'Task "{named}" was not started' if named else "No task is in progress"
        raise ToolFailed(f"{what}: call start_task first. {self.say_available()}")

    def _why_not(self, stage: Stage) -> str:
        """Why a task cannot be started."""
        now = self.round.now()
        ended, absent = now.endings, now.absent
        if stage.id in ended or self.is_fixing:
            return f'Task "{stage.id}" has ended already ({ended.get(stage.id, "completed")}).'
        if stage.id in absent:
            return f'Task "{stage.id}" is not needed: its condition does not hold.'
        lacking = [need for need in stage.needs if ended.get(need) not in ("completed", "exhausted")]
        lacking = [need for need in lacking if need not in absent]
        wanted = f"it needs {', '.join(lacking)} first" if lacking else "what it depends on has not ended"
        return f'Task "{stage.id}" cannot be started yet: {wanted}.'

    def _within_budget(self, stage: Stage) -> Stage:
        """The task with no more turns than its driver has left: budgets include what is inside."""
        assert self.driver is not None
        left = max(self.driver.stage.budget.turns - self.driver.around().turns(self.driver.state.counts), 1)
        if stage.is_group or stage.budget.turns <= left:
            return stage
        return stage.model_copy(update={"budget": stage.budget.model_copy(update={"turns": left})})

    def _result(self, stage: Stage) -> str:
        """What a task returned that ran apart from the conversation."""
        assert self.driver is not None
        status, tree = self._status(stage), self.job.state.tree
        notes = [
            (leaf.id, self.job.state.notes[leaf.id])
            for leaf in stage.leaves()
            if leaf.id in self.job.state.notes
        ]
        said = render_notes(notes, plan_room(self.job, self.driver.stage))
        entered = tree.attempts.get(stage.id)
        why = (
            f" ({say_reason(entered[-1].why)})" if status == "failed" and entered and entered[-1].why else ""
        )
        return f'Task "{stage.id}" has ended: {status}{why}.' + (f"\n{said}" if said else "")

    # What follows the end of a task.

    async def _end(self, child: StageRun, end: StageEnd) -> None:
        """Records the end of a task that continued the driver's conversation."""
        if ended := record_end(child, end):
            child.transcript.end_stage(place_of(child.path), ended)
        self.active, self.last = None, child.state
        await self.record_what_follows()

    async def record_what_follows(self) -> None:
        """Records which tasks need not or cannot run any more, and whether that ends the driver."""
        await self.job.log.commit()
        if self.is_fixing or self.active or self.ended:
            return
        following = await self.round.next()
        for task in following.ready:
            refused = await self.round.ask_code(task)
            if refused == SKIP_CONDITION:
                await self.round.record(skip_stage(self.round.now(), task, refused))
            elif refused:
                self.ended = Decision("stuck", "condition_failed", refused)
                return
        end = decide_next(self.round.now()).end
        if end and end.how == "failed" and (failed := end.stage):
            why = self.job.state.notes[failed.id].summary if failed.id in self.job.state.notes else ""
            self.ended = Decision("fail", "stage_failed", f'task "{failed.id}" failed: {why}'.rstrip(": "))
        elif end:
            self.ended = await self.round.finish(end) or self.round.none_completed()

    async def leave(self, child: StageRun, end: StageEnd) -> None:
        """What follows if the runtime ended a task: its budget is used up, or the model is out of reach."""
        await self._end(child, end)
        if end.decision.action in ("stuck", "infra"):
            self.ended = end.decision
        elif end.decision.action == "retry":
            place = join_path(self.place, child.stage.id)
            entrance = await wait_for_retry(self.job, child.stage, place)
            self.active = open_attempt(self.job, child.stage, self.place, entrance or Entrance("retry"))
            await open_conversation(self.active, self.active.entrance)
        elif self.driver and not self.ended:
            status = self._status(child.stage)
            tell(
                self.driver,
                "task_ended",
                f'Task "{child.stage.id}" has ended: {status}. {self.say_available()}',
            )
            await self.job.log.commit()

    async def resume_groups(self) -> None:
        """After a crash: runs groups that were started to their end. The log does not tell if they ended."""
        for task in self.stage.stages:
            begun = join_path(self.place, task.id) in self.job.state.tree.rounds
            if task.is_group and begun and task.id not in self.round.ended_groups:
                self.ended = await self.round.run_stage(self.job, task) or self.ended

    def begin_attempt(self, run: StageRun) -> None:
        """Begins with an attempt at the driver, or goes on with one that a crash cut short."""
        self.driver, self.active, self.ended = run, None, None
        self.is_fixing = run.entrance.reason in _FIXES
        for task in self.stage.stages if run.interrupted else ():
            if task.kind == DRIVEN:
                self.active = reopen_attempt(self.job, task, join_path(self.place, task.id)) or self.active
        inside = [node for path, node in self.job.state.nodes.items() if path.startswith(f"{self.place}/")]
        self.last = next((node for node in reversed(inside) if node.ending and node.kind == DRIVEN), None)


def _about(task: Stage) -> str:
    """One line about a task, for the list."""
    what = " ".join((task.label or task.prompt or task.id).split())
    needs = f" (needs {', '.join(task.needs)})" if task.needs else ""
    return f"{cut_text(what, 200)}{needs}"


class _Lists(dict[str, Tasks]):
    """The list of each driver, by its place."""


def tasks_of(run: StageRun) -> Tasks:
    """The list that a stage leads, or is a task of. There is one for each place of a driver."""
    place = split_path(run.path).parent if run.stage.kind == DRIVEN else place_of(run.path)
    lists = run.job.memory.of(_Lists)
    if place not in lists:
        stage = run.job.stage_at(place)
        assert stage is not None
        lists[place] = Tasks(run.job, stage, place)
    return lists[place]

"""The kind `drive`: the model works through the stages in it, in an order of its own.

The stages are tasks to the model. It starts and ends them with calls; the runtime decides which may start,
and whether one is done. A task that is a plain conversation (the kind `driven`) continues that of the driver,
with its own tools, checks and budget. Anything else, such as a task with its own model, a group or a
verification, is run to its end by the runtime, and the call that started it is answered with the result.
"""

from collections.abc import Mapping
from typing import Any

from headgate.core import (
    COMPLETE_TOOL,
    DRIVEN,
    Decision,
    Note,
    Role,
    Stage,
    StageEnded,
    list_names,
    place_of,
    split_path,
)
from headgate.run.exits import try_exit
from headgate.run.job import Job
from headgate.run.ports import CallPorts
from headgate.run.stage import StageEnd, StageRun, TaskList
from headgate.run.talk import Talk, open_conversation, say_stages_ended, take_step
from headgate.run.task_list import NAMES, NAMES_CHARS, Tasks, TasksPort
from headgate.run.turn import finish_turn, take_turn

_GOES_ON_LATER = ("retry", "infra", "propose")
"""Decisions after which tasks that have not ended may still be started."""


async def _work_through(run: StageRun, tasks: Tasks) -> StageEnd:
    tasks.begin_attempt(run)
    if run.interrupted:
        await tasks.resume_groups()
        tasks.is_cut_short = True
        await finish_turn(tasks.current, run.interrupted.cut_off)
        tasks.is_cut_short = False
    else:
        listed = "" if tasks.is_fixing else f"{tasks.recap()}\n\nStart a task with start_task."
        await open_conversation(run, run.entrance, listed)
    while True:
        current = tasks.current
        if current is run and not tasks.is_fixing:
            await tasks.record_what_follows()
            if tasks.ended:
                return StageEnd(tasks.ended, run.state.note or Note(summary=tasks.ended.detail))
            if not tasks.open_tasks():
                await _finish(run, tasks)
        end = await take_step(current, take_turn)
        await say_stages_ended(current)
        if end is None:
            continue
        if current is run:
            return end
        if tasks.active is current:
            await tasks.leave(current, end)


async def _finish(run: StageRun, tasks: Tasks) -> None:
    """Ends the driver, unless it is to give an output of its own: then the model is asked for it."""
    if run.state.counts.done is not None or run.state.counts.granted:
        return
    ended = tasks.endings()
    done = [name for name, how in ended.items() if how in ("completed", "exhausted")]
    summary = (
        f"{len(done)} of {len(tasks.stage.stages)} tasks completed: {list_names(done, NAMES, NAMES_CHARS)}."
    )
    await try_exit(run, Note(summary=summary), by="rules")
    await run.job.log.commit()


class _Lists(dict[str, Tasks]):
    """The list of each driver, by its place."""


def _tasks_of(run: StageRun) -> Tasks:
    """The list that a stage leads, or is a task of. There is one for each place of a driver."""
    place = split_path(run.path).parent if run.stage.kind == DRIVEN else place_of(run.path)
    lists = run.job.memory.of(_Lists)
    if place not in lists:
        stage = run.job.stage_at(place)
        assert stage is not None
        lists[place] = Tasks(run.job, stage, place)
    return lists[place]


class Drive(Talk):
    """A conversation in which the model starts and ends the tasks, until all of them have ended.

    It ends with its last task: nobody would read a summary.
    """

    name = "drive"
    roles = frozenset[Role]({"conversation", "receives_failures"})

    async def run(self, run: StageRun) -> StageEnd:
        tasks = _tasks_of(run)
        end = await _work_through(run, tasks)
        if end.decision.action not in _GOES_ON_LATER and not tasks.is_fixing:
            await tasks.round.record_not_reached(end.decision)
        return end

    def adapt(self, job: Job, stage: Stage) -> Stage:
        """The driver with turns for its tasks: their turns count as its own."""
        if "turns" in stage.budget.model_fields_set:
            return stage
        turns = stage.budget.turns + sum(leaf.budget.turns for task in stage.stages for leaf in task.leaves())
        return stage.model_copy(update={"budget": stage.budget.model_copy(update={"turns": turns})})

    def task_list(self, run: StageRun) -> TaskList:
        return _tasks_of(run)

    def ports(self, call: CallPorts) -> Mapping[str, Any]:
        return {"tasks": TasksPort(call, _tasks_of(call.run))}

    async def after_end(self, run: StageRun, end: StageEnd, ended: StageEnded) -> None:
        run.transcript.end_stage(place_of(run.path), ended)


class Driven(Talk):
    """A task in the conversation of its driver, which runs it."""

    name = "driven"
    roles = frozenset[Role]({"conversation"})
    done_tool = COMPLETE_TOOL

    async def run(self, run: StageRun) -> StageEnd:
        """It has no driver only in a flow that nobody checked."""
        said = "it can only be a task of a stage of the kind drive"
        return StageEnd(Decision("fail", "no_driver", said))

    def task_list(self, run: StageRun) -> TaskList:
        return _tasks_of(run)

    def ports(self, call: CallPorts) -> Mapping[str, Any]:
        return {"tasks": TasksPort(call, _tasks_of(call.run))}

    async def after_end(self, run: StageRun, end: StageEnd, ended: StageEnded) -> None:
        """Nothing is left to do: its driver has noted its end."""

"""The kind `drive`: the model works through the stages in it, in an order of its own.

The stages are tasks to the model. It starts and ends them with calls; the runtime decides which may start,
and whether one is done. A task that is a plain conversation (the kind `driven`) continues that of the driver,
with its own tools, checks and budget. Anything else, such as a task with its own model, a group or a
verification, is run to its end by the runtime, and the call that started it is answered with the result.
"""

from collections.abc import Mapping, Sequence

from headgate.core import (
    COMPLETE_TOOL,
    FAIL_TOOL,
    START_TOOL,
    Decision,
    Note,
    Role,
    Stage,
    StageEnded,
    list_names,
    place_of,
)
from headgate.features.task_list.tasks import NAMES, NAMES_CHARS, Tasks, tasks_of
from headgate.features.task_list.tools import task_list_tools
from headgate.run import (
    Feature,
    Job,
    StageEnd,
    StageRun,
    Talk,
    finish_turn,
    open_conversation,
    say_stages_ended,
    take_step,
    take_turn,
    try_exit,
)
from headgate.tools import Tool

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


class _Listed(Talk):
    """What a stage that leads a list and the tasks in its conversation have in common."""

    def tools(self, run: StageRun) -> Mapping[str, Tool]:
        return task_list_tools([task.id for task in tasks_of(run).stage.stages])

    async def acting(self, run: StageRun) -> StageRun:
        await run.job.log.commit()
        return tasks_of(run).current

    def recap(self, run: StageRun) -> str:
        return tasks_of(run).recap()

    def open_stages(self, run: StageRun) -> Sequence[str]:
        return tasks_of(run).open_tasks()


class Drive(_Listed):
    """A conversation in which the model starts and ends the tasks, until all of them have ended.

    It ends with its last task: nobody would read a summary.
    """

    name = "drive"
    roles = frozenset[Role]({"conversation", "receives_failures"})
    withheld_tools = (COMPLETE_TOOL, FAIL_TOOL)

    async def run(self, run: StageRun) -> StageEnd:
        tasks = tasks_of(run)
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

    def tools_inside(self, stages: Sequence[Stage]) -> Mapping[str, Tool]:
        return task_list_tools([task.id for stage in stages for task in stage.stages]) if stages else {}

    async def after_end(self, run: StageRun, end: StageEnd, ended: StageEnded) -> None:
        run.transcript.end_stage(place_of(run.path), ended)


class Driven(_Listed):
    """A task in the conversation of its driver, which runs it."""

    name = "driven"
    roles = frozenset[Role]({"conversation"})
    done_tool = COMPLETE_TOOL
    ending_tools = (FAIL_TOOL,)
    withheld_tools = (START_TOOL,)

    async def run(self, run: StageRun) -> StageEnd:
        """It has no driver only in a flow that nobody checked."""
        said = "it can only be a task of a stage of the kind drive"
        return StageEnd(Decision("fail", "no_driver", said))

    def tools(self, run: StageRun) -> Mapping[str, Tool]:
        return task_list_tools([task.id for task in tasks_of(run).stage.stages], run.stage.output_schema)

    async def after_end(self, run: StageRun, end: StageEnd, ended: StageEnded) -> None:
        """Nothing is left to do: its driver has noted its end."""


FEATURE = Feature(kinds=(Drive(), Driven()))

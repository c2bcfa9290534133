"""The kind `drive`: the model works through the stages in it, in an order of its own.

The stages are tasks to the model. It starts and ends them with calls; the runtime decides which may start,
and whether one is done. A task that is a plain conversation (the kind `driven`) continues that of the driver,
with its own tools, checks and budget. Anything else, such as a task with its own model, a group or a
verification, is run to its end by the runtime, and the call that started it is answered with the result.
"""

from headgate.core import (
    COMPLETE_TOOL,
    DRIVEN,
    Decision,
    Note,
    Stage,
    StageEnded,
    list_names,
    place_of,
    split_path,
)
from headgate.run.compaction import compact_due
from headgate.run.exits import try_exit
from headgate.run.job import Job
from headgate.run.stage import Kind, StageEnd, StageRun
from headgate.run.talk import open_conversation, replay, take_step
from headgate.run.task_list import NAMES, NAMES_CHARS, Tasks
from headgate.run.turn import finish_turn, take_turn

_GOES_ON_LATER = ("retry", "infra", "propose")
"""Decisions after which tasks that have not ended may still be started."""


async def drive(run: StageRun) -> StageEnd:
    """A conversation in which the model starts and ends the tasks, until all of them have ended."""
    tasks = _tasks_of(run)
    end = await _work_through(run, tasks)
    if end.decision.action not in _GOES_ON_LATER and not tasks.is_fixing:
        await tasks.round.tell_not_reached(end.decision)
    return end


async def _work_through(run: StageRun, tasks: Tasks) -> StageEnd:
    tasks.take_up(run)
    if run.interrupted:
        await tasks.go_on_with_groups()
        tasks.is_cut_short = True
        await finish_turn(tasks.current, run.interrupted.cut_off)
        tasks.is_cut_short = False
    else:
        listed = "" if tasks.is_fixing else f"{tasks.recap()}\n\nStart a task with start_task."
        await open_conversation(run, run.entrance, listed)
    while True:
        current = tasks.current
        if current is run and not tasks.is_fixing:
            await tasks.settle()
            if tasks.ended:
                return StageEnd(tasks.ended, run.state.note or Note(summary=tasks.ended.detail))
            if not tasks.open_tasks():
                await _finish(run, tasks)
        end = await take_step(current, take_turn)
        await compact_due(current)
        if end is None:
            continue
        if current is run:
            return end
        if tasks.active is current:
            await tasks.leave(current, end)


async def _finish(run: StageRun, tasks: Tasks) -> None:
    """Ends the driver, unless it is to give an output of its own: then the model is asked for it."""
    if run.state.done is not None or run.state.final_granted:
        return
    ended = tasks.endings()
    done = [name for name, how in ended.items() if how in ("completed", "exhausted")]
    summary = (
        f"{len(done)} of {len(tasks.stage.stages)} tasks completed: {list_names(done, NAMES, NAMES_CHARS)}."
    )
    await try_exit(run, Note(summary=summary), implied=True, quiet=True)
    await run.job.log.commit()


def _tasks_of(run: StageRun) -> Tasks:
    """The list that a stage leads, or is a task of. There is one for each place of a driver."""
    place = split_path(run.path).parent if run.stage.kind == DRIVEN else place_of(run.path)
    lists: dict[str, Tasks] = run.job.memory.setdefault("drive", {})
    if place not in lists:
        stage = run.job.stage_at(place)
        assert stage is not None
        lists[place] = Tasks(run.job, stage, place)
    return lists[place]


async def _end_driver(run: StageRun, end: StageEnd, ended: StageEnded) -> None:
    """The driver's conversation ends with it: nobody would read a summary."""
    run.transcript.end_stage(place_of(run.path), ended)


async def _run_alone(run: StageRun) -> StageEnd:
    """A driven stage is run by its driver; it has none only in a flow that nobody checked."""
    return StageEnd(Decision("fail", "no_driver", "it can only be a task of a stage of the kind drive"))


def _with_turns(job: Job, stage: Stage) -> Stage:
    """The driver with turns for its tasks: their turns count as its own."""
    if "turns" in stage.budget.model_fields_set:
        return stage
    turns = stage.budget.turns + sum(leaf.budget.turns for task in stage.stages for leaf in task.leaves())
    return stage.model_copy(update={"budget": stage.budget.model_copy(update={"turns": turns})})


DRIVE_KIND = Kind(
    "drive",
    drive,
    is_told=True,
    is_conversation=True,
    adapt=_with_turns,
    task_list=_tasks_of,
    after_end=_end_driver,
    replay=replay,
)
DRIVEN_KIND = Kind(
    "driven",
    _run_alone,
    is_conversation=True,
    task_list=_tasks_of,
    done_tool=COMPLETE_TOOL,
    replay=replay,
)

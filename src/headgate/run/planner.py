"""The kind `planner`: the model decides what is done next; recipes say how.

Each decision to execute runs the stages of a recipe as a group in the planner's stage, and is answered with
their results. The planner's conversation does not contain what was said in them. A decision with the same
type and the same goals goes on with the same execution: steps that have completed do not run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from headgate.core import (
    Data,
    Decision,
    Execution,
    Note,
    RecipeStarted,
    StageEnded,
    cut_text,
    join_path,
    place_of,
    task_progress,
    unknown_name,
)
from headgate.errors import ToolFailed
from headgate.run.exits import clean_value
from headgate.run.group import Round
from headgate.run.job import Job
from headgate.run.stage import Kind, StageEnd, StageRun
from headgate.run.talk import open_conversation, replay, take_step
from headgate.run.turn import finish_turn, take_turn

GOALS_CHARS = 2_000
"""Of all goals of an execution: every step is told them."""
RESULT_CHARS = 1_500
"""Of each step, in what the planner is told."""


class PlannerSettings(Data):
    """The settings of a stage of the kind `planner`."""

    max_iterations: int = Field(10, ge=1, le=100)
    """How often it may have something executed."""


@dataclass
class Planning:
    """What a planner's calls do."""

    run: StageRun
    ended: Decision | None = None
    """What ends the flow."""

    def take_up(self, run: StageRun) -> None:
        """Begins with an attempt at the stage, or goes on with one that a crash cut short."""
        self.run, self.ended = run, None

    @property
    def place(self) -> str:
        return place_of(self.run.path)

    async def execute(self, task_type: str, goals: Sequence[str], cut_short: bool) -> str:
        """Has a recipe carried out, or goes on with it; returns its results."""
        job = self.run.job
        if task_type not in job.flow.recipes:
            said = unknown_name("type of task", task_type[:80], job.flow.recipes)
            raise ToolFailed(f"execute: {said}")
        wanted = [" ".join(clean_value(self.run, goal).split()) for goal in goals]
        if not all(wanted):
            raise ToolFailed("execute: each goal needs words")
        if (length := sum(map(len, wanted))) > GOALS_CHARS:
            raise ToolFailed(
                f"execute: the goals have {length:,} characters together, and may have {GOALS_CHARS:,}"
            )
        execution = await self._find(task_type, tuple(wanted), cut_short)
        this = Round(job, self.run.stage, self.place, 1)
        group = next(stage for stage in this.stages if stage.execution == execution.number)
        self.ended = await this.run_stage(job, group) or self.ended
        await job.log.commit()
        return describe_execution(job, execution)

    async def _find(self, task_type: str, goals: tuple[str, ...], cut_short: bool) -> Execution:
        """The execution that a decision means: one with the same type and goals, or a new one."""
        job = self.run.job
        known = next((one for one in job.state.executions if one.is_same(task_type, goals)), None)
        if known is not None and cut_short:
            return known
        rounds = job.state.tree.rounds.get(join_path(self.place, known.id), 0) if known else 0
        # A planner that is entered again, because the flow's checks failed, may have the same done once more.
        if known and rounds and task_progress(job.state, job.flow.recipes[task_type], known).is_complete:
            raise ToolFailed(
                f"execute was refused: {task_type} with these goals is completed. Call stage_done if the task"
                " is done, or execute what is still missing, with other goals."
            )
        most = PlannerSettings.model_validate(self.run.stage.settings).max_iterations
        if job.state.tool_calls["execute"] >= most:
            raise ToolFailed(
                f"execute was refused: it was called {most} times, which is the limit. Call stage_done, or"
                " escalate and say what is missing."
            )
        number = known.number if known else len(job.state.executions) + 1
        self.run.record(RecipeStarted(number=number, task_type=task_type, goals=goals, round=rounds + 1))
        await job.log.commit()
        return job.state.executions[number - 1]


def describe_execution(job: Job, execution: Execution) -> str:
    """What came of an execution, for the planner."""
    recipe = job.flow.recipes[execution.task_type]
    progress = task_progress(job.state, recipe, execution)
    lines = [f"{execution.task_type}: {progress.status}."]
    for step in recipe.steps:
        result = progress.step_results.get(step, "")
        said = f": {cut_text(result, RESULT_CHARS, 'the result')}" if result else ""
        lines.append(f"- {step} {progress.statuses[step]}{said}")
    if progress.reason:
        lines.append(f"It was handed back: {progress.reason}")
    return "\n".join(lines)


async def plan(run: StageRun) -> StageEnd:
    """A conversation in which each decision is carried out before the next one."""
    planning = planning_of(run)
    planning.take_up(run)
    if run.interrupted:
        await finish_turn(run, run.interrupted.cut_off)
    else:
        await open_conversation(run, run.entrance)
    while True:
        if planning.ended:
            return StageEnd(planning.ended, run.state.note or Note(summary=planning.ended.detail))
        if end := await take_step(run, take_turn):
            return end


def planning_of(run: StageRun) -> Planning:
    """The planner that a stage is. There is one for each place."""
    known: dict[str, Planning] = run.job.memory.setdefault("planner", {})
    return known.setdefault(place_of(run.path), Planning(run))


async def _execute(run: StageRun, task_type: str, goals: Sequence[str], cut_short: bool) -> str:
    return await planning_of(run).execute(task_type, goals, cut_short)


async def _end_planner(run: StageRun, end: StageEnd, ended: StageEnded) -> None:
    """Its conversation may go on in a later round, and has no summary of its own."""
    run.transcript.end_stage(place_of(run.path), ended)


PLANNER = Kind(
    "planner",
    plan,
    settings=PlannerSettings,
    is_told=True,
    is_conversation=True,
    execute=_execute,
    after_end=_end_planner,
    replay=replay,
)

"""The kind `planner`: the model decides what is done next; recipes say how.

Each decision to execute runs the stages of a recipe as a group in the planner's stage, and is answered with
their results. The planner's conversation does not contain what was said in them. A decision with the same
type and the same goals goes on with the same execution: steps that have completed do not run again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from headgate.config import fill
from headgate.core import (
    REAL,
    RESEARCH_TOOL,
    SIGNALS,
    Body,
    Calls,
    Data,
    Decision,
    Note,
    Recipe,
    ReplanStarted,
    Role,
    RoundTally,
    Stage,
    VerifyRuns,
    condense_failures,
    cut_text,
    decide_round,
    gives_research,
    join_path,
    match_spelling,
    place_of,
    quote_lines,
    task_rounds,
    times,
    unknown_name,
)
from headgate.errors import ToolFailed
from headgate.features.recipes.document import describe_task
from headgate.features.recipes.events import (
    EscalationRaised,
    Executions,
    RecipeEnded,
    RecipeStarted,
    is_spent,
    task_progress,
)
from headgate.features.recipes.execution import GENERIC, Execution, expand_executions
from headgate.first_use import dataclass
from headgate.run import (
    Entrance,
    GroupRun,
    Job,
    Leader,
    StageEnd,
    StageRun,
    clean_value,
    finish_turn,
    open_conversation,
    replay_conversation,
    take_step,
    take_turn,
)

GOALS_CHARS = 2_000
"""Of all goals of an execution: every step is told them."""
RESULT_CHARS = 1_500
"""Of each step, in what the planner is told."""
WORDS_CHARS = 400
"""Of the model's last words, and of the last error, in a step that was handed back."""
MOST_IN_VAIN = 2
"""Executions that failed and changed nothing, until the planner has to conclude: it gets nowhere."""
MOST_IDLE = 5
"""Executions that changed nothing, however they ended, until no other is begun."""


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

    def begin_attempt(self, run: StageRun) -> None:
        """Begins with an attempt at the stage, or goes on with one that a crash cut short."""
        self.run, self.ended = run, None

    @property
    def place(self) -> str:
        return place_of(self.run.path)

    async def execute(self, task_type: str, goals: Sequence[str], cut_short: bool) -> str:
        """Has a recipe carried out, or goes on with it; returns its results."""
        job = self.run.job
        if self.ended:  # by another call of the same reply
            raise ToolFailed("execute was refused: nothing more can be executed in this task.")
        recipe = _find_recipe(job, task_type)
        wanted = [" ".join(clean_value(self.run, goal).split()) for goal in goals]
        if not all(wanted):
            raise ToolFailed("execute: each goal needs words")
        if (length := sum(map(len, wanted))) > GOALS_CHARS:
            raise ToolFailed(
                f"execute: the goals have {length:,} characters together, and may have {GOALS_CHARS:,}"
            )
        execution = await self._find(recipe, tuple(wanted), cut_short)
        this = GroupRun(job, self.run.stage, self.place)
        group = next(stage for stage in this.now().stages if stage.execution == execution.number)
        self.ended = await this.run_stage(job, group) or self.ended
        await job.log.commit()
        await self._record_end(recipe, execution)
        told = [describe_execution(job, execution), *self._judge_failures(), *_say_next(job, recipe)]
        await job.log.commit()
        self.ended = self.ended or await self._nowhere()
        return "\n".join(told)

    async def _find(self, recipe: Recipe, goals: tuple[str, ...], cut_short: bool) -> Execution:
        """The execution that a decision means: one with the same type and goals, or a new one."""
        job, task_type = self.run.job, recipe.name
        done = job.state[Executions]
        known = next((one for one in done.all if one.is_same(task_type, goals)), None)
        if known is not None and cut_short:
            return known
        rounds = job.state.tree.rounds.get(join_path(self.place, known.id), 0) if known else 0
        # A planner that is entered again, because the flow's checks failed, may have the same done once more.
        if known and rounds and task_progress(job.state, recipe, known).is_complete:
            raise ToolFailed(
                f"execute was refused: {task_type} with these goals is completed. Call stage_done if the task"
                " is done, or execute what is still missing, with other goals."
            )
        most = PlannerSettings.model_validate(self.run.stage.settings).max_iterations
        if done.begun >= most:
            raise ToolFailed(
                f"execute was refused: something was executed {times(most)}, which is the limit. Call"
                " stage_done, or escalate and say what is missing."
            )
        if 0 < recipe.repeats <= done.in_a_row(task_type):
            raise ToolFailed(
                f"execute was refused: {task_type} was executed {times(recipe.repeats)}, and no file has"
                f" changed since. Other goals do not help. {_say_leads(job, recipe)}"
            )
        if len(done.idle) >= MOST_IDLE:
            raise ToolFailed(
                f"execute was refused: the last {MOST_IDLE} executions changed no file. Call stage_done and"
                " say what was found out, or escalate and say what is in the way."
            )
        number = known.number if known else len(done.all) + 1
        tree = await job.place.tree.mark()
        started = RecipeStarted(number=number, task_type=task_type, goals=goals, round=rounds + 1, tree=tree)
        self.run.record(started)
        await job.log.commit()
        return job.state[Executions].all[number - 1]

    async def _record_end(self, recipe: Recipe, execution: Execution) -> None:
        """Records how an execution ended, and whether files have changed in it, once."""
        job = self.run.job
        if execution.number in job.state[Executions].ended:
            return
        attempts = [
            attempt
            for step in recipe.steps
            for attempt in job.state.tree.attempts.get(execution.step_id(step), ())
        ]
        progress = task_progress(job.state, recipe, execution)
        ended = RecipeEnded(
            number=execution.number,
            round=job.state.tree.rounds[join_path(self.place, execution.id)],
            completed=progress.is_complete,
            changed=await _has_changed(job),
            acts=any(attempt.may_change and not attempt.counts.escalated for attempt in attempts),
            reason="" if progress.is_complete else progress.failing,
        )
        self.run.record(ended)
        await job.log.commit()

    def _judge_failures(self) -> list[str]:
        """What follows from the verifications that failed, wherever they stand: a new plan, or the end."""
        state, most = self.run.job.state, task_rounds(self.run.job.flow)
        tally = RoundTally(
            reason=state[VerifyRuns].last_failure,
            failures=0,  # of the execution's own rounds, which its groups have judged
            task_failures=state[VerifyRuns].loops,
            in_part=True,
            since_replan=state[VerifyRuns].failed_in_a_row,
            idle_rounds=state[VerifyRuns].idle_rounds,
        )
        decision = decide_round(tally, most, most)
        if self.ended or state[VerifyRuns].passing_run or decision.action != "stuck":
            return []
        if decision.reason != "rounds_spent":
            self.ended = decision
            return []
        self.run.record(ReplanStarted(loop=state[VerifyRuns].loops))
        return [tell_replan(self.run.job)]

    async def _nowhere(self) -> Decision | None:
        """What ends the planner if its executions lead nowhere. What was changed before is still judged."""
        job = self.run.job
        in_vain = job.state[Executions].failed_in_vain
        if len(in_vain) < MOST_IN_VAIN:
            return None
        said = f"the last {len(in_vain)} executions changed nothing and failed: {in_vain[-1].reason}"
        if job.state[VerifyRuns].passing_run or (
            await job.place.tree.changed_files() and not job.state[VerifyRuns].failures
        ):
            return Decision("advance", "no_progress", said)
        return Decision("stuck", "no_progress", f"Stuck: {said.rstrip('.')}.")


def _find_recipe(job: Job, task_type: str) -> Recipe:
    """The recipe that a model means, however it spells its name. ToolFailed if there is none, or not here."""
    recipes = job.flow.recipes
    recipe = recipes.get(match_spelling(task_type.strip() or GENERIC, recipes))
    if recipe is None:
        offered = [name for name, one in recipes.items() if not one.unavailable]
        raise ToolFailed(f"execute: {unknown_name('type of task', task_type[:80], offered)}")
    if recipe.unavailable:
        raise ToolFailed(f"execute: {recipe.name} cannot be executed here. {recipe.unavailable}")
    return recipe


async def _has_changed(job: Job) -> bool:
    """Whether files of the task have changed since the start of the execution under way."""
    done = job.state[Executions]
    written = done.work.written
    if not (done.work.ran and done.since):
        return any(before != after for before, after in written.values())
    differ = await job.place.tree.changed_between(done.since, await job.place.tree.mark())
    return bool(set(differ) & {*written, *await job.place.tree.changed_files()})


def tell_replan(job: Job) -> str:
    """What tells a planner to write a new plan."""
    failures = condense_failures(job.state[VerifyRuns].failures)
    return fill("replan_planner", count=times(job.state[VerifyRuns].loops), failures=failures)


def _say_next(job: Job, recipe: Recipe) -> list[str]:
    """What usually follows, where more of the same would be refused."""
    known = job.state[Executions].in_a_row(recipe.name)
    if not recipe.repeats or known < recipe.repeats:
        return []
    return [
        f"{recipe.name} was executed {times(known)} now, and no file has changed. Another {recipe.name}"
        f" will be refused. {_say_leads(job, recipe)}"
    ]


def _say_leads(job: Job, recipe: Recipe) -> str:
    names = [name for name in recipe.leads_to if name in job.flow.recipes]
    following = f"execute {' or '.join(names)} with what is known now" if names else "execute something else"
    return f"Next: {following}, call stage_done if the task is done, or escalate."


def describe_execution(job: Job, execution: Execution) -> str:
    """What came of an execution, for the planner; where it was handed back, with what was seen there."""
    recipe = job.flow.recipes[execution.task_type]
    progress = task_progress(job.state, recipe, execution)
    lines = [f"{execution.task_type}: {progress.status}."]
    for step in recipe.steps:
        result = progress.step_results.get(step, "")
        said = cut_text(result, RESULT_CHARS, "the result")
        said = f":\n{quote_lines(said)}" if len(said.splitlines()) > 1 else f": {said}" if said else ""
        lines.append(f"- {step} {progress.statuses[step]}{said}")
    if not progress.is_complete:
        lines.append(f"It was handed back: {progress.reason or 'it was not finished'}")
        lines += _seen(job, execution, recipe)
    return "\n".join(lines)


def _seen(job: Job, execution: Execution, recipe: Recipe) -> list[str]:
    """What a planner has to know of an execution that failed: the test, the last error, the last words."""
    lines = []
    own = {execution.step_id(step) for step in recipe.steps}
    failed = [
        stage for stage in own if any(one.kind == "verify" for one in job.state.tree.attempts.get(stage, ()))
    ]
    if failed and job.state[VerifyRuns].failures and not job.state[VerifyRuns].passing_run:
        lines.append(f"Verification failed: {job.state[VerifyRuns].failures[-1].sentence}")
    said = [
        message
        for name, transcript in job.memory.transcripts.items()
        if name in own
        for message in transcript.messages
    ]
    signals = {call.id for message in said for call in message.calls if call.name in SIGNALS}
    errors = [one for one in said if one.role == "tool" and one.failed and one.call_id not in signals]
    error = errors[-1].content if errors else ""
    concluded = [
        one.note.summary
        for name in sorted(own)
        for one in job.state.tree.attempts.get(name, ())
        if one.ending == "failed" and one.note
    ]
    spoken = [one.content for one in said if one.role == "assistant" and one.content.strip()]
    words = next(iter((*reversed(concluded), *reversed(spoken))), "")
    for title, text in (("The last error", error), ("The last words of the model", words)):
        if text:
            lines.append(f"{title}: {cut_text(' '.join(text.split()), WORDS_CHARS, 'it')}")
    return lines


class _Planners(dict[str, Planning]):
    """The planners, by their places."""


def planning_of(run: StageRun) -> Planning:
    """The planner that a stage is. There is one for each place."""
    return run.job.memory.of(_Planners).setdefault(place_of(run.path), Planning(run))


class _Expanded(dict[str, tuple[tuple[Execution, ...], tuple[Stage, ...]]]):
    """The stages in each planner, by its id, with the executions that they were made for."""


class PlannerKind(Leader):
    """A conversation in which each decision is carried out before the next one.

    It may go on in a later round, and has no summary of its own.
    """

    name = "planner"
    settings = PlannerSettings
    roles = frozenset[Role]({"conversation", "receives_failures", "rewrites_plan"})

    async def run(self, run: StageRun) -> StageEnd:
        planning = planning_of(run)
        planning.begin_attempt(run)
        if run.interrupted:
            await finish_turn(run, run.interrupted.cut_off)
        else:
            await open_conversation(run, run.entrance)
        while True:
            if ended := planning.ended:
                return StageEnd(ended, run.state.note or Note(summary=ended.detail, accepted=False))
            if end := await take_step(run, take_turn):
                return end

    def replay(self, run: StageRun, body: Body, content: str) -> None:
        replay_conversation(run, body, content)

    def children(self, job: Job, stage: Stage) -> tuple[Stage, ...]:
        made, executions = job.memory.of(_Expanded), job.state[Executions].all
        if stage.id not in made or made[stage.id][0] is not executions:
            expanded = expand_executions(stage.stages, executions, job.flow.recipes)
            made[stage.id] = executions, expanded
        return made[stage.id][1]

    def is_spent(self, job: Job, number: int) -> bool:
        one = job.state[Executions].all[number - 1]
        return is_spent(job.state, job.flow.recipes[one.task_type], one)

    def variables(self, job: Job) -> Mapping[str, Any]:
        """`gathered`: the tools that have returned something in this task."""
        called, failed = job.state[Calls].made, job.state[Calls].failed
        given = [RESEARCH_TOOL] if job.task.attached or gives_research(job.request) else []
        return {"gathered": [*given, *(name for name, count in called.items() if count > failed[name])]}

    def take_unavailable(self, run: StageRun, tool: str, answer: str) -> None:
        """A step that can do nothing without the tool hands its work back: its check asks for such calls."""
        others = [spec for spec in run.scope.every if spec.name != tool and spec.category in REAL]
        if run.stage.checks.get("tool_calls") and not others:
            run.record(EscalationRaised(reason=answer))

    def describe_task(self, job: Job, tokens: int, stage: str) -> str:
        return describe_task(job, tokens, stage)

    def say_failure(self, job: Job, told: Entrance, replanned: bool) -> str:
        texts = {"fix": "fix_planner", "review": "review_planner"}
        said = super().say_failure(
            job, replace(told, order=texts.get(told.order or told.reason, told.order)), False
        )
        return "\n\n".join([said, tell_replan(job)]) if replanned else said

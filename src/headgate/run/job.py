"""What one task's run needs, in one place: ports are filled by the engine, fakes by tests."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

from headgate.checks import Verifier
from headgate.core import (
    DONE_TOOL,
    FINAL_TOOLS,
    REAL,
    AnyBody,
    Flow,
    Limits,
    Message,
    Model,
    ModelSettings,
    OnPulse,
    PhaseControl,
    PromptPlace,
    Stage,
    StageState,
    State,
    Tally,
    Task,
    ToolSpec,
    expand,
    fit_stage,
    is_lost,
    over_limit,
)
from headgate.reading import TaskDiff
from headgate.run.transcript import Transcript
from headgate.tools import STATUS_TOOL, Tool, ToolContext, stage_done_tool, status_tool
from headgate.workspace import FileChange, IgnoredPaths

if TYPE_CHECKING:
    from headgate.run.evidence import Evidence
    from headgate.run.partial import Partial


class Log(Protocol):
    """Where everything is recorded. `state` is what follows from the events committed so far."""

    state: State

    def record(self, path: str, turn: int, body: AnyBody, content: str | None = None) -> None:
        """Adds an event to the next commit."""
        ...

    async def commit(self) -> None:
        """Makes everything recorded durable, applies it to `state` and tells whoever listens."""
        ...


class Tree(Protocol):
    """The working tree, compared with the task's start."""

    async def changed_files(self) -> tuple[str, ...]:
        """The files that the task has changed so far."""
        ...

    async def mark(self) -> str:
        """Remembers the tree as it is now."""
        ...

    async def diff_since(self, mark: str) -> str:
        """What has changed since, as a unified diff."""
        ...

    async def own_diff(self) -> TaskDiff:
        """What the task has changed since its start; in a dry run, what it would change."""
        ...

    async def way_back(self) -> tuple[FileChange, ...] | None:
        """The changes that lead from the tree as it is to the task's start; None if there is no way back."""
        ...

    def hash_of(self, path: str) -> str | None:
        """The hash of a file as it is now, by its shown path; None if it is not there."""
        ...

    async def left_behind(self, mark: str) -> tuple[str, ...]:
        """New files since then, which are not the task's doing but a verification run's."""
        ...


@dataclass
class Job:
    """One task being carried out."""

    task: Task
    flow: Flow
    log: Log
    models: Mapping[str | None, Model]
    """By the name that a stage gives; None is the default."""
    model_settings: Mapping[str | None, ModelSettings]
    tools: Mapping[str, Tool]
    context: ToolContext
    verifier: Verifier | None
    """None where no steps are configured."""
    tree: Tree
    redact: Callable[[str], str]
    """Replaces secrets in any text that is about to reach the model or the log."""
    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    pulse: OnPulse
    agents_md: bool = True
    phase_control: PhaseControl = field(default_factory=PhaseControl)
    phase_prompt_place: PromptPlace = "tail"
    limits: Limits = field(default_factory=Limits)
    stopping: Callable[[], bool] = lambda: False
    """Whether somebody wants the task concluded."""
    status_always: bool = False
    """Offer the status report also where no other tool is."""
    stable_tools: bool = False
    """Send the same list of tools in every stage; what a stage does not have is refused."""
    tests_closed: bool = False
    """No test may be added or changed."""
    proposing: bool = False
    """A dry run: the workspace keeps what is written to itself."""
    earlier_report: str = ""
    """The report of the stuck task that this one takes up."""
    transcripts: dict[str, Transcript] = field(default_factory=dict)
    last_tests: tuple[str, str] = ("", "")
    """The tree that the model had tested last, and what it was told."""
    failure_message: str = ""
    """What the stage that mends is told about the latest failed verification."""
    evidence: "Evidence | None" = None
    """What is known about the bug, in a flow that begins with a failing check."""
    tried: set[str] = field(default_factory=set)
    """What stands for the code of every answer that was checked, in each of the places it was tried in."""
    partials: "list[Partial]" = field(default_factory=list)
    """Answers that mend a part, the latest last."""
    interrupted: "Interrupted | None" = None
    """The attempt that a crash cut short, until it is taken up again."""
    _expanded: "tuple[tuple[object, object], tuple[Stage, ...]] | None" = None
    """The stages as they stand, with the plan that they were made for."""

    @property
    def state(self) -> State:
        return self.log.state

    @property
    def over(self) -> str:
        """The task's cap that is reached, by its slug; empty if none is."""
        state = self.state
        return over_limit(self.limits, state.replies, state.usage, state.seconds, state.cost)

    def forget_runs(self) -> None:
        """Something was written or run: what git ignores is in no tree, and may be what a check looks at."""
        self.last_tests = ("", "")

    def seconds_left(self) -> float | None:
        """Of the task's time; None where it has no limit."""
        if self.limits.seconds is None:
            return None
        return self.limits.seconds - (self.now() - self.state.started_at - self.state.paused)

    def stages(self) -> tuple[Stage, ...]:
        """The stages as they stand: with those for the steps of the plan, without what does not apply."""
        written = (self.state.plan, self.state.plan_since)
        if self._expanded is None or any(a is not b for a, b in zip(self._expanded[0], written, strict=True)):
            self._expanded = written, expand(self.flow, *written)
        stages = self._expanded[1]
        return tuple(
            fitted for stage in stages if (fitted := fit_stage(stage, self.flow, self.state)) is not None
        )

    def stage(self, stage_id: str) -> Stage:
        """A stage by its id: of those that run in sequence, or the one that writes the plan anew."""
        known = (*self.stages(), self.flow.replan)
        return next((stage for stage in known if stage.id == stage_id), None) or self._stage_of_step(stage_id)

    def _stage_of_step(self, stage_id: str) -> Stage:
        """A stage that was made for a step of the plan which the plan does not have any more, or not so."""
        template = next(stage for stage in self.flow.stages if stage.foreach)
        entered = next(stage for stage in self.state.stages.values() if stage.stage == stage_id)
        return template.model_copy(update={"id": stage_id, "item": entered.item, "foreach": None})

    @cached_property
    def ignored(self) -> IgnoredPaths:
        """What git ignores. The first look walks the tree: not for the event loop."""
        return IgnoredPaths(self.context.workspace.root)

    @cached_property
    def stage_ids(self) -> tuple[str, ...]:
        """The stages that the flow has from the start."""
        return tuple(stage.id for stage in (*self.flow.stages, self.flow.replan))

    @cached_property
    def stable_specs(self) -> tuple[ToolSpec, ...]:
        """Every tool that some stage has, and the closing signal of them all: the same bytes throughout."""
        stages = (*self.flow.stages, self.flow.replan)
        specs = [
            self.status_tool.spec if name == STATUS_TOOL else tool.spec for name, tool in self.tools.items()
        ]
        admitted = [
            spec
            for spec in specs
            if spec.name == STATUS_TOOL or any(stage.tools.admits(spec) for stage in stages)
        ]
        return (*admitted, stage_done_tool("", self.stage_ids).spec)

    @cached_property
    def status_tool(self) -> Tool:
        """The status report for every stage of the flow: its description names the smallest limit."""
        return _status_tool((*self.flow.stages, self.flow.replan))

    def transcript_of(self, stage: Stage) -> Transcript:
        """The stage's own transcript, or the one that the flow's stages share."""
        key = stage.id if stage.view.transcript == "own" else ""
        return self.transcripts.setdefault(key, Transcript())


def _status_tool(stages: Iterable[Stage]) -> Tool:
    return status_tool(min(stage.budget.standalone_status for stage in stages))


IDLE_READS = 2
"""Turns in a row that read nothing new, after which the next one is to do something else."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """Why a stage is entered, and what the model is told about it."""

    reason: Literal["next", "retry", "check_failed", "replan", "review"] = "next"
    message: str = ""
    transcript: Transcript | None = None
    """A conversation to go on with, instead of the stage's own."""
    cut: bool = False
    """Cut the view before going on: what led nowhere is not worth reading again."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What only the process that crashed knew about the attempt under way."""

    entrance: Entrance
    cut_off: bool
    """The last reply was cut off at its length limit."""
    answer: Message | None = None
    """The last reply in a stage of whole answers, if it had not been tried yet."""


@dataclass
class StageRun:
    """One attempt at a stage."""

    job: Job
    stage: Stage
    path: str
    transcript: Transcript
    entrance: Entrance
    turn: int = 0
    """The number of the turn under way; 0 before the first."""
    asked: str = ""
    """The question that was asked last, in a stage of whole answers."""
    retry_after: float | None = None
    """What an unavailable model asked for, in seconds."""

    @property
    def state(self) -> StageState:
        return self.job.state.stages[self.path]

    def tally(self) -> Tally:
        """What has been counted, held against what depends on the stage and the task."""
        lost = is_lost(self.state.memory, self.stage.budget, self.state.can_write)
        sampling = self.stage.candidates is not None
        task = self.job.state
        return replace(
            self.state.tally(),
            lost=lost,
            over=self.job.over,
            sampling=sampling,
            idle_attempts=task.idle_attempts,
            fixing=task.phase != "stages",
        )

    @cached_property
    def done_tool(self) -> Tool:
        every = self.job.stage_ids if self.job.stable_tools else ()
        templates = [stage.id for stage in self.job.flow.stages if stage.foreach and self.stage.item]
        return stage_done_tool(self.stage.id, every, [*templates, self.stage.title])

    @cached_property
    def status_tool(self) -> Tool | None:
        """The status report, with this stage's own limit in its description; None where there is none."""
        if STATUS_TOOL not in self.job.tools:
            return None
        return self.job.status_tool if self.job.stable_tools else _status_tool([self.stage])

    @cached_property
    def all_specs(self) -> tuple[ToolSpec, ...]:
        specs = [tool.spec for tool in self.job.tools.values() if tool.name != STATUS_TOOL]
        admitted = [spec for spec in specs if self.stage.tools.admits(spec)]
        return (*admitted, *self._status_spec(admitted), self.done_tool.spec)

    def _status_spec(self, admitted: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """The status report, which comes with tools that get something done, or where the stage names it."""
        status, scope = self.status_tool, self.stage.tools
        if status is None or {STATUS_TOOL, "control"} & set(scope.block):
            return ()
        named = scope.allow is not None and scope.admits(status.spec)
        wanted = named or self.job.status_always or any(spec.category in REAL for spec in admitted)
        return (status.spec,) if wanted else ()

    @property
    def final_specs(self) -> tuple[ToolSpec, ...]:
        """The closing signal, and what a check needs that does not hold yet."""
        needed = [
            tool
            for check, tools in FINAL_TOOLS.items()
            if getattr(self.stage.checks, check) and not getattr(self.state, check)
            for tool in tools
        ]
        return tuple(spec for spec in self.all_specs if spec.name in (*needed, DONE_TOOL))

    @property
    def visible(self) -> tuple[ToolSpec, ...]:
        """What the model may call now. The same tuple from turn to turn, so that it is encoded once."""
        return self.final_specs if self.state.final_granted else self.all_specs

    @property
    def shown(self) -> tuple[ToolSpec, ...]:
        """What the model is sent: what it may call, or, to keep the prompt's beginning, all there is."""
        return self.job.stable_specs if self.job.stable_tools else self.visible

    @property
    def withheld(self) -> frozenset[str]:
        """What it is sent and is of no use now: tools of other stages, and what it circles with."""
        withheld = {spec.name for spec in self.shown} - {spec.name for spec in self.visible}
        memory, budget = self.state.memory, self.stage.budget
        # Refused is the third such call by default; but a small model that makes the second makes it, too.
        if budget.identical_calls and memory.repeats() >= 2:
            withheld.add(memory.names[memory.latest])
        if budget.idle_reads and memory.idle()[0] >= min(budget.idle_reads, IDLE_READS):
            withheld |= memory.circling & {spec.name for spec in self.visible if spec.category == "read"}
        # It has just said that it is done, and is not; in a final turn there is nothing else to say.
        if self.state.verdict is not None and not self.state.final_granted:
            withheld.add(DONE_TOOL)
        return frozenset(withheld)

    def tool(self, name: str) -> Tool | None:
        own = {DONE_TOOL: self.done_tool, STATUS_TOOL: self.status_tool}
        return own[name] if name in own else self.job.tools.get(name)

    def record(self, body: AnyBody, content: str | None = None) -> None:
        self.job.log.record(self.path, self.turn, body, content)

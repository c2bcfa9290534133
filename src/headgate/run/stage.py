"""One attempt at a stage, and what a kind of stage is."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

from headgate.core import (
    COMPLETE_TOOL,
    DONE_TOOL,
    ESCALATE_TOOL,
    FAIL_TOOL,
    REAL,
    START_TOOL,
    TOOL_ALIASES,
    Body,
    Data,
    Decision,
    Note,
    Repeat,
    Stage,
    StageEnded,
    StageState,
    Tally,
    ToolSpec,
    full_tool_name,
    is_lost,
    place_of,
)
from headgate.run.job import Job, limited_status_tool
from headgate.run.transcript import Transcript
from headgate.tools import STATUS_TOOL, TaskListPort, Tool, stage_done_tool

IDLE_READS = 2
"""Turns in a row that read nothing new, after which the next one is to do something else."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """Why a stage is entered, and what the model is told about it."""

    reason: Literal["next", "retry", "check_failed", "replan", "review"] = "next"
    message: str = ""
    order: str = ""
    """The name of the text that says what is to be done about it, where the message does not."""
    cut: bool = False
    """Cut the view before going on: what led nowhere is not worth reading again."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What only the process that crashed knew about the attempt under way."""

    entrance: Entrance = Entrance()
    cut_off: bool = False
    """The last reply was cut off at its length limit."""


NO_NOTE = Note()


class TaskList(TaskListPort, Protocol):
    """The stages in a stage of the kind `drive`, as the loop knows them."""

    @property
    def current(self) -> "StageRun":
        """The attempt that the next call belongs to: at the task in progress, or at the stage around it."""
        ...

    def tools(self, stage: Stage) -> Mapping[str, Tool]:
        """What the model works through the list with, in the stage around it or in one of its tasks."""
        ...

    def recap(self) -> str:
        """The list as it stands, for a model that no longer sees all that was said."""
        ...

    def open_tasks(self) -> list[str]:
        """The tasks that have not ended."""
        ...


def as_it_is(job: Job, stage: Stage) -> Stage:
    """How most kinds run a stage."""
    return stage


async def _do_nothing(run: "StageRun", end: "StageEnd", ended: StageEnded) -> None:
    """What most kinds do after an attempt."""


@dataclass(frozen=True, slots=True)
class StageEnd:
    """How an attempt at a stage ended."""

    decision: Decision
    note: Note = NO_NOTE
    """What it leaves to later stages."""


@dataclass
class StageRun:
    """One attempt at a stage: what its kind is given to work with."""

    job: Job
    stage: Stage
    path: str
    entrance: Entrance
    interrupted: Interrupted | None = None
    """What is known about the attempt if a crash cut it short."""
    turn: int = 0
    """The number of the turn under way; 0 before the first."""
    retry_after: float | None = None
    """What an unavailable model asked for, in seconds."""

    @cached_property
    def transcript(self) -> Transcript:
        return self.job.transcript_of(self.stage)

    @property
    def state(self) -> StageState:
        return self.job.state.nodes[self.path]

    def tally(self) -> Tally:
        """What has been counted, held against what depends on the stage and the task."""
        lost = is_lost(self.state.memory, self.stage.budget, self.state.can_write)
        task = self.job.state
        return replace(
            self.state.tally(),
            seconds_left=self.seconds_left(),
            model_wait=self._model_wait,
            lost=lost,
            over=self.job.over,
            turns=self.state.turns + self._turns_inside,
            concludes=self.kind.is_conversation,
            idle_attempts=task.idle_attempts,
            fixing=bool(task.failures or task.review),
        )

    @property
    def _model_wait(self) -> float:
        """How long the model's server is waited for: a server that has never answered may not exist."""
        server, model = self.state.unanswered.server, self.job.model_settings[self.stage.model].model
        is_known = server == "loading" or model in self.job.state.accounts.models
        return self.job.limits.model_wait if server and is_known else 0.0

    def seconds_left(self) -> float | None:
        """Of the time for all attempts at the stage; None where that has no limit."""
        most = self.stage.budget.total_seconds
        if most is None:
            return None
        return most - (self.job.now() - self.job.state.tree.began_at[place_of(self.path)])

    @property
    def kind(self) -> "Kind":
        return self.job.kinds[self.stage.kind]

    @cached_property
    def task_list(self) -> TaskList | None:
        """The list that the stage leads, or is a task of."""
        return self.kind.task_list(self) if self.kind.task_list else None

    @property
    def _turns_inside(self) -> int:
        """The turns taken in the stages in it: they count for it, too."""
        if not self.stage.stages:
            return 0
        inside = f"{place_of(self.path)}/"
        return sum(node.turns for path, node in self.job.state.nodes.items() if path.startswith(inside))

    @cached_property
    def done_tool(self) -> Tool:
        """The closing signal. A task of a list has one of its own."""
        if self.kind.done_tool != DONE_TOOL:
            return self.own_tools[self.kind.done_tool]
        every = [stage.id for stage in self.job.conversations] if self.job.stable_tools else ()
        leaves = self.job.flow.leaves() if self.stage.item else ()
        templates = [stage.id for stage in leaves if stage.foreach]
        return stage_done_tool(
            self.stage.id, every, [*templates, self.stage.title], output=self.stage.output_schema
        )

    @cached_property
    def status_tool(self) -> Tool | None:
        """The status report, with this stage's own limit in its description; None where there is none."""
        if STATUS_TOOL not in self.job.tools:
            return None
        return self.job.status_tool if self.job.stable_tools else limited_status_tool([self.stage])

    @cached_property
    def all_specs(self) -> tuple[ToolSpec, ...]:
        specs = [tool.spec for tool in self.job.tools.values() if tool.name != STATUS_TOOL]
        admitted = [
            spec for spec in specs if self.stage.tools.admits(spec) and spec.name not in self.own_tools
        ]
        admitted += [tool.spec for tool in self.own_tools.values() if tool.name != self.kind.done_tool]
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
        needed = [tool for check in self.job.checks_of(self.stage) for tool in check.final_tools(self.state)]
        if self.kind.done_tool != DONE_TOOL:
            needed.append(FAIL_TOOL)
        return tuple(spec for spec in self.all_specs if spec.name in (*needed, self.done_tool.name))

    @property
    def final_call(self) -> str:
        """What the model is told to call in its final turn."""
        names = [spec.name for spec in self.final_specs]
        return " or ".join(reversed(names)) if ESCALATE_TOOL in names else ", then ".join(names)

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
            withheld.add(self.done_tool.name)
        if self.task_list:
            withheld |= {START_TOOL} if self.kind.done_tool == COMPLETE_TOOL else {COMPLETE_TOOL, FAIL_TOOL}
        return frozenset(withheld)

    @cached_property
    def own_tools(self) -> Mapping[str, Tool]:
        """The tools that only this stage has."""
        listed = self.task_list.tools(self.stage) if self.task_list else {}
        return {**self.job.stage_tools.get(self.stage.id, {}), **listed}

    def tool_name(self, called: str) -> str:
        """The name of the tool that a call means: it may use a longer name, or the closing signal's."""
        name = TOOL_ALIASES.get(called, called)
        full = full_tool_name(self.stage.id, "")
        if name.startswith(full) and name.removeprefix(full) in self.own_tools:
            return name.removeprefix(full)
        return self.done_tool.name if name == DONE_TOOL else name

    def tool(self, name: str) -> Tool | None:
        own = {self.done_tool.name: self.done_tool, STATUS_TOOL: self.status_tool}
        if name in own:
            return own[name]
        return self.own_tools.get(name) or self.job.tools.get(name)

    def record(self, body: Body, content: str | None = None) -> None:
        self.job.log.record(self.path, self.turn, body, content)


class FailedRounds(NamedTuple):
    """How often the stage that a group repeats for has failed."""

    failures: int
    since_replan: int
    """Of these, those since the plan was last rewritten."""


@dataclass(frozen=True)
class Kind:
    """What a stage without inner stages can be. The loop knows kinds only by what is said here."""

    name: str
    run: Callable[[StageRun], Awaitable[StageEnd]]
    """Carries one attempt out and returns how it ended. It may be called again for the same attempt, after a
    crash: what it has recorded by then is in the attempt's state."""
    settings: type[Data] = Data
    """The type of its settings in a flow file."""
    is_announced: bool = True
    """People see that such a stage starts, and if it does not complete. Otherwise its events say enough."""
    is_told: bool = False
    """It can be told what failed in the round before."""
    is_conversation: bool = False
    """It is a conversation with tools, in which the model can be made to conclude."""
    task_list: Callable[[StageRun], TaskList] | None = None
    """The list that such a stage leads, or is a task of."""
    done_tool: str = DONE_TOOL
    """The tool that gives its closing signal."""
    execute: "Callable[[StageRun, str, Sequence[str], bool], Awaitable[str]] | None" = None
    """Has a recipe carried out, by its type and goals, and returns its results. The last argument is true if
    a crash cut the same call short."""
    adapt: Callable[[Job, Stage], Stage | None] = as_it_is
    """The stage as it is to run now; None if there is nothing to do for it."""
    send_back: Callable[[Job, Stage], Entrance] | None = None
    """What the next round of the group is told, if a failed stage of this kind sends the work back."""
    runs_beside: bool = False
    """It may run while others do, unless it has tools that write or run. A kind that writes by itself sees
    to it that what others write meanwhile is not written over."""
    finds_once: bool = False
    """What sends the work back is a finding, not a failure. Each is told once, and is then a warning."""
    after_told: Callable[[Job, str], Awaitable[None]] | None = None
    """Called with the path of the attempt that was told what `send_back` returned, once it has ended."""
    after_failure: Callable[[Job, Stage, FailedRounds, Repeat], Decision] | None = None
    """What follows if the group is to repeat until such a stage passes, and it failed."""
    after_end: Callable[[StageRun, StageEnd, StageEnded], Awaitable[None]] = _do_nothing
    """Called when an attempt has ended. What it records is committed together with that."""
    explain_failure: Callable[[Job, Stage], str] = lambda job, stage: ""
    """Why the flow cannot go on, where a required stage failed; empty: what its last attempt says."""
    replay: Callable[[StageRun, Body, str], None] = lambda run, body, content: None
    """After a crash: takes an event of an attempt, and what was kept with it, into memory again."""
    orders: Mapping[str, str] = field(default_factory=dict)
    """What it is told to do about a failure, where that differs: names of texts, by that of the usual one or
    by the reason for which the stage is entered."""
    tell_replan: Callable[[Job], str] | None = None
    """What it is told in a round in which the plan is due to be rewritten, if it does that itself."""
    tell_tried: Callable[[Job], str] = lambda job: ""
    """What was tried in vain, for a model that is asked for its last words."""

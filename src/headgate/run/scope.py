"""What may be called in an attempt at a stage: one scope after another, each for one reason."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from headgate.core import (
    DONE_TOOL,
    ESCALATE_TOOL,
    REAL,
    TOOL_ALIASES,
    Stage,
    ToolSpec,
    full_tool_name,
)
from headgate.process import Sandbox
from headgate.tools import STATUS_TOOL, Tool, stage_done_tool, status_tool

if TYPE_CHECKING:
    from headgate.run.job import Job
    from headgate.run.stage import StageRun

Specs = tuple[ToolSpec, ...]
IDLE_READS = 2
"""Turns in a row that read nothing new, after which the next one is to do something else."""


class Scope:
    """The tools of one attempt."""

    def __init__(self, run: "StageRun") -> None:
        self._run, self._job, self._stage = run, run.job, run.stage

    @cached_property
    def own(self) -> Mapping[str, Tool]:
        """Tools that only this stage has, and those of its kind."""
        given = self._job.parts.stage_tools.get(self._stage.id, {})
        return {**given, **self._run.conversation.tools(self._run)}

    @cached_property
    def done(self) -> Tool:
        """The closing signal. A task of a list has one of its own."""
        if self._run.done_name != DONE_TOOL:
            return self.own[self._run.done_name]
        job, stage = self._job, self._stage
        templates = [one.id for one in (job.flow.leaves() if stage.item else ()) if one.foreach]
        return stage_done_tool(stage.id, [*templates, stage.title], output=stage.output_schema)

    @cached_property
    def status(self) -> Tool | None:
        """The status report, with this stage's own limit in its description; None where there is none."""
        if STATUS_TOOL not in self._job.parts.tools:
            return None
        return limited_status_tool([self._stage])

    @cached_property
    def every(self) -> Specs:
        """All that the stage allows, whatever the turn: the same tuple throughout."""
        stage, others = self._stage.tools, self._run.done_name
        specs = [tool.spec for tool in self._job.parts.tools.values() if tool.name != STATUS_TOOL]
        admitted = [spec for spec in specs if stage.admits(spec) and spec.name not in self.own]
        admitted += [tool.spec for tool in self.own.values() if tool.name != others]
        return (*admitted, *self._with_status(admitted), self.done.spec)

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """What its commands run in: a stage without tools that write cannot write by a command, either."""
        sandbox = self._job.place.context.sandbox
        if sandbox is None or any(spec.category == "write" for spec in self.every):
            return sandbox
        return sandbox.without_writing()

    def _with_status(self, admitted: Iterable[ToolSpec]) -> Specs:
        """The status report comes with tools that get something done, or where the stage names it."""
        scope = self._stage.tools
        if self.status is None or {STATUS_TOOL, "control"} & set(scope.block):
            return ()
        named = scope.allow is not None and scope.admits(self.status.spec)
        wanted = named or self._job.pinned.status_always or any(spec.category in REAL for spec in admitted)
        return (self.status.spec,) if wanted else ()

    @property
    def final(self) -> Specs:
        """In the final turn: the closing signal, and what a check needs that does not hold yet."""
        state = self._run.state
        needed = [tool for check in self._job.checks_of(self._stage) for tool in check.final_tools(state)]
        needed += [self.done.name, *self._run.conversation.ending_tools]
        return tuple(spec for spec in self.every if spec.name in needed)

    @property
    def final_call(self) -> str:
        """What the model is told to call in its final turn."""
        names = [spec.name for spec in self.final]
        return " or ".join(reversed(names)) if ESCALATE_TOOL in names else ", then ".join(names)

    @property
    def open(self) -> Specs:
        """What the model may call now."""
        return self.final if self._run.state.counts.granted else self.every

    @cached_property
    def listed(self) -> Specs:
        """The list of tools that all turns of the conversation begin with; empty where it follows the turn.

        It is the same for all stages, unless this one has tools or a closing signal of its own.
        """
        if self._stage.model not in self._job.pinned.keeping_lists:
            return ()
        beside = self._job.stages_beside(self._run.path)
        listed = listed_specs(self._job, beside) if beside else self._job.listed_specs
        own = {spec.name for spec in self.every} - {spec.name for spec in listed}
        return self.every if own or self._stage.output_schema else listed

    def withheld(self) -> frozenset[str]:
        """The names of what it may call and is of no use now."""
        out_of_turn = self._run.conversation.withheld_tools
        return frozenset((*self._in_circles(), *self._too_early(), *out_of_turn))

    def _in_circles(self) -> Iterator[str]:
        """What the model circles with."""
        memory, budget = self._run.state.memory, self._stage.budget
        # Refused is the third such call by default; but a small model that makes the second makes it, too.
        if budget.identical_calls and memory.repeats() >= 2:
            yield memory.names[memory.latest]
        if budget.idle_reads and memory.idle()[0] >= min(budget.idle_reads, IDLE_READS):
            reads = {spec.name for spec in self.open if spec.category == "read"}
            yield from memory.circling & reads

    def _too_early(self) -> Iterator[str]:
        """It has just said that it is done, and is not; in a final turn there is nothing else to say."""
        if self._run.state.counts.verdict is not None and not self._run.state.counts.granted:
            yield self.done.name

    def name_of(self, called: str) -> str:
        """The name of the tool that a call means: it may use a longer name, or the closing signal's."""
        name = TOOL_ALIASES.get(called, called)
        if name not in self._job.parts.tools:
            full = full_tool_name(self._stage.id, "")
            if name.startswith(full) and name.removeprefix(full) in self.own:
                return name.removeprefix(full)
        return self.done.name if name == DONE_TOOL else name

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, wherever in the flow it may be called."""
        if name == STATUS_TOOL:
            return self.status
        return self.done if name == self.done.name else self.own.get(name) or self._job.parts.tools.get(name)


def listed_specs(job: "Job", stages: Iterable[Stage]) -> Specs:
    """Every tool that one of these stages has, and the closing signal of them all."""
    stages = job.conversing(stages)
    status = limited_status_tool(stages).spec
    specs = [status if name == STATUS_TOOL else tool.spec for name, tool in job.parts.tools.items()]
    admitted = [
        spec
        for spec in specs
        if spec.name == STATUS_TOOL or any(stage.tools.admits(spec) for stage in stages)
    ]
    for kind in job.parts.kinds.values():
        inside = kind.tools_inside([stage for stage in stages if stage.kind == kind.name])
        admitted += [tool.spec for tool in inside.values()]
    # Stages that are made for each part of the work have ids of their own there, and the same titles.
    names = dict.fromkeys(stage.title if stage.execution else stage.id for stage in stages)
    return (*admitted, stage_done_tool("", stages=tuple(names)).spec)


def limited_status_tool(stages: Iterable[Stage]) -> Tool:
    """The status report, with the smallest limit of these stages in its description."""
    return status_tool(min(stage.budget.standalone_status for stage in stages))

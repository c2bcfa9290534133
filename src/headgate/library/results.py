"""What a flow returns: how each stage ended, and its output."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headgate.core import Decision, Note, Stage, State, UsageLine, all_stages
from headgate.library.flow import CompiledFlow
from headgate.log import Report
from headgate.run import read_output

Status = Literal["completed", "exhausted", "skipped", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class StageResult:
    """How a stage ended."""

    id: str
    status: Status
    output: Any = None
    """An object of the type that the stage names, or plain data; None if the stage has no output."""
    note: Note = field(default_factory=Note)
    """What the model said at the end: summary, decisions, risks."""
    error: str = ""
    """Why it did not complete."""
    attempts: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowResult:
    """How a flow ended."""

    status: Literal["completed", "failed", "cancelled"]
    reason: str
    """Why it did not complete; empty if it did."""
    stages: Mapping[str, StageResult]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    report: Report | None = None
    """The task's report, where the flow ran in a repository: what changed, and how it was verified."""
    usage: tuple[UsageLine, ...] = ()
    """What each stage used of each model."""

    def __getitem__(self, stage: str) -> StageResult:
        return self.stages[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stages)


def collect(
    compiled: CompiledFlow, state: State, ended: Decision | None, report: Report | None = None
) -> FlowResult:
    """The result, from the events alone. `ended` is None for a flow that was cancelled."""
    stages = {stage.id: stage_result(compiled, stage, state) for stage in all_stages(compiled.flow.stages)}
    status: Literal["completed", "failed", "cancelled"] = "cancelled"
    if ended is not None:
        status = "completed" if ended.action == "advance" else "failed"
    reason = "" if status == "completed" else (ended.detail or ended.reason) if ended else "cancelled"
    usage = state.accounts.usage
    figures = usage.prompt, usage.completion, state.accounts.cost
    return FlowResult(status, reason, stages, *figures, report, state.accounts.lines)


def stage_result(compiled: CompiledFlow, stage: Stage, state: State) -> StageResult:
    """How one stage, or group, has ended so far."""
    if stage.is_group:
        return _of_group(compiled, stage, state)
    status: Status
    attempts = state.tree.attempts.get(stage.id, [])
    endings = [ended[stage.id] for ended in state.tree.endings.values() if stage.id in ended]
    if not attempts:
        status = endings[-1] if endings else "skipped"
        return StageResult(stage.id, status, error=_skip_reason(stage, state), metadata=stage.metadata)
    status = endings[-1] if endings else "cancelled"
    note = state.notes.get(stage.id, Note())
    has_output = status in ("completed", "exhausted") and note.accepted and note.output is not None
    output = read_output(stage, note.output, compiled.code) if has_output else None
    error = "" if status in ("completed", "exhausted") else attempts[-1].why or attempts[-1].end_reason
    return StageResult(stage.id, status, output, note, error, len(attempts), stage.metadata)


def _skip_reason(stage: Stage, state: State) -> str:
    """Why a stage did not run: `condition`, `join_any`, `needs: STAGE failed`, ..."""
    reasons = (skipped[stage.id] for skipped in state.tree.skipped.values() if stage.id in skipped)
    return next(reasons, "")


def _of_group(compiled: CompiledFlow, group: Stage, state: State) -> StageResult:
    """A group has no ending of its own in the log: it follows from those of its stages."""
    inner = [stage_result(compiled, stage, state) for stage in group.stages]
    # What is not required may fail without its group.
    given_up = {stage.id for stage in group.stages if not stage.required and group.join == "all"}
    statuses = {each.status for each in inner if each.status != "failed" or each.id not in given_up}
    order: tuple[Status, ...] = ("cancelled", "failed", "exhausted", "completed")
    if group.join == "any":
        order = ("completed", "cancelled", "failed", "exhausted")
    status = next((each for each in order if each in statuses), "completed" if not statuses else "skipped")
    return StageResult(
        group.id, status, metadata=group.metadata, attempts=max(each.attempts for each in inner)
    )

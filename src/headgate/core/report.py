"""What is told about a finished task: the report, the summary, and the page that holds both."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from headgate.core import events as ev
from headgate.core.milestones import say_reason
from headgate.core.state import State
from headgate.core.task import Constraints, TaskState

ERROR_CHARS = 2_000


class FailureReport(BaseModel):
    """One failed verification, in brief."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    reason: str
    diagnosis: str


class Report(BaseModel):
    """Everything about a finished task that a script may want. `files_changed` and `run_ids` are measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    description: str
    status: Literal["in_progress", "completed", "failed", "cancelled"]
    state: TaskState
    verified: bool
    reason: str
    summary: str
    error: str | None = None
    constraints: Constraints
    flow: str
    model: str
    attempts: int
    """Times the work was handed to verification, or attempts at its last stage where there is none."""
    verify_loops: int
    replans: int
    warnings: tuple[str, ...]
    hypotheses: str
    failures: tuple[FailureReport, ...]
    run_ids: tuple[str, ...]
    files_changed: tuple[str, ...]
    files_read: tuple[str, ...]
    plan_steps: tuple[str, ...]
    tool_calls_total: int
    tool_errors_total: int
    tool_call_counts: dict[str, int]
    tool_error_counts: dict[str, int]
    analysis_retries: int
    """Stages attempted again before the first write."""
    feedback_counts: dict[str, int]
    """Corrections sent to the model, by kind."""
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds: float


def build_report(state: State) -> Report:
    """The report, from nothing but the task's events."""
    status: Literal["in_progress", "completed", "failed", "cancelled"] = "failed"
    if state.status in ("SUCCESS", "PROPOSED"):
        status = "completed"
    elif state.status == "CANCELLED":
        status = "cancelled"
    elif state.status in ("QUEUED", "RUNNING"):
        status = "in_progress"
    last_stage = list(state.stages.values())[-1].stage if state.stages else ""
    failure = state.last_failure if state.reason == "verify_loops" else ""
    error = f"{state.reason}: {failure or state.summary}"[:ERROR_CHARS] if status == "failed" else None
    return Report(
        task_id=state.task,
        description=state.text,
        status=status,
        state=state.status,
        verified=state.verified,
        reason=state.reason,
        summary=state.summary,
        error=error,
        constraints=state.constraints,
        flow=state.flow.name if state.flow else "",
        model=state.model,
        attempts=len(state.run_ids) or state.attempts_at(last_stage),
        verify_loops=state.verify_loops,
        replans=state.replans,
        warnings=state.warnings,
        hypotheses=state.hypotheses,
        failures=tuple(
            FailureReport(run_id=failure.run_id, reason=failure.reason, diagnosis=failure.diagnosis)
            for failure in state.failures
        ),
        run_ids=tuple(state.run_ids),
        files_changed=tuple(state.files_changed),
        files_read=tuple(state.files_read),
        plan_steps=tuple(item.description for item in state.plan),
        tool_calls_total=state.tool_calls.total(),
        tool_errors_total=state.tool_errors.total(),
        tool_call_counts=dict(state.tool_calls),
        tool_error_counts=dict(state.tool_errors),
        analysis_retries=state.retries_before_write,
        feedback_counts=dict(state.feedback),
        requests=state.requests,
        prompt_tokens=state.usage.prompt,
        cached_tokens=state.usage.cached,
        completion_tokens=state.usage.completion,
        seconds=round(state.last_at - state.started_at, 3) if state.started_at else 0.0,
    )


def write_summary(state: State, ending: TaskState, reason: str, detail: str, files: tuple[str, ...]) -> str:
    """What was done, why, and how it was verified. What the model says and what was measured stay apart."""
    said = last_words(state)
    lines = [_headline(state, ending, reason, detail)]
    if said:
        lines.append(f"The model says: {said}")
    lines.append(f"Changed: {', '.join(files)}." if files else "No file was changed.")
    lines += [f"Warning: {warning}." for warning in state.warnings]
    if state.run_ids and ending != "SUCCESS":
        lines.append(f"Verification runs: {', '.join(state.run_ids)}.")
    return "\n".join(lines)


def last_words(state: State) -> str:
    """The latest summary that the model itself gave of its work."""
    said = (stage.done.summary for stage in reversed(state.stages.values()) if stage.done)
    return next((" ".join(summary.split()) for summary in said if summary), "")


def _headline(state: State, ending: TaskState, reason: str, detail: str) -> str:
    match ending:
        case "SUCCESS" if state.passing_run:
            return f"Verified by {state.passing_run}."
        case "SUCCESS":
            flow_verifies = state.flow is None or state.flow.checks.verify
            why = "no verification steps are configured" if flow_verifies else "this flow has no verification"
            return f"Not verified: {why}."
        case "STUCK" if reason == "verify_loops":
            return f"Verification failed {state.verify_loops} times; the last failure: {state.last_failure}"
        case "STUCK":
            return detail or f"Stuck: {say_reason(reason)}."
        case "INFRA_ERROR":
            return f"The environment failed, not the work: {detail or say_reason(reason)}"
        case "CANCELLED":
            return "Cancelled."
        case _:
            return ending


def render_markdown(report: Report, notes: dict[str, ev.Note]) -> str:
    """The report as a page: for `context/` after a success, for `stuck/` otherwise."""
    lines = [f"# {report.state}: {report.description.splitlines()[0]}", "", report.summary, ""]
    if rendered := report.constraints.render():
        lines += [rendered, ""]
    if report.hypotheses:
        lines += ["## Hypotheses (the model's)", "", report.hypotheses, ""]
    if report.failures:
        lines += ["## Failed verifications", ""]
        for number, failure in enumerate(report.failures, 1):
            lines.append(f"{number}. {failure.reason} ({failure.run_id})")
            lines += [f"   Diagnosis: {failure.diagnosis}"] if failure.diagnosis else []
        lines.append("")
    if report.plan_steps:
        lines += ["## Plan", "", *(f"{n}. {step}" for n, step in enumerate(report.plan_steps, 1)), ""]
    for stage, note in notes.items():
        if note.summary:
            lines += [f"## {stage}", "", note.summary, ""]
            for title, items in (("Decisions", note.decisions), ("Risks", note.risks)):
                if items:
                    lines += [f"{title}:", "", *(f"- {item}" for item in items), ""]
    facts = [
        ("task", report.task_id),
        ("flow", report.flow),
        ("model", report.model),
        ("verified", f"yes, {report.run_ids[-1]}" if report.verified else "no"),
        ("runs", ", ".join(report.run_ids) or "none"),
        ("files changed", ", ".join(report.files_changed) or "none"),
        ("requests", str(report.requests)),
        ("tokens", f"{report.prompt_tokens} in, {report.completion_tokens} out"),
        ("seconds", f"{report.seconds:.1f}"),
    ]
    lines += ["## Measured", "", "| what | value |", "|---|---|", *(f"| {k} | {v} |" for k, v in facts), ""]
    return "\n".join(lines)

"""What is told about a task: the report, the summary, the stuck report, and one line per milestone."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from headgate.core import events as ev
from headgate.core.state import State
from headgate.core.task import Constraints, TaskState

ERROR_CHARS = 2_000


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
        verify_loops=state.failed_runs,
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
            return "Not verified: no verification steps are configured."
        case "STUCK" if reason == "verify_loops":
            return f"Verification failed {state.failed_runs} times; the last failure: {state.last_failure}"
        case "STUCK":
            return f"Stuck ({reason}). {detail}".strip()
        case "INFRA_ERROR":
            return f"The environment failed ({reason}), not the work. {detail}".strip()
        case "CANCELLED":
            return "Cancelled. What was changed so far is still there."
        case _:
            return ending


def render_markdown(report: Report, notes: dict[str, ev.Note]) -> str:
    """The report as a page: for `context/` after a success, for `stuck/` otherwise."""
    lines = [f"# {report.state}: {report.description.splitlines()[0]}", "", report.summary, ""]
    if rendered := report.constraints.render():
        lines += [rendered, ""]
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


def milestone(event: ev.Event, state: State) -> str | None:
    """One line for a person where an event is worth it. `state` is the state after the event."""
    stage = state.stages.get(event.path)
    match event.body:
        case ev.TaskStarted() as body:
            return f"Task {event.task} started: {body.flow.name} flow, {body.model}"
        case ev.StageStarted(reason="next") as body:
            return f"{body.title}: {_doing(body.stage)}"
        case ev.StageStarted(reason="check_failed") as body:
            budget = state.flow.stage(body.stage).budget if state.flow else None
            of = f"/{budget.verify_loops}" if budget else ""
            return f"Verification failed, debugging... Attempt {state.failed_runs + 1}{of}"
        case ev.StageStarted() as body:
            return f"{body.title}: attempt {body.attempt}"
        case ev.ToolFinished(error="denied") as body:
            return f"Refused: {body.name} in {stage.title if stage else event.path}"
        case ev.ReplyFailed() as body:
            return f"Model: {body.detail}"
        case ev.PlanWritten() as body:
            return f"Plan: {len(body.items)} step{'s' if len(body.items) != 1 else ''}"
        case ev.DecisionMade(action="final_turn") as body:
            return f"Final turn ({body.reason})"
        case ev.DecisionMade(action="wait") as body:
            return f"Waiting for the model: {body.detail}"
        case ev.ViewCompacted() as body:
            return f"Context compacted: {body.messages_before} messages to {body.messages_after}"
        case ev.StageEnded(ending=ending) as body if ending != "completed":
            return f"{stage.title if stage else body.stage}: {ending} ({body.reason})"
        case ev.VerifyStarted() as body:
            return f"Running verification... {body.run_id}"
        case ev.VerifyFinished(passed=True):
            return "Verification passed"
        case ev.VerifyFinished() as body:
            return f"Verification failed: {body.reason}"
        case ev.TaskEnded(state="SUCCESS", verified=False):
            return "SUCCESS (not verified)"
        case ev.TaskEnded() as body:
            return f"{body.state}" + ("" if body.reason in ("done", "cancelled") else f": {body.reason}")
        case _:
            return None


def _doing(stage: str) -> str:
    known = {
        "explore": "analyzing codebase...",
        "plan": "planning...",
        "implement": "implementing changes...",
        "work": "working...",
    }
    return known.get(stage, "started")

"""What is told about a finished task: the report, the summary, and the page that holds both."""

import re
from collections import Counter
from typing import Literal

from pydantic import BaseModel, ConfigDict

from headgate.core.events import Note
from headgate.core.milestones import say_reason
from headgate.core.report_check import ERROR_CHARS
from headgate.core.stagestate import StageState, say_refusal
from headgate.core.state import State
from headgate.core.task import Constraints, TaskState
from headgate.core.words import shorten, times

SUMMARY_CHARS, NOTE_CHARS, STEP_CHARS = 300, 2_000, 500
"""What is shown of the model's words: in the summary, of a stage's note, and of one step or decision."""
MOST_ITEMS = 20


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
    model_says: str
    """The model's own words at the end of the last stage: not measured, and nothing else is based on them."""
    model_says_accepted: bool
    """False where a check refused what the model said in its final turn."""
    error: str | None = None
    constraints: Constraints
    flow: str
    model: str
    attempts: int
    """Times the work was handed to verification, or attempts at its last stage where there is none."""
    verify_loops: int
    replans: int
    replan_max: int
    """How often the plan may be written anew because one of its steps failed."""
    final_turns: tuple[str, ...]
    """Why the model was made to conclude, each time, by slug."""
    warnings: tuple[str, ...]
    hypotheses: str
    traceback: str
    """Where Headgate itself failed, if it did."""
    failures: tuple[FailureReport, ...]
    run_ids: tuple[str, ...]
    files_changed: tuple[str, ...]
    """What the task changed in the working tree; for a proposal, what it would change."""
    diffstat: tuple[str, ...]
    """Lines added and removed, one file each."""
    conflicts: tuple[str, ...]
    """Why a proposal could not be applied, the last time that was tried."""
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
    cost: float
    """By the prices in the configuration."""


def build_report(state: State) -> Report:
    """The report, from nothing but the task's events."""
    status: Literal["in_progress", "completed", "failed", "cancelled"] = "failed"
    if state.status in ("SUCCESS", "PROPOSED"):
        status = "completed"
    elif state.status == "CANCELLED":
        status = "cancelled"
    elif state.status in ("QUEUED", "RUNNING"):
        status = "in_progress"
    told = state.status != "CANCELLED"  # what was attempted in a cancelled task is not documented
    last_stage = list(state.stages.values())[-1].stage if state.stages else ""
    failure = state.last_failure if state.reason in ("verify_loops", "no_progress") else ""
    error = f"{state.reason}: {failure or state.summary}"[:ERROR_CHARS] if status == "failed" else None
    return Report(
        task_id=state.task,
        description=state.text,
        status=status,
        state=state.status,
        verified=state.verified,
        reason=state.reason,
        summary=_summary(state) if told else "",
        model_says=last_words(state) if told else "",
        model_says_accepted=_last_note(state).accepted,
        error=error,
        constraints=state.constraints,
        flow=state.flow.name if state.flow else "",
        model=state.model,
        attempts=state.verifications or state.attempts_at(last_stage),
        verify_loops=state.verify_loops,
        replans=state.replans,
        replan_max=state.flow.replan_max if state.flow else 0,
        final_turns=tuple(state.final_turns),
        warnings=state.warnings if told else (),
        hypotheses=state.hypotheses if told else "",
        traceback=state.traceback,
        failures=tuple(
            FailureReport(run_id=failure.run_id, reason=failure.reason, diagnosis=failure.diagnosis)
            for failure in state.failures
            if told
        ),
        run_ids=tuple(state.run_ids),
        files_changed=tuple(state.files_changed),
        diffstat=state.diffstat,
        conflicts=state.conflicts if state.status == "PROPOSED" else (),
        files_read=tuple(state.files_read),
        plan_steps=tuple(shorten(item.description, STEP_CHARS) for item in state.plan if told),
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
        seconds=round(state.seconds, 3),
        cost=round(state.cost, 6),
    )


def _summary(state: State) -> str:
    if state.status == "PROPOSED" and state.refusal:
        return f"Not applied, and nothing was changed: {state.refusal}\n{state.summary}"
    return state.summary


def write_summary(state: State, ending: TaskState, reason: str, detail: str, files: tuple[str, ...]) -> str:
    """What was done, why, and how it was verified. What the model says and what was measured stay apart."""
    if ending == "CANCELLED":
        return ""  # what was attempted in a cancelled task is not documented
    said = last_words(state)
    lines = [_headline(state, ending, reason, detail)]
    mute = state.feedback["text_only"] + state.feedback["bad_reply"]
    if ending == "STUCK" and not state.tool_calls and mute > 1:
        lines.append(
            "No call of the model could be carried out: headgate doctor shows how it can call tools."
        )
    weakened = state.warning("tests_weakened") if "tests_weakened" in state.reviews else ""
    if weakened:
        lines.append(f"Warning: {weakened}.")
    if said and state.config.get("task_output_mode") != "runtime":
        lines.append(f"{_say_source(state)}: {shorten(said, SUMMARY_CHARS)}")
        if claims_passing(said) and not state.passing_run:
            lines.append(
                f"{state.asked_pass} passed when the model asked for it; the result itself is not verified."
                if state.asked_pass
                else "No verification run has passed: that tests pass is the model's claim alone."
            )
    if ending not in ("SUCCESS", "PROPOSED"):
        lines += [f"Final turn forced: {reasons}." for reasons in [say_final_turns(state)] if reasons]
    lines += _answers(state)
    if ending == "PROPOSED":
        lines.append(f"Would change: {', '.join(files)}." if files else "No change is proposed.")
    else:
        lines.append(f"Changed: {', '.join(files)}." if files else "No file was changed.")
    lines += _steps_left(state)
    lines += [f"Warning: {warning}." for warning in state.warnings if warning != weakened]
    if state.run_ids and ending != "SUCCESS":
        lines += _list_runs(state.run_ids)
    return "\n".join(lines)


def _list_runs(run_ids: list[str]) -> list[str]:
    if len(run_ids) <= 2:
        return [f"Verification runs: {', '.join(run_ids)}."]
    return ["Verification runs:", *(f"  {run_id}" for run_id in run_ids)]


def _answers(state: State) -> list[str]:
    """What came of the whole answers that were asked for."""
    if not state.candidates:
        return []
    counts = Counter(tried.verdict for tried in state.candidates)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    passed = next((tried.place for tried in state.candidates if tried.verdict == "passed"), "")
    kept = f"kept is the one for {passed}" if passed else "none was kept"
    failing = state.opening.failing if state.opening else ()
    more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
    began = [f"It began with a failing check: {failing[0].split(' (')[0]}{more}."] if failing else []
    return [*began, f"Answers tried: {len(state.candidates)} ({told}); {kept}."]


def _steps_left(state: State) -> list[str]:
    """Steps of the plan that were not done, where the runtime carries them out one by one."""
    if state.flow is None or not any(stage.foreach for stage in state.flow.stages):
        return []
    left = [
        f"{item.id} ({item.status}{f': {item.reason}' if item.reason else ''})"
        for item in state.plan
        if item.status != "completed"
    ]
    return [f"Steps not done: {', '.join(left)}."] if left else []


_CLAIM = re.compile(
    r"\b(?:tests?|checks?|suite|build|verification)\b[^.!?]{0,40}\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b"
    r"|\bpass(?:es|ed|ing)?\b[^.!?]{0,20}\b(?:tests?|checks?|suite)\b|\bverified\b",
    re.IGNORECASE,
)


def claims_passing(text: str) -> bool:
    """Whether a text says that tests pass."""
    return bool(_CLAIM.search(text))


def last_words(state: State) -> str:
    """What the model itself said at the end of the last stage: what it said earlier is no result."""
    return " ".join(_last_note(state).summary.split())


def _last_note(state: State) -> Note:
    """The model's latest note on the last stage; an empty one where it said nothing."""
    said = _last_said(state)
    return (said.note if said else None) or Note()


def _last_said(state: State) -> StageState | None:
    """The latest attempt at the last stage in which the model said something about its work."""
    flow = state.flow
    attempts = [each for each in state.stages.values() if flow is None or each.stage != flow.replan.id]
    last = attempts[-1].stage if attempts else ""
    if flow and any(stage.id == last and stage.candidates for stage in flow.stages):
        return None  # what such a stage leaves is the runtime's own note
    said = (each for each in reversed(attempts) if each.stage == last and each.note and each.note.summary)
    return next(said, None)


def _say_source(state: State) -> str:
    said = _last_said(state)
    if said is None or said.done:
        return "The model says"
    return f"The model's own conclusion (not accepted: {say_refusal(said.refusal)})"


def say_final_turns(state: State) -> str:
    """Why the model was made to conclude, in words and by slug, each reason once; empty if it was not."""
    counts = Counter(state.final_turns)
    return ", ".join(
        f"{say_reason(slug)} ({slug}{f', {times(count)}' if count > 1 else ''})"
        for slug, count in counts.items()
    )


def _headline(state: State, ending: TaskState, reason: str, detail: str) -> str:
    match ending:
        case "SUCCESS" if state.passing_run:
            return f"Verified by {state.passing_run}."
        case "SUCCESS":
            flow_verifies = state.flow is None or state.flow.checks.verify
            why = "no verification steps are configured" if flow_verifies else "this flow has no verification"
            return f"Not verified: {why}."
        case "STUCK" if reason == "verify_loops":
            return f"Verification failed {times(state.verify_loops)}; the last failure: {state.last_failure}"
        case "STUCK" if reason.startswith("limit_"):
            return f"Stuck: {say_reason(reason)}{f' ({detail})' if detail else ''}."
        case "STUCK":
            return detail or f"Stuck: {say_reason(reason)}."
        case "INFRA_ERROR":
            return f"The environment failed, not the work: {detail or say_reason(reason)}"
        case "PROPOSED":
            return "A proposal: nothing was written, nothing was verified."
        case "CANCELLED":
            return "Cancelled."
        case _:
            return ending


def render_markdown(report: Report, state: State) -> str:
    """The report as a page: for `context/` after a success, for `stuck/` otherwise."""
    lines = [f"# {report.state}: {report.description.splitlines()[0]}", "", report.summary, ""]
    lines += ["## Why", "", state.goal, ""]
    if rendered := report.constraints.render():
        lines += [rendered, ""]
    lines += _section("What", [f"- {line}" for line in report.diffstat])
    if report.state != "SUCCESS":
        lines += _what_is_left(report)
    lines += _section("Plan", [f"{n}. {step}" for n, step in enumerate(report.plan_steps, 1)])
    for stage, note in state.notes.items():
        if note.summary:
            lines += [f"## {stage}{'' if note.accepted else ' (not accepted)'}", ""]
            lines += [shorten(note.summary, NOTE_CHARS), ""]
            for title, items in (("Decisions", note.decisions), ("Risks", note.risks)):
                if items:
                    listed = [f"- {shorten(item, STEP_CHARS)}" for item in items[:MOST_ITEMS]]
                    lines += [f"{title}:", "", *listed, ""]
    lines += _section("How verified", _verification(report, state))
    facts = [
        ("task", report.task_id),
        ("flow", report.flow),
        ("model", report.model),
        ("verified", f"yes, {report.run_ids[-1]}" if report.verified else "no"),
        ("runs", ", ".join(report.run_ids) or "none"),
        ("files changed", ", ".join(report.files_changed) or "none"),
        ("final turns forced", say_final_turns(state) or "none"),
        ("requests", str(report.requests)),
        ("tokens", f"{report.prompt_tokens} in, {report.completion_tokens} out"),
        ("seconds", f"{report.seconds:.1f}"),
    ]
    lines += ["## Measured", "", "| what | value |", "|---|---|", *(f"| {k} | {v} |" for k, v in facts), ""]
    return "\n".join(lines)


def _what_is_left(report: Report) -> list[str]:
    """What helps whoever takes a task up that did not succeed."""
    lines = _section("Hypotheses (the model's)", [report.hypotheses] if report.hypotheses else [])
    failures = []
    for number, failure in enumerate(report.failures, 1):
        failures.append(f"{number}. {failure.reason} ({failure.run_id})")
        failures += [f"   Diagnosis: {failure.diagnosis}"] if failure.diagnosis else []
    lines += _section("Failed verifications", failures)
    logs = [f"- `.headgate/runs/{run_id}/combined.log`" for run_id in report.run_ids]
    lines += _section("Logs of the runs", logs)
    return lines + _section("Traceback", ["```", report.traceback, "```"] if report.traceback else [])


def _verification(report: Report, state: State) -> list[str]:
    if not report.verified:
        return []
    steps = [f"- {step.name}: passed in {step.seconds:.1f} s" for step in state.last_steps]
    run_id = report.run_ids[-1]
    return [f"By {run_id} (`.headgate/runs/{run_id}/`):", "", *steps]


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if lines else []

"""The report of a task, and the page that holds it."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from headgate.control_characters import escape_controls
from headgate.core import (
    Body,
    Constraints,
    Data,
    Event,
    FailureReport,
    Person,
    Proposed,
    State,
    TaskEnded,
    TaskReport,
    TaskReportInvalid,
    TaskState,
    UsageLine,
    VerifyRuns,
    package_of,
    parse_task_text,
    quote_lines,
    say_cost,
    shorten,
    usage_table,
)
from headgate.log.summary import (
    all_warnings,
    last_note,
    last_summary,
    say_failures,
    say_final_turns,
)

# Whether a task's report is one: what scripts rely on is there, has its type, and adds up.


REQUIRED: dict[str, type | tuple[type, ...]] = {
    "task_id": str,
    "description": str,
    "status": str,
    "attempts": int,
    "replan_max": int,
    "files_changed": (list, tuple),
    "files_read": (list, tuple),
    "plan_steps": (list, tuple),
    "tool_calls_total": int,
    "tool_errors_total": int,
    "tool_call_counts": dict,
    "tool_error_counts": dict,
    "analysis_retries": int,
    "feedback_counts": dict,
}
ENDED = ("completed", "failed", "cancelled")
ERROR_CHARS = 2_000


def report_problems(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Codes of what is wrong, such as `missing:task_id`; nothing for a report as it should be."""
    found = [f"missing:{name}" for name in REQUIRED if name not in report]
    there = [name for name in REQUIRED if name in report]
    found += [f"type:{name}" for name in there if not _is(report[name], REQUIRED[name])]
    if found:
        return tuple(found)
    if not report["task_id"] or not report["description"]:
        found.append("empty:task")
    if report["status"] not in ENDED:
        found.append("status:not_ended")
    error = report.get("error")
    if (report["status"] == "failed") != bool(error):
        found.append("error:unexpected" if error else "error:missing")
    if error and len(error) > ERROR_CHARS:
        found.append("error:too_long")
    for kind in ("call", "error"):
        counts = report[f"tool_{kind}_counts"]
        if sum(counts.values()) != report[f"tool_{kind}s_total"]:
            found.append(f"sum:tool_{kind}s_total")
    numbers = ("attempts", "replan_max", "analysis_retries", "tool_calls_total", "tool_errors_total")
    found += [f"negative:{name}" for name in numbers if report[name] < 0]
    if report["tool_errors_total"] > report["tool_calls_total"]:
        found.append("sum:more_errors_than_calls")
    return tuple(found)


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is int)


NOTE_CHARS, STEP_CHARS = 2_000, 500
"""What is shown of the model's words: of a stage's note, and of one step or decision."""
MOST_ITEMS = 20


ReportStatus = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
_STATUS: dict[TaskState, ReportStatus] = {
    "QUEUED": "pending",
    "RUNNING": "in_progress",
    "PROPOSED": "completed",
    "SUCCESS": "completed",
    "CANCELLED": "cancelled",
}


class Report(Data):
    """Everything about a finished task that a script may want. `files_changed` and `run_ids` are measured."""

    task_id: str
    description: str
    goal: str
    """What the text states as its goal, or else the text without its constraint sections."""
    status: ReportStatus
    state: TaskState
    verified: bool
    reason: str
    summary: str
    model_says: str
    """The model's own words at the end of the last stage: not measured, and nothing else is based on them."""
    model_says_accepted: bool
    """False where a check refused what the model said in its final turn."""
    answer: str
    """What the model answered, whole, where the task changed nothing because it is a question."""
    error: str | None = None
    constraints: Constraints
    flow: str
    model: str
    package: str = ""
    """The package of a monorepo that it worked on."""
    sandbox: str = ""
    """`bubblewrap` if commands ran in it, otherwise why they did not; empty where no command could run."""
    attempts: int
    """Times the work was handed to verification, or attempts at its last stage where there is none."""
    verify_loops: int
    """Verification runs that failed."""
    red_before: tuple[str, ...]
    """What failed in verification and had failed before the task as well: tests, or steps."""
    replans: int
    replan_max: int
    """How often the plan may be rewritten because one of its steps failed."""
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
    changed_after_review: tuple[str, ...]
    """Files that were changed after the proposal was reviewed and applied, because verification failed."""
    not_in_diff: tuple[str, ...]
    """Changed files that the diff cannot show: those in a submodule or another repository, and huge ones."""
    left_behind: tuple[str, ...] = ()
    """New files that verification runs made. They are not in the diff."""
    shared: tuple[str, ...] = ()
    """Files that somebody else changed at the same places while the task ran: the diff shows that as well."""
    worktree: str = ""
    """The task's own worktree, from the repository's root, while it is there."""
    branch: str = ""
    """The branch of that worktree."""
    commit: str = ""
    """The commit that was made there."""
    merged: bool = False
    """What it changed there was written to the user's own tree with `headgate apply`."""
    merge_verified: bool | None = None
    """Whether verification passed there; null if it did not run."""
    merge_reason: str = ""
    """Why it did not pass."""
    merge_run: str = ""
    """Its run."""
    undone: bool = False
    """Its changes were taken back with `headgate undo`; the diff is kept."""
    discarded: bool = False
    """Its worktree was removed with `headgate abort` before it was applied; the diff is kept."""
    diffstat: tuple[str, ...]
    """Lines added and removed, one file each."""
    conflicts: tuple[str, ...]
    """Why a proposal could not be applied, the last time that was tried."""
    files_read: tuple[str, ...]
    sources: tuple[str, ...] = ()
    """Pages of the web that `research` returned. Nobody has checked what the model makes of them."""
    unread: tuple[str, ...] = ()
    """What a person said to the task too late to be read."""
    memories_saved: int = 0
    """Successful calls of `memory_save`, which writes outside of the tree."""
    plan_steps: tuple[str, ...]
    """The steps of the model's plan, and what a planner had executed, with how that ended."""
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
    """By the prices in the configuration. What models without a price cost is not in it; see `usage`."""
    usage: tuple[UsageLine, ...] = ()
    """The same by stage and model: the sums of these lines are the figures above."""


UNTOLD = (
    "summary",
    "model_says",
    "red_before",
    "warnings",
    "hypotheses",
    "failures",
    "sources",
    "plan_steps",
)
"""What was attempted in a cancelled task is not documented: texts and lists that are empty then."""


def build_report(state: State) -> Report:
    """The report, from nothing but the task's events: what the state knows, and each of its slices."""
    fields = _own_fields(state)
    for part in state.slices.values():
        fields |= part.report(state)
    if state.status == "CANCELLED":
        fields |= {name: type(fields[name])() for name in UNTOLD}
    return Report(**fields)


def _own_fields(state: State) -> dict[str, Any]:
    status, runs, ended = _STATUS.get(state.status, "failed"), state[VerifyRuns], state.ended
    failure = runs.last_failure if state.reason in ("verify_loops", "no_progress") else ""
    usage = state.accounts.lines
    return {
        "task_id": state.task,
        "description": state.text,
        "goal": state.goal,
        "status": status,
        "state": state.status,
        "verified": state.verified,
        "reason": state.reason,
        "summary": _summary(state),
        "model_says": last_summary(state),
        "model_says_accepted": last_note(state).accepted,
        "error": f"{state.reason}: {failure or state.summary}"[:ERROR_CHARS] if status == "failed" else None,
        "constraints": state.constraints,
        "flow": state.flow.name if state.flow else "",
        "model": state.model,
        "package": package_of(state.config),
        "warnings": all_warnings(state),
        "files_changed": tuple(state.files_changed),
        "changed_after_review": ended.after_review if ended else (),
        "not_in_diff": ended.not_in_diff if ended else (),
        "shared": ended.shared if ended else (),
        "diffstat": ended.diffstat if ended else (),
        "files_read": tuple(state.files_read),
        "unread": state[Person].unread,
        "analysis_retries": state.tree.retries_before_write,
        "requests": state.accounts.requests,
        "prompt_tokens": state.accounts.usage.prompt,
        "cached_tokens": state.accounts.usage.cached,
        "completion_tokens": state.accounts.usage.completion,
        "seconds": round(state.seconds, 3),
        "cost": round(sum(line.cost or 0.0 for line in usage), 6),
        "usage": usage,
    }


LINE_CHARS = 300


def try_line(number: int, reason: str | None, final_turns: Iterable[str] = ()) -> str:
    """The line of a benchmark's try: `Finished TryN` if there is no reason why it failed.

    Otherwise `Failed TryN: reason`, with what forced the model to conclude.
    """
    if reason is None:
        return f"Finished Try{number}"
    said = " ".join("".join(char if char.isprintable() else " " for char in reason).split())
    forced = ", ".join(dict.fromkeys(final_turns))
    if len(said) > LINE_CHARS:  # no word is cut: it may be an address
        said = f"{said[:LINE_CHARS].rpartition(' ')[0] or said[:LINE_CHARS]} …"
    return f"Failed Try{number}: {said}{f' [final turn: {forced}]' if forced else ''}"


def report_events(state: State, ended: TaskEnded, at: float) -> list[Body]:
    """What the log is told about a task that is about to end so: its report, and whether that is one."""
    after = state.after(Event(state.last_seq, state.task, "", 0, at, ended))
    report = build_report(after).model_dump(mode="json")
    kept = {name: report[name] for name in REQUIRED}
    if report["error"] is not None:
        kept["error"] = report["error"]
    bodies: list[Body] = [TaskReport(report=kept)]
    if codes := report_problems(report):
        bodies.append(TaskReportInvalid(codes=codes))
    return bodies


def _summary(state: State) -> str:
    if state.status == "PROPOSED" and state[Proposed].refusal:
        return f"Not applied; nothing was changed: {state[Proposed].refusal}\n{state.summary}"
    return state.summary


def render_markdown(report: Report, state: State, *, with_usage: bool = True) -> str:
    """The report as a page: for `context/` after a success, for `stuck/` otherwise.

    `with_usage`: what each stage used, which is of no use to a model that takes the task up.
    """
    cancelled = report.state == "CANCELLED"  # of such a task nothing is documented but its counters
    summary = "\n".join(filter(None, [report.summary, "Cancelled." if cancelled else ""]))
    title = next(iter(report.description.splitlines()), report.task_id)
    lines = [f"# {report.state}: {title}", "", summary, ""]
    request = parse_task_text(report.description).request or report.goal
    lines += ["## Task", "", request, ""]
    lines += _section("Goal", [report.goal] if report.goal != request else [])
    if rendered := report.constraints.render():
        lines += [rendered, ""]
    lines += _section("What", [f"- {line}" for line in report.diffstat])
    if report.state != "SUCCESS":
        lines += _what_is_left(report)
    lines += _section("Plan", [f"{n}. {step}" for n, step in enumerate(report.plan_steps, 1)])
    for stage, note in state.notes.items():
        if note.summary and not cancelled:
            lines += [f"## {stage}{'' if note.accepted else ' (not accepted)'}", ""]
            lines += [quote_lines(shorten(note.summary, NOTE_CHARS)), ""]
            for title, items in (("Decisions", note.decisions), ("Risks", note.risks)):
                if items:
                    listed = [
                        f"- {shorten(' '.join(item.split()), STEP_CHARS)}" for item in items[:MOST_ITEMS]
                    ]
                    lines += [f"{title}:", "", *listed, ""]
    lines += _section("Sources", [f"- {source}" for source in report.sources])
    lines += _section("How verified", _verification(report, state))
    lines += _section("Left by verification", [f"- {path}" for path in state[VerifyRuns].worth_naming])
    facts = [
        ("task", report.task_id),
        ("flow", report.flow),
        ("model", report.model),
        *([("package", report.package)] if report.package else []),
        *([("sandbox", report.sandbox)] if report.sandbox else []),
        ("verified", f"yes, {report.run_ids[-1]}" if report.verified else "no"),
        ("runs", ", ".join(report.run_ids) or "none"),
        ("files changed", ", ".join(report.files_changed) or "none"),
        *([("worktree", f"{report.worktree}, branch {report.branch}")] if report.worktree else []),
        *([("commit", report.commit)] if report.commit else []),
        *((name, "yes") for name in ("undone", "discarded") if getattr(report, name)),
        *([("memories saved", str(report.memories_saved))] if report.memories_saved else []),
        ("final turns forced", say_final_turns(state) or "none"),
        ("requests", str(report.requests)),
        ("tokens", _tokens(report)),
        *([("cost", cost)] if (cost := say_cost(report.cost, report.usage)) else []),
        ("seconds", f"{report.seconds:.1f}"),
    ]
    lines += ["## Measured", "", "| what | value |", "|---|---|", *(f"| {k} | {v} |" for k, v in facts), ""]
    # The model's words are in it, and people read it in a terminal or an editor.
    return escape_controls("\n".join([*lines, *(_usage(report) if with_usage else [])]))


def _tokens(report: Report) -> str:
    about = "~" if any(line.estimated for line in report.usage) else ""
    cached = f" ({report.cached_tokens} cached)" if report.cached_tokens else ""
    return f"{about}{report.prompt_tokens} sent{cached}, {about}{report.completion_tokens} generated"


def _usage(report: Report) -> list[str]:
    """Who was asked, and what that took."""
    if not report.usage:
        return []
    titles, *rows = (" | ".join(row) for row in usage_table(report.usage))
    ruler = "---|" * (titles.count("|") + 1)
    return _section("Usage", [f"| {titles} |", f"|{ruler}", *(f"| {row} |" for row in rows)])


def _what_is_left(report: Report) -> list[str]:
    """What helps whoever takes a task up that did not succeed."""
    lines = _section(
        "Hypotheses from the model", [quote_lines(report.hypotheses)] if report.hypotheses else []
    )
    words = say_failures([failure.sentence for failure in report.failures], report.summary)
    failures = []
    for number, (failure, said) in enumerate(zip(report.failures, words, strict=True), 1):
        failures.append(f"{number}. {said} ({failure.run_id})")
        failures += [f"   Diagnosis: {' '.join(failure.diagnosis.split())}"] if failure.diagnosis else []
    lines += _section("Failed verifications", failures)
    logs = [f"- `.headgate/runs/{run_id}/combined.log`" for run_id in report.run_ids]
    lines += _section("Run logs", logs)
    return lines + _section("Traceback", ["```", report.traceback, "```"] if report.traceback else [])


def _verification(report: Report, state: State) -> list[str]:
    if not report.verified:
        return []
    steps = [
        f"- {step.name}: {'passed' if step.passed else 'failed, as it did before this task,'}"
        f" in {step.seconds:.1f} s"
        for step in state[VerifyRuns].last_steps
    ]
    run_id = report.run_ids[-1]
    return [f"By {run_id} (`.headgate/runs/{run_id}/`):", "", *steps]


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if lines else []

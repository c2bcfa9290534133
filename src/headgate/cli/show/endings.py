"""The last lines about a task: what came of it, commands to go on with, and the line of a benchmark's try."""

from collections.abc import Sequence

from headgate.cli.exit_codes import EXIT_CANCELLED, EXIT_FAILED, EXIT_SUCCESS
from headgate.cli.show.live import printable
from headgate.core import Report, State, TaskState, last_summary, plain

_REASON_CHARS = 300


def last_lines(report: Report, *, detailed: bool = False) -> list[str]:
    """What a person wants to know of a task that is settled; `detailed`: every step has been shown."""
    if report.conflicts:
        return [
            "The working tree has changed, and the proposal no longer applies. Nothing was written.",
            *(f"  {conflict}" for conflict in report.conflicts),
            *next_steps(report.task_id, report.state, report.files_changed, refused=True),
        ]
    if report.state == "QUEUED":
        return [f"Task {report.task_id} is still queued."]
    lines = [_cancelled(report)] if report.state == "CANCELLED" else report.summary.splitlines()
    lines = [*plain(report.answer).splitlines(), "", *lines] if report.answer else lines
    return [*lines, *next_steps(report.task_id, report.state, report.files_changed, detailed=detailed)]


def next_steps(
    task: str,
    state: TaskState,
    changed: Sequence[str] = (),
    *,
    interrupted: str = "",
    refused: bool = False,
    detailed: bool = False,
) -> list[str]:
    """The commands that make sense now; `interrupted` has those for a task whose process is gone."""
    tell = "" if detailed else f"headgate show {task} --detail shows every step."
    undo = f"headgate diff {task} | git apply -R reverts them."
    match state:
        case "RUNNING" if interrupted:
            return [interrupted]
        case "RUNNING":
            return [f"headgate watch {task} follows it; headgate cancel {task} ends it."]
        case "QUEUED":
            return [f"headgate watch {task} follows it; headgate cancel {task} removes it from the queue."]
        case "PROPOSED" if refused:
            return [
                f"headgate diff {task} shows the proposal; headgate abort {task} discards it.",
                "A new headgate run --dry-run starts from the current tree.",
            ]
        case "PROPOSED" if changed:
            return [
                f"headgate diff {task} shows it; headgate apply {task} writes and verifies it; "
                f"headgate abort {task} discards it."
            ]
        case "PROPOSED":
            return [f"headgate abort {task} discards it."]
        case "CANCELLED":
            reverted = [f"headgate diff {task} shows its changes; {undo}"] if changed else []
            return [*reverted, f"headgate run --resume {task} tries again."]
        case _:
            then = tell if state == "SUCCESS" else undo
            shown = f"headgate diff {task} shows the changes"
            lines = [f"{shown}; {then}" if then else f"{shown}."] if changed else []
            lines += [tell] if tell and tell not in "".join(lines) else []
            if state != "SUCCESS":
                lines.append(f"headgate run --resume {task} tries again and starts from this report.")
            return lines


def _cancelled(report: Report) -> str:
    if report.reason == "aborted":
        return f"The proposal of task {report.task_id} was discarded."
    if not report.model:
        return f"Task {report.task_id} was cancelled before it started."
    left = (
        f" Its changes stay in the working tree: {', '.join(report.files_changed)}."
        if report.files_changed
        else ""
    )
    return f"Task {report.task_id} was cancelled.{left}"


# The one line of a benchmark's try.


def result_line(number: int, report: Report | None, state: State) -> str:
    """`Finished TryN`, or `Failed TryN: reason`; what the model said last, if the configuration wants that.

    Without a report Headgate itself has failed.
    """
    if state.config.get("benchmark_output_mode") == "model" and (said := last_summary(state)):
        return " ".join(printable(said).split())
    if report is not None and report.state == "SUCCESS":
        return f"Finished Try{number}"
    forced = (
        f" [final turn: {', '.join(dict.fromkeys(report.final_turns))}]"
        if report and report.final_turns
        else ""
    )
    reason = " ".join(printable(_reason(report)).split())
    return f"Failed Try{number}: {reason[:_REASON_CHARS].rstrip()}{forced}"


def try_exit_code(state: TaskState) -> int:
    """The exit code of a try: 1 for every failure, whatever the reason, and 130 if it was cancelled."""
    return {"SUCCESS": EXIT_SUCCESS, "CANCELLED": EXIT_CANCELLED}.get(state, EXIT_FAILED)


def _reason(report: Report | None) -> str:
    if report is None:
        return "Headgate itself failed"
    if report.state == "CANCELLED":
        return "cancelled"
    if report.state == "QUEUED":
        return "the queue is paused"
    return (report.summary.splitlines() or [report.reason])[0]

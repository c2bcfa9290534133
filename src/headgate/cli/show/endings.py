"""The last lines about a task: what came of it, and the commands that go on from there."""

from collections.abc import Sequence

from headgate.core import Report, TaskState, plain


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

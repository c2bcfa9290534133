"""How a task ended, what it used, and which commands come next: in a shell, or at the prompt."""

from collections.abc import Sequence
from functools import partial

from headgate.cli.printing import printable, say, tell
from headgate.cli.shared import EXIT_CANCELLED, EXIT_FAILED, EXIT_SUCCESS
from headgate.core import (
    FINAL_STATES,
    State,
    TaskState,
    Usage,
    UsageLine,
    plain,
    say_cost,
    say_usage,
    usage_table,
)
from headgate.log import Report, last_summary, say_discarded, say_merged, say_unread, try_line


def print_ending(report: Report, *, to_stderr: bool = False) -> None:
    """What a person wants to know at the end, after an empty line."""
    for line in ("", *last_lines(report)):
        tell(line) if to_stderr else say(line, hanging=2)


def last_lines(report: Report, *, detailed: bool = False, at_prompt: bool = False) -> list[str]:
    """What a person wants to know of a task that is settled; `detailed`: every step has been shown."""
    name = report.task_id
    steps = partial(next_steps, name, report.state, report.files_changed, at_prompt=at_prompt)
    if report.conflicts:
        return [
            "The working tree has changed, and the proposal no longer applies. Nothing was written.",
            *(f"  {conflict}" for conflict in report.conflicts),
            *steps(refused=True),
        ]
    if report.state == "QUEUED":
        return [f"Task {name} is still queued."]
    lines = report.summary.splitlines()
    if report.state == "CANCELLED":
        lines += [_cancelled(report), *([say_unread(report.unread)] if report.unread else [])]
    lines = [*plain(report.answer).splitlines(), "", *lines] if report.answer else lines
    if report.undone:
        told = f"Task {name} was undone: its changes are not in the working tree."
        return [*lines, told, f"headgate diff {name} | git apply restores them."]
    if report.discarded:
        again = f"headgate run --resume {name} tries again."
        return [*lines, say_discarded(name), *([again] if report.state != "SUCCESS" else [])]
    if report.merged:
        lines.append(say_merged(report.merge_verified, report.merge_reason))
    if report.worktree and report.state in FINAL_STATES:
        return [*lines, *_worktree_steps(report, at_prompt)]
    return [*lines, *steps(detailed=detailed)]


def _cancelled(report: Report) -> str:
    if report.reason == "aborted":
        return f"The proposal of task {report.task_id} was discarded."
    if not report.model:
        return f"Task {report.task_id} was cancelled before it started."
    left = (
        f" Its changes stay in the working tree: {', '.join(report.files_changed)}."
        if report.files_changed and not report.undone and not (report.worktree or report.discarded)
        else ""
    )
    return f"Task {report.task_id} was cancelled.{left}"


def _command(name: str, task: str, at_prompt: bool) -> str:
    """A command about a task, as a person types it; at the prompt, it is about the last one."""
    return f"/{name}" if at_prompt else f"headgate {name} {task}"


def _worktree_steps(report: Report, at_prompt: bool) -> list[str]:
    """Where a task's worktree is, and what can be done with it."""
    diff, apply, abort, undo = (
        _command(name, report.task_id, at_prompt) for name in ("diff", "apply", "abort", "undo")
    )
    if report.merged:
        where = f"The worktree {report.worktree} is still there."
        return [where, f"{undo} undoes them; {abort} removes the worktree."]
    where = f"The changes are in {report.worktree}, on the branch {report.branch}."
    then = f"{diff} shows them; {apply} writes them to your own tree"
    then += f"; {abort} removes the worktree and the branch."
    merge = [f"git merge {report.branch} merges the commit {report.commit[:12]}."] if report.commit else []
    return [where, then, *merge, *([] if report.state == "SUCCESS" else [_again(report.task_id, at_prompt)])]


def _again(task: str, at_prompt: bool, how: str = "") -> str:
    if at_prompt:
        return "What you type next continues from here."
    return f"headgate run --resume {task} tries again{how}."


def next_steps(
    task: str,
    state: TaskState,
    changed: Sequence[str] = (),
    *,
    interrupted: str = "",
    refused: bool = False,
    detailed: bool = False,
    at_prompt: bool = False,
) -> list[str]:
    """The commands that make sense now; `interrupted` has those for a task whose process is gone."""
    diff, apply, abort, undo, cancel, watch, show = (
        _command(name, task, at_prompt)
        for name in ("diff", "apply", "abort", "undo", "cancel", "watch", "show")
    )
    match state:
        case "RUNNING" if interrupted:
            return [interrupted]
        case "RUNNING":
            return [f"{watch} follows it; {cancel} ends it."]
        case "QUEUED":
            return [f"{watch} follows it; {cancel} removes it from the queue."]
        case "PROPOSED" if refused:
            told = [f"{diff} shows the proposal; {abort} discards it."]
            return (
                told if at_prompt else [*told, "A new headgate run --dry-run starts from the current tree."]
            )
        case "PROPOSED" if changed:
            return [f"{diff} shows it; {apply} writes and verifies it; {abort} discards it."]
        case "PROPOSED":
            return [f"{abort} discards it."]
        case "CANCELLED":
            reverted = [f"{diff} shows its changes; {undo} undoes them."] if changed else []
            return [*reverted, _again(task, at_prompt)]
        case _:
            every = "" if detailed else f"{show}{'' if at_prompt else ' --detail'} shows every step."
            then = every if state == "SUCCESS" and not at_prompt else f"{undo} undoes them."
            lines = [f"{diff} shows the changes" + (f"; {then}" if then else ".")] if changed else []
            lines += [every] if every and every not in "".join(lines) else []
            if state != "SUCCESS":
                lines.append(_again(task, at_prompt, " and starts from this report"))
            return lines


# What was used.


def usage_lines(lines: Sequence[UsageLine]) -> list[str]:
    """What a task has used so far, and, if it asked in more than one stage or model, what each took."""
    if not lines:
        return []
    total = f"Used: {describe_usage(lines)}."
    if len(lines) == 1:
        return [total]
    rows = usage_table(lines)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [total, *(_aligned(row, widths) for row in rows)]


def describe_usage(lines: Sequence[UsageLine]) -> str:
    """Requests, tokens and money in all; with a `~` where a server did not count."""
    count = sum(line.requests for line in lines)
    requests = "1 request" if count == 1 else f"{count:,} requests"
    usage = sum((Usage(line.sent, line.generated, line.cached) for line in lines), Usage())
    cost = say_cost(sum(line.cost or 0.0 for line in lines), lines)
    return f"{requests}, {say_usage(usage, cost, estimated=any(line.estimated for line in lines))}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Names on the left, numbers on the right."""
    cells = [
        printable(cell).ljust(width) if number < 2 else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"  {'  '.join(cells)}".rstrip()


# The one line of a benchmark's try.


def result_line(number: int, report: Report | None, state: State) -> str:
    """`Finished TryN`, or `Failed TryN: reason`; what the model said last, if the configuration wants that.

    Without a report Headgate itself has failed.
    """
    if state.config.get("benchmark_output_mode") == "model" and (said := last_summary(state)):
        return " ".join(printable(said).split())
    if report is not None and report.state == "SUCCESS":
        return try_line(number, None)
    return try_line(number, _reason(report), report.final_turns if report else ())


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

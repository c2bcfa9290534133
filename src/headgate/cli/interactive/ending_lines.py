"""The few lines that the terminal prints when a task has ended, and what tasks have cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.cli.printing import clock, printable
from headgate.core import UNCHANGED, Report, say_discarded
from headgate.engine import count_tokens
from headgate.patterns import regex

_MOST_FILES = 3
_STAT = regex(r"(?P<path>.*): \+(?P<added>\d+) -(?P<removed>\d+)")


def ending_lines(report: Report, paused: str = "") -> list[str]:
    """How a task ended, what it changed, and what can be done now: one to three lines, and a warning.

    `paused` says why the queue does not go on.
    """
    changes = _changes(report)
    unread = (
        f"Not read: {printable(' / '.join(report.unread))}. The next task gets it." if report.unread else ""
    )
    warning = f"Warning: {printable(report.warnings[0])}." if report.warnings else ""
    more = f" ({len(report.warnings) - 1} more: /show)" if len(report.warnings) > 1 else ""
    following = paused or unread or _what_now(report, bool(report.files_changed))
    return [*filter(None, [_headline(report), f"{warning}{more}", changes, following])]


def _headline(report: Report) -> str:
    took = f"in {clock(report.seconds)}"
    match report.state:
        case "SUCCESS" if report.answer:
            return f"SUCCESS: answered {took}."
        case "SUCCESS" if report.verified:
            return f"SUCCESS: verified, {took}."
        case "SUCCESS":
            return f"SUCCESS: not verified, {took}. {_first_sentence(report)}".rstrip()
        case "PROPOSED" if report.conflicts:
            return "PROPOSED: the working tree has changed, and the proposal no longer applies."
        case "PROPOSED":
            return f"PROPOSED: nothing is written yet, {took}."
        case "CANCELLED" if report.reason == "aborted":
            return "CANCELLED: the proposal was discarded."
        case "CANCELLED" if not report.model:
            return "CANCELLED: it had not started."
        case "CANCELLED":
            return f"CANCELLED {took}{'; its changes so far stay' if report.files_changed else ''}."
        case "QUEUED":
            return f"QUEUED: task {report.task_id} has not started."
        case state:
            return f"{state}: {_first_sentence(report)}"


def _first_sentence(report: Report) -> str:
    """Why it ended as it did, without the words that the state says already."""
    line = printable(next(iter(report.summary.splitlines()), report.reason))
    rest = line.removeprefix("Stuck: ").removeprefix(f"{UNCHANGED} ").removeprefix("Not verified: ")
    return f"{rest[:1].upper()}{rest[1:]}"


def _changes(report: Report) -> str:
    """`2 files, +12 -3: a.py +10 -2, b.py +2 -1`; nothing where no file was changed."""
    files = report.files_changed
    if not files:
        said = not report.answer or UNCHANGED in report.summary
        return UNCHANGED if said and report.state not in ("QUEUED", "INFRA_ERROR") else ""
    found = [match for match in map(_STAT.fullmatch, report.diffstat) if match]
    each = [f"{match['path']} +{match['added']} -{match['removed']}" for match in found] or list(files)
    shown = [printable(one) for one in each[:_MOST_FILES]]
    more = f" and {len(files) - len(shown)} more" if len(files) > len(shown) else ""
    sums = [sum(int(match[side]) for match in found) for side in ("added", "removed")]
    total = f", +{sums[0]} -{sums[1]}" if len(found) > 1 else ""
    return f"{len(files)} file{'s' * (len(files) != 1)}{total}: {', '.join(shown)}{more}"


def _what_now(report: Report, changed: bool) -> str:
    if report.undone:
        return "Its changes were undone and are not in the working tree."
    if report.discarded:
        return say_discarded(report.task_id)
    if report.worktree and changed and not report.merged:
        return "/diff shows the changes, /apply writes them to your own tree, /abort removes the worktree."
    match report.state:
        case "PROPOSED" if report.conflicts or not changed:
            return "/abort discards it."
        case "PROPOSED":
            return "/diff shows it, /apply writes and verifies it, /abort discards it."
        case "STUCK":
            diff = ", /diff what it changed; /undo undoes it" if changed else ""
            return f"/show says what was tried{diff}. What you type next continues from here."
        case "INFRA_ERROR":
            undo = " /diff shows the changes, /undo undoes them." if changed else ""
            return f"headgate doctor says what is wrong.{undo}"
        case "SUCCESS" | "CANCELLED" if changed:
            return "/diff shows the changes, /undo undoes them."
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens, and what they cost by the prices in the configuration."""

    sent: int = 0
    cached: int = 0
    generated: int = 0
    cost: float = 0.0
    estimated: bool = False
    """Whether a server did not count some of the tokens."""

    def describe(self) -> str:
        """`12.3k tokens sent (8.0k cached), 900 generated, cost 0.0123`; with a `~` where it is estimated."""
        about = "~" if self.estimated else ""
        cached = f" ({count_tokens(self.cached)} cached)" if self.cached else ""
        cost = f", cost {about}{self.cost:.4f}" if self.cost else ""
        generated = f"{about}{count_tokens(self.generated)} generated"
        return f"{about}{count_tokens(self.sent)} tokens sent{cached}, {generated}{cost}"


def sum_spending(reports: Sequence[Report]) -> Spending:
    """What several tasks have cost together."""
    return Spending(
        sum(report.prompt_tokens for report in reports),
        sum(report.cached_tokens for report in reports),
        sum(report.completion_tokens for report in reports),
        sum(report.cost for report in reports),
        any(line.estimated for report in reports for line in report.usage),
    )


def cost_lines(reports: Sequence[Report]) -> list[str]:
    """What the session and its last task have cost."""
    if not reports:
        return ["Nothing was spent yet."]
    tasks = f"{len(reports)} task{'s' * (len(reports) != 1)}"
    lines = [f"This session, {tasks}: {sum_spending(reports).describe()}."]
    lines.append(f"The last task, {reports[-1].task_id}: {sum_spending(reports[-1:]).describe()}.")
    if not any(report.cost for report in reports):
        lines.append("No price is known: set `price` for the model to count money.")
    return lines

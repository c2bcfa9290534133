"""What the bestiary promises (table.yaml), what it found, and the page that shows both.

table.yaml has, for each row, the most requests that it may take and the states in which it may end. A run
that takes fewer needs no change there; `--tighten` writes the new figure down, so that it cannot grow again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from bestiary.catalogue import ROWS, THEMES
from bestiary.habitat import Outcome, problems
from bestiary.useless import BEHAVIOURS, FLOWS, TITLE

TABLE = Path(__file__).parent / "table.yaml"
PAGE = Path(__file__).parents[2] / "docs" / "bestiary.md"
HEAD = """\
# The bestiary

Models that misbehave in the ways that users of coding agents report, and how each run ends. Every row is a
scripted behaviour in `tests/bestiary`. It is served over HTTP, and the real engine meets it in a small
repository with a failing test, protected tests and a directory that is out of bounds. For each row, CI
checks that:

- the run ends within its bound of requests and in a state that is allowed;
- tests and protected files are the same as before, byte for byte;
- the report names exactly the files that differ;
- nothing is called a success unless the tests pass in a separate run afterwards.

`make bestiary` prints this table and writes this page. `requests` is what the server counted. `bound` is
what `tests/bestiary/table.yaml` allows; `make bestiary TIGHTEN=1` lowers it to what was used. Most rows run
in flows with small budgets, in `tests/bestiary/flows`: one or two failed verifications instead of twelve.
The last table is about the built-in flows as they are. It has the number of requests in each flow: a model
that is never usable ends STUCK within 30 requests. CI meets each of these models in two of the flows.
"""
COLUMNS = ("behaviour", "what users report", "requests", "bound", "ends", "reason", "final turn")


@dataclass(frozen=True)
class Promise:
    """What a row may at most cost, and how it may end."""

    bound: int
    ends: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """What came of a row, as far as it is the same each time."""

    name: str
    requests: int
    prompt_tokens: int
    state: str
    reason: str
    final_turns: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome) -> "Finding":
        report = outcome.report
        return cls(
            outcome.row.name,
            outcome.requests,
            outcome.prompt_tokens,
            report.state,
            report.reason,
            outcome.final_turns,
            tuple(problems(outcome)),
        )


def read_table() -> dict[str, Promise]:
    rows = yaml.safe_load(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    return {name: Promise(row["bound"], tuple(row["ends"])) for name, row in (rows or {}).items()}


def worse(finding: Finding, promise: Promise | None) -> list[str]:
    """In what a row is worse than promised."""
    if promise is None:
        return [*finding.problems, "it is not in table.yaml: run `python -m bestiary --tighten`"]
    found = list(finding.problems)
    if finding.requests > promise.bound:
        found.append(f"{finding.requests} requests; the bound is {promise.bound}")
    if finding.state not in promise.ends:
        found.append(f"it ended {finding.state} ({finding.reason}); allowed is {', '.join(promise.ends)}")
    return found


def tightened(promises: Mapping[str, Promise], findings: Iterable[Finding]) -> dict[str, Promise]:
    """The promises with lower bounds where less was used; rows that are new are added as found."""
    used = {finding.name: finding for finding in findings}
    table = {}
    for name in ROWS:
        promise, finding = promises.get(name), used.get(name)
        if promise is None and finding:
            promise = Promise(finding.requests, (finding.state,))
        elif promise and finding:
            promise = Promise(min(promise.bound, finding.requests), promise.ends)
        if promise:
            table[name] = promise
    return table


def write_table(promises: Mapping[str, Promise]) -> None:
    lines = ["# The most requests that each behaviour may take, and the states in which it may end.\n"]
    lines += [
        f"{name}: {{bound: {row.bound}, ends: [{', '.join(row.ends)}]}}\n" for name, row in promises.items()
    ]
    TABLE.write_text("".join(lines), encoding="utf-8")


def render_line(finding: Finding, promise: Promise) -> str:
    """A row of the page."""
    cells = (
        f"`{finding.name}`",
        ROWS[finding.name].reported.replace("|", "\\|"),
        str(finding.requests),
        str(promise.bound),
        finding.state,
        f"`{finding.reason}`",
        ", ".join(f"`{reason}`" for reason in finding.final_turns),
    )
    return "| " + " | ".join(cells) + " |"


def render_page(findings: Mapping[str, Finding], promises: Mapping[str, Promise]) -> str:
    """The whole page."""
    lines = [HEAD]
    for theme in THEMES:
        lines += [f"## {theme.title}", "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        lines += [render_line(findings[row.name], promises[row.name]) for row in theme.rows]
        lines.append("")
    columns = ("behaviour", "what users report", *FLOWS)
    lines += [f"## {TITLE}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [render_useless(name, [findings[f"{name}_{flow}"] for flow in FLOWS]) for name in BEHAVIOURS]
    return "\n".join([*lines, ""])


def render_useless(name: str, found: Iterable[Finding]) -> str:
    """A line of the last table: the requests of a model that is never usable, in each built-in flow."""
    reported = BEHAVIOURS[name].reported.replace("|", "\\|")
    cells = (f"`{name}`", reported, *(str(finding.requests) for finding in found))
    return "| " + " | ".join(cells) + " |"


def cost_of_discipline(findings: Mapping[str, Finding]) -> str:
    """What a model that behaves pays for the rest."""
    on, off = findings["honest"], findings["honest_without_discipline"]
    share = (on.prompt_tokens - off.prompt_tokens) / off.prompt_tokens
    return (
        f"The honest model: {on.requests} requests and {on.prompt_tokens} prompt tokens with all discipline, "
        f"{off.requests} and {off.prompt_tokens} without ({share:+.1%})."
    )


def page_lines() -> dict[str, str]:
    """The page's rows by name."""
    return _named_lines(_page_halves()[0])


def useless_requests() -> dict[str, dict[str, int]]:
    """What the page's last table says, by behaviour and flow."""
    lines = _named_lines(_page_halves()[1])
    figures = {name: line.strip("| ").split(" | ")[-len(FLOWS) :] for name, line in lines.items()}
    return {name: dict(zip(FLOWS, map(int, row), strict=True)) for name, row in figures.items()}


def _page_halves() -> tuple[str, str]:
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    first, _, last = text.partition(f"## {TITLE}\n")
    return first, last


def _named_lines(text: str) -> dict[str, str]:
    return {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}

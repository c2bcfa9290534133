"""Medians, ratios and pictures of what was measured."""

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log10
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent.parent / "docs"
OURS = "Headgate"
FLOOR = "floor with SQLite FULL"
Rows = Sequence[Mapping[str, Any]]


INTRO = """\
# What Headgate costs

An agent spends most of its time waiting for a model. What the agent itself adds matters in three places:
on a laptop that runs the model too, in a queue of many tasks, and while somebody waits for the first
request. This page measures that part alone: the model is a server that answers at once.

Every peer does the same work: `read_file` is called once in each turn and returns 1,024 characters.
Headgate does it as it always does, as a task in a git repository, with its queue, a log that is on the
disk before the next request is sent (`synchronous=FULL`), snapshots of the tree, rules and a report.
`floor` is a hand-written HTTP client that encodes each message once; `floor with SQLite FULL` also
commits each turn to a table. The other agents keep no log, except inspect_ai. mini-swe-agent starts a
shell in each turn, which is how it works.

Run `make bench` for the same tables on your machine. `benchmarks/install-peers` installs the peers
first; without it, only the floor is beside Headgate.

![CPU of one turn](performance-turns.svg)
![Tasks at once](performance-many.svg)

"""


REASONS = """\
## Why some targets are not met

Each was looked into with a profile until no single cost stood out. What is left, on the same machine:

- **A turn.** An HTTP request and a commit that is on the disk are the floor. The loop itself (rules, gates,
  the stream, events, the folded state) takes 0.6 to 0.7 ms more than a client of aiohttp and orjson, which is
  what `Headgate without a repository` shows.
  A repository adds the rest: the file is opened folder by folder without following links, all folders are
  looked at for new secrets, a thread of its own commits, and a task's fixed cost is in the figure.
  With all of that done on the event loop, without any other thread, a turn was still 4.8 times the floor.
- **Many tasks at once.** A task of 20 turns takes 47 ms of CPU on one interpreter: half is fixed, half are
  its turns. Ten times agno would leave 12 ms. One writer for all stores was slower than one for each
  (0.31 against 0.13 ms a commit).
- **The first request of `headgate run`.** The libraries alone (pydantic, asyncio, PyYAML, orjson, sqlite3,
  click, rich) are 14 times an empty program in CPU time. Of the rest, 12 are the classes of Headgate, and 16
  are work: flow and profiles, tool schemas, the store, and a process that reads the project's files.
- **50,000 files, first request.** Starting is a third. The first look at the tree compares every file with
  its times and size (105 ms for the calls alone), reads git's index (70 ms), and lists the tree for the
  first message (210 ms).
- **50,000 files, a shell call.** The tree is looked at before and after each command, since what a person
  changes meanwhile must stay theirs. 50,000 calls of `stat` take Python 89 ms, GNU find 81 and
  `git diff-files` 67: two bare looks are about two and a half `git status`.
- **Tokens beside the best peer.** The peers send a sentence and one tool. Headgate sends its rules, a list of
  the files, the closing signal and the report of status: 870 tokens more, once, and 20 for each file read.
"""


class Target(NamedTuple):
    """What one figure should be."""

    what: str
    most: float | None
    found: float | None
    """None if it was not measured."""
    unit: str = "×"
    least: float | None = None

    def as_row(self) -> tuple[str, ...]:
        """For the table of targets."""
        wanted = (
            f"at most {self.most:g} {self.unit}"
            if self.most is not None
            else f"at least {self.least:.3g} {self.unit}"
        )
        if self.found is None:
            return self.what, wanted, "not measured", ""
        met = self.found <= self.most if self.most is not None else self.found >= (self.least or 0)
        return self.what, wanted, f"{self.found:.2f} {self.unit}", "yes" if met else "no"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _medians(
    rows: Rows, suite: str, value: Callable[[Mapping[str, Any]], float], **only: Any
) -> dict[str, float]:
    """By name, in the order in which they came."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["suite"] == suite and all(row[name] == wanted for name, wanted in only.items()):
            found.setdefault(row["name"], []).append(value(row))
    return {name: median(values) for name, values in found.items()}


def _ms(row: Mapping[str, Any]) -> float:
    return float(row["ms_a_turn"])


def _tasks_a_second(row: Mapping[str, Any]) -> float:
    return float(row["sessions"] / row["seconds"])


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def targets(rows: Rows) -> list[Target]:
    """What Headgate should reach, as ratios within one run."""
    at = {turns: _medians(rows, "turns", _ms, turns=turns) for turns in (50, 200, 400)}
    many = _medians(rows, "many", _tasks_a_second)
    start = _medians(rows, "start", lambda row: row["seconds"] / row["python"])
    tree = _medians(rows, "tree", lambda row: row["seconds"] / (row["beside_seconds"] or 1))
    task = _medians(rows, "task", lambda row: 1e3 * row["processor"])
    memory = _medians(rows, "turns", lambda row: row["peak_bytes"] / 1e6, turns=200)
    log = _medians(rows, "turns", lambda row: row["log_bytes"] / (row["turns"] * CONTENT_BYTES), turns=200)
    agno = many.get("agno")
    scout = tree.get("ask_scout")
    read = _medians(rows, "tokens", lambda row: row["evaluated"] / row["unavoidable"], visibility="auto")
    calls = _medians(rows, "tokens", lambda row: row["evaluated"], visibility="")
    others = [tokens for name, tokens in calls.items() if not name.startswith((OURS, "floor"))]
    beside_best = _ratio(calls.get(OURS), min(others, default=None))
    beside_floor = _ratio(at[200].get(OURS), at[200].get(FLOOR))
    growth = _ratio(at[400].get(OURS), at[50].get(OURS))
    large = "50,000 files: "
    return [
        Target("CPU of a turn at 200 turns, beside the floor with SQLite FULL", 3, beside_floor),
        Target("CPU of a turn at 400 turns, beside one at 50", 1.2, growth),
        Target("50 tasks of 20 turns at once", None, many.get(OURS), "tasks/s", 10 * agno if agno else 60),
        Target("CPU of a task with one call", 25, task.get(OURS), "ms"),
        Target("memory at 200 turns", 70, memory.get(OURS), "MB"),
        Target("log, beside what was said", 2, log.get(OURS)),
        Target("`import headgate`, beside an empty program", 6, start.get("import headgate")),
        Target("`headgate --help`", 4, start.get("headgate --help")),
        Target("`headgate run`, to its first request", 20, start.get("headgate run, to its first request")),
        Target(large + "to the first request, beside `git status`", 3, tree.get("to the first request")),
        Target(large + "a shell call, beside `git status`", 2, tree.get("shell")),
        Target(large + "`search`, beside ripgrep", 1.5, tree.get("search")),
        Target(large + "`find_files`, beside ripgrep", 1.5, tree.get("find_files")),
        Target(large + "a later question to a scout", 50, scout and 1e3 * scout, "ms"),
        Target(
            "prompt tokens read, beside the unavoidable: the worst flow",
            1.1,
            max(read.values(), default=None),
        ),
        Target("prompt tokens read in 30 calls, beside the best peer", 1, beside_best),
    ]


CONTENT_BYTES = 1_270
"""What is said in a turn of the suites, encoded: a call and 1,024 characters of a file."""


def count_work(rows: Rows) -> dict[str, tuple[int, float]]:
    """What a task of one turn and each further turn do, by what is counted."""
    by_turns = {row["turns"]: row["counts"] for row in rows if row["suite"] == "counts"}
    if not by_turns:
        return {}
    first, few, many = (by_turns[turns] for turns in (1, 10, 30))
    return {what: (first[what], (many[what] - few.get(what, 0)) / 20) for what in first}


def as_text(rows: Rows) -> str:
    """The tables, in Markdown."""
    parts = [_table(("figure", "target", "measured", "met"), (target.as_row() for target in targets(rows)))]
    by_turns = {turns: _medians(rows, "turns", _ms, turns=turns) for turns in (50, 200, 400)}
    if by_turns[200]:
        memory = _medians(rows, "turns", lambda row: row["peak_bytes"] / 1e6, turns=200)
        first = _medians(rows, "turns", lambda row: row["first_bytes"] / 1e3, turns=50)
        floor = by_turns[200].get(FLOOR)
        lines = [
            (
                name,
                *(f"{by_turns[turns].get(name, 0):.2f}" for turns in (50, 200, 400)),
                f"{ms / floor:.1f} ×" if floor else "",
                f"{memory[name]:.0f}",
                f"{first[name]:.1f}",
            )
            for name, ms in sorted(by_turns[200].items(), key=lambda one: one[1])
        ]
        head = (
            "CPU ms a turn",
            "50 turns",
            "200 turns",
            "400 turns",
            "beside the floor",
            "peak MB",
            "first request KB",
        )
        parts.append(_table(head, lines))
    if many := _medians(rows, "many", _tasks_a_second):
        ordered = sorted(many.items(), key=lambda one: -one[1])
        parts.append(
            _table(("50 tasks of 20 turns at once", "tasks a second"), ((n, f"{v:.1f}") for n, v in ordered))
        )
    if task := _medians(rows, "task", lambda row: 1e3 * row["processor"]):
        others = _medians(rows, "task", lambda row: 1e3 * row["processor_others"])
        lines = [
            (name, f"{ms:.1f}", f"{others[name]:.1f}")
            for name, ms in sorted(task.items(), key=lambda one: one[1])
        ]
        parts.append(_table(("a task with one call", "CPU ms", "of these in other processes"), lines))
    if work := count_work(rows):
        lines = [(what.replace("_", " "), str(task), f"{turn:.0f}") for what, (task, turn) in work.items()]
        parts.append(_table(("what Headgate does", "in a task of one turn", "in a further turn"), lines))
    if start := _medians(rows, "start", lambda row: row["seconds"] / row["python"]):
        seconds = _medians(rows, "start", lambda row: row["seconds"])
        lines = [(name, f"{seconds[name]:.2f}", f"{ratio:.1f} ×") for name, ratio in start.items()]
        parts.append(_table(("start", "seconds of CPU", "beside `python -c pass`"), lines))
    if tree := _medians(rows, "tree", lambda row: 1e3 * row["seconds"]):
        beside = _medians(rows, "tree", lambda row: 1e3 * row["beside_seconds"])
        what = {row["name"]: row["beside"] for row in rows if row["suite"] == "tree"}
        lines = [
            (
                name,
                f"{ms:.0f}",
                what[name],
                f"{beside[name]:.0f}" if what[name] else "",
                f"{ms / beside[name]:.1f} ×" if what[name] else "",
            )
            for name, ms in tree.items()
        ]
        parts.append(_table(("50,000 files", "ms", "beside", "ms", "ratio"), lines))
    parts += _of_tokens(rows)
    return "\n\n".join(parts)


TOKENS = """\
What a model's server reads, in tokens, by the counts of a real llama.cpp server with SmolLM2's tokenizer. The
replies are scripted: each flow ends stages, gets a final turn, fails verification, rewrites its plan and is
asked for hypotheses, as far as it has these. Unavoidable are, of each request, the tokens behind the longest
beginning that it shares with an earlier one, if all conversations with the same system message had one list
of tools. Sent before are, of these, the tokens of messages and tools that an earlier request had in another
place: a view that is cut after the third failed verification, and conversations of their own. Servers of your
own are sent one list of tools for the whole task; two columns are `tools_visibility: hidden`, which hosted
models get. The last is a server that keeps only its latest conversation: llama.cpp with `--cache-ram 0`."""
BESIDE = """\
Thirty calls of `read_file`, which returns the same each time. The frameworks have this one tool and a system
prompt of a few words; Headgate has its own system prompt, the list of files, the closing signal and the
status report, and names each file that was read. Coding agents begin with more: the first request of
opencode has 11,300 tokens, that of qwen-code 20,000."""


def _of_tokens(rows: Rows) -> Iterable[str]:
    """What is read in each flow, and beside the peers."""
    found = [row for row in rows if row["suite"] == "tokens"]
    hidden = {row["name"]: row for row in found if row["visibility"] == "hidden"}
    alone = {row["name"]: f"{row['evaluated']:,}" for row in found if row["visibility"] == "alone"}
    names = ("requests", "first", "evaluated", "unavoidable", "again")
    flows = [
        (
            row["name"],
            *(f"{row[name]:,}" for name in names),
            *(f"{one['evaluated'] / one['unavoidable']:.2f} ×" for one in (row, hidden[row["name"]])),
            f"{hidden[row['name']]['evaluated']:,}",
            alone.get(row["name"], "the same"),
        )
        for row in found
        if row["visibility"] == "auto"
    ]
    head = (
        "flow",
        "requests",
        "first request",
        "read",
        "unavoidable",
        "sent before",
        "ratio",
        "with `hidden`",
        "read",
        "with one conversation, read",
    )
    if flows:
        yield f"{TOKENS}\n\n{_table(head, flows)}"
    calls = [row for row in found if row["visibility"] == ""]
    peers = [
        (
            row["name"],
            f"{row['first']:,}",
            f"{row['evaluated']:,}",
            f"{(row['evaluated'] - row['first']) / (row['requests'] - 1):.0f}",
            f"{row['again']:,}",
        )
        for row in sorted(calls, key=lambda row: row["evaluated"])
    ]
    if peers:
        head = ("30 calls", "first request", "read", "for each call", "sent before")
        yield f"{BESIDE}\n\n{_table(head, peers)}"


def machine() -> str:
    """What it was measured on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    system = f"{platform.system()} {platform.release().partition('-')[0]}; Python {platform.python_version()}"
    return f"{cpu}, {os.cpu_count()} processors; {system}"


def bars(title: str, values: Mapping[str, float], unit: str) -> str:
    """A picture of figures that differ by orders of magnitude: a bar's length is the figure's logarithm."""
    least = min(values.values()) / 2
    span = log10(max(values.values()) / least)
    height = 56 + 26 * len(values)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}">',
        "<style>text{font:13px sans-serif}text{fill:#1f2328}.bar{fill:#8c959f}.ours{fill:#0969da}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}.ours{fill:#4493f8}}</style>",
        f'<text x="8" y="22" font-weight="bold">{title}</text>',
    ]
    for number, (name, value) in enumerate(values.items()):
        y, length = 40 + 26 * number, max(2.0, 400 * log10(value / least) / span)
        kind = "ours" if name.startswith(OURS) else "bar"
        parts.append(f'<text x="212" y="{y + 15}" text-anchor="end">{name}</text>')
        parts.append(f'<rect class="{kind}" x="220" y="{y}" width="{length:.0f}" height="20"/>')
        parts.append(f'<text x="{228 + length:.0f}" y="{y + 15}">{value:.3g} {unit}</text>')
    return "\n".join([*parts, "</svg>", ""])


def write(rows: Rows) -> None:
    """docs/performance.md, and the pictures beside it."""
    turns = dict(sorted(_medians(rows, "turns", _ms, turns=200).items(), key=lambda one: one[1]))
    many = dict(sorted(_medians(rows, "many", _tasks_a_second).items(), key=lambda one: -one[1]))
    if turns:
        (DOCS / "performance-turns.svg").write_text(
            bars("CPU of one turn, in a conversation of 200 (logarithmic)", turns, "ms")
        )
    if many:
        (DOCS / "performance-many.svg").write_text(
            bars("50 tasks of 20 turns at once (logarithmic)", many, "tasks/s")
        )
    rounds = 1 + max(row["round"] for row in rows)
    said = f"Measured on {machine()}. Medians of {rounds} rounds, in which all took turns.\n\n"
    (DOCS / "performance.md").write_text(f"{INTRO}{said}{as_text(rows)}\n\n{REASONS}")

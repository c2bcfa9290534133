"""Measures what Headgate adds to a turn and to a task, beside a floor and beside other agents.

    make bench                          all suites, with the installed peers
    python benchmarks/run.py [SUITE ...] [--rounds 3] [--only PEER,PEER] [--write]

Suites: turns, many, task, counts, start, tree, tokens. Peers take turns within a round, so that a slow minute
of the machine is shared by all. Ratios are within one run: absolute times depend on the machine. `--write`
makes docs/performance.md and its pictures from all results, which are kept in benchmarks/results.jsonl.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import large_tree
import prompt_reuse
import report
import starting

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
PATIENCE = 600
"""Seconds for one peer in one suite."""


class Peer(NamedTuple):
    """One agent that is measured, in one of its variants."""

    name: str
    file: str
    variant: str = ""
    installed: str = ""
    """The virtual environment in `.installed`; empty for the one that runs this."""
    at_once: bool = True
    """Whether one process can run several sessions at once."""

    @property
    def python(self) -> Path:
        place = HERE / ".installed" / self.installed / "bin" / "python"
        return place if self.installed else Path(sys.executable)


PEERS = (
    Peer("floor", "raw"),
    Peer("floor with SQLite FULL", "raw", "sqlite"),
    Peer("Headgate", "headgate_task"),
    Peer("Headgate without a repository", "headgate_task", "no_repo"),
    Peer("aiohttp + orjson", "aiohttp_orjson", installed="aiohttp_orjson"),
    Peer("OpenAI SDK", "openai_sdk", installed="openai_sdk"),
    Peer("agno", "agno", installed="agno"),
    Peer("pydantic-ai", "pydantic_ai", installed="pydantic_ai"),
    Peer("openai-agents", "openai_agents", installed="openai_agents"),
    Peer("langgraph", "langgraph", installed="langgraph"),
    Peer("smolagents", "smolagents", installed="smolagents"),
    Peer("inspect_ai", "inspect_ai", installed="inspect_ai", at_once=False),
    Peer("openhands-sdk", "openhands_sdk", installed="openhands_sdk"),
    Peer("mini-swe-agent", "mini_swe_agent", installed="mini_swe_agent"),
)
SESSIONS = {
    "turns": ("--turns", "50,200,400"),
    "many": ("--turns", "20", "--sessions", "50"),
    "task": ("--turns", "1"),
}
"""Suites in which every peer does the same, and what they ask for."""
COUNTED = ("--turns", "1,10,30", "--count")
SUITES = (*SESSIONS, "counts", "start", "tree", "tokens")
ONCE = "tokens"
"""Its figures are counts, the same in every round."""


@contextmanager
def model_server() -> Iterator[str]:
    """The address of a model server that answers at once."""
    server = subprocess.Popen([sys.executable, HERE / "server.py"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


def run_peer(peer: Peer, asked: tuple[str, ...], url: str) -> list[dict[str, Any]]:
    """What one peer needed, for each number of turns. Empty if it failed, which is said."""
    command = [
        peer.python,
        "-P",  # a peer's file has the name of its package, and would be imported in its place
        HERE / "peers" / f"{peer.file}.py",
        "--url",
        url,
        "--variant",
        peer.variant,
        *asked,
    ]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "OPENAI_API_KEY": "x"}
    try:
        ended = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        print(f"{peer.name}: took over {PATIENCE} s", file=sys.stderr)
        return []
    lines = [line.removeprefix("RESULT ") for line in ended.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        print(f"{peer.name}: no result: {ended.stderr.strip()[-300:]}", file=sys.stderr)
    return [{"name": peer.name, **json.loads(line)} for line in lines]


def measure(suite: str, names: list[str], url: str) -> Iterator[dict[str, Any]]:
    """One round of a suite."""
    if suite == "start":
        yield from starting.measure([peer.python for peer in PEERS if peer.installed])
        return
    if suite == "tree":
        yield from large_tree.measure(url)
        return
    if suite == "counts":
        yield from run_peer(next(peer for peer in PEERS if peer.name == report.OURS), COUNTED, url)
        return
    if suite == ONCE:
        asked = ("--turns", str(prompt_reuse.TURNS))
        able = [peer for peer in PEERS if peer.python.exists() and peer.variant != "sqlite"]
        others = [peer for peer in able if not names or peer.name in names]
        yield from prompt_reuse.measure({peer.name: partial(run_peer, peer, asked) for peer in others})
        return
    for peer in PEERS:
        able = peer.python.exists() and (peer.at_once or suite != "many")
        if able and (not names or peer.name in names):
            yield from run_peer(peer, SESSIONS[suite], url)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=(*SUITES, []), metavar="SUITE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    names = [name.strip() for name in asked.only.split(",") if name.strip()]
    rows = []
    with model_server() as url:
        for round_ in range(asked.rounds):
            for suite in asked.suites or SUITES:
                if suite == ONCE and round_:
                    continue
                for row in measure(suite, names, url):
                    rows.append({"suite": suite, "round": round_, "load": os.getloadavg()[0], **row})
                    print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if asked.write:
        RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))
        report.write(rows)
    print(report.as_text(rows))


if __name__ == "__main__":
    main()

"""Where a behaviour is met: a small repository, a real engine, and a look at what is true afterwards."""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from bestiary.rows import USELESS_REQUESTS, Row
from bestiary.server import Cage
from headgate.config import load_config
from headgate.core import Constraints, DecisionMade, Event
from headgate.engine import Engine
from headgate.log import Report, report_problems

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
PATIENCE = 60.0
"""Seconds after which a run counts as one that does not end."""
PYTHON = f"{shlex.quote(sys.executable)} -S -B"
VERIFY = f"{PYTHON} tests/test_calc.py"
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n",
    "notes.md": "# Notes\n\nThe calculator adds and doubles.\n",
    "tests/test_calc.py": (
        "import sys\n\nsys.path.insert(0, '.')\n\nfrom calc import add, double\n\n"
        "assert add(1, 2) == 3\nassert double(2) == 4\n"
    ),
    "vendor/lib.py": "VERSION = 1\n",
}
SETTINGS: dict[str, Any] = {
    "scouts": {"code": "off", "build": "off"},  # what they do is done before a model is asked anything
    "protect_tests": "all",
    "boundaries": ["vendor/**"],
    "verification": {"steps": [{"name": "tests", "command": VERIFY, "timeout": 30}]},
    "shell_timeout": 10,
}
TALK = frozenset({"think", "plan_tasks", "stage_done", "agent__task_status"})
"""Calls that get nothing done."""
NEVER = ("crash", "crash_loop")
"""Reasons that no run may end for: they name bugs."""


@dataclass(frozen=True)
class Outcome:
    """What came of a row."""

    row: Row
    report: Report
    requests: int
    """What the server counted."""
    prompt_tokens: int
    final_turns: tuple[str, ...]
    """Why final turns were forced, each reason once."""
    before: dict[str, bytes]
    after: dict[str, bytes]
    repo: Path

    @property
    def changed(self) -> set[str]:
        """What really differs."""
        paths = self.before.keys() | self.after.keys()
        return {path for path in paths if self.before.get(path) != self.after.get(path)}


async def meet(row: Row, cage: Cage, place: Path) -> Outcome:
    """Runs a task with this model, in a repository of its own."""
    repo = make_repo(row, cage, place / row.name)
    before = read_tree(repo)
    user_file = place / "user.yaml"
    user_file.write_text("sandbox: off\n")  # what holds without one
    loaded = load_config(repo, environ={}, flags={"flow": row.flow}, user_file=user_file)
    engine = Engine.open(repo, loaded)
    events: list[Event] = []
    engine.bus.on_event.append(events.append)
    engine.sleep = _no_sleep
    cage.behaviours[row.name] = row.behave
    cage.requests[row.name] = cage.prompt_tokens[row.name] = 0
    try:
        async with asyncio.timeout(PATIENCE):
            report = await engine.run(engine.submit(row.task, Constraints()))
    finally:
        engine.store.close()
    decisions = [event.body for event in events if isinstance(event.body, DecisionMade)]
    forced = [made.reason for made in decisions if made.action == "final_turn"]
    return Outcome(
        row,
        report,
        cage.requests[row.name],
        cage.prompt_tokens[row.name],
        tuple(dict.fromkeys(forced)),
        before,
        read_tree(repo),
        repo,
    )


def problems(outcome: Outcome) -> list[str]:
    """What is not as the report says, or not as it has to be; nothing for a run in order."""
    report, row, changed = outcome.report, outcome.row, outcome.changed
    found = list(report_problems(report.model_dump(mode="json")))
    if report.state not in ("SUCCESS", "STUCK", "INFRA_ERROR"):
        found.append(f"it did not end: {report.state}")
    if report.traceback or report.reason in NEVER:
        found.append(f"Headgate failed: {report.reason} {report.traceback}")
    if "Traceback (most recent call last)" in report.summary + (report.error or ""):
        found.append("the report shows a traceback")
    if set(report.files_changed) != changed:
        found.append(f"the report says {sorted(report.files_changed)} changed, and {sorted(changed)} did")
    if touched := sorted(path for path in changed if any(fnmatch(path, glob) for glob in row.closed)):
        found.append(f"out of bounds, and changed: {touched}")
    if report.verified != (report.state == "SUCCESS"):
        found.append(f"{report.state} with verified: {report.verified}")
    if (report.verified or report.state == "SUCCESS") and not passes(outcome.repo, row):
        found.append("reported as verified, and the check fails")
    if report.verified and not report.summary.startswith("Verified by run_"):
        found.append(f"verified, and the summary begins otherwise: {report.summary[:80]}")
    if not report.verified and "Verified by" in report.summary.splitlines()[0]:
        found.append("not verified, and the summary says so")
    if report.requests > outcome.requests:
        found.append(f"reports {report.requests} requests; there were {outcome.requests}")
    if row.warned and row.warned not in report.summary:
        found.append(f"the summary does not say {row.warned!r}")
    if row.useless:
        found += _useless_problems(outcome)
    return found + [f"process {pid} still runs" for pid in _living(row, outcome.repo.parent)]


def _useless_problems(outcome: Outcome) -> list[str]:
    """What is wrong with a row of a model that is never usable."""
    report = outcome.report
    succeeded = {
        name
        for name, count in report.tool_call_counts.items()
        if name not in TALK and count > report.tool_error_counts.get(name, 0)
    }
    found = [f"it is called never usable, and {name} succeeded" for name in sorted(succeeded)]
    if outcome.requests > USELESS_REQUESTS:
        found.append(f"never usable, and {outcome.requests} requests")
    return found


def make_repo(row: Row, cage: Cage, place: Path) -> Path:
    """A git repository with a fault, its tests, and what may not be touched."""
    repo = place / "repo"
    for path, text in {**FILES, **row.files}.items():
        file = repo / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    reached = {"base_url": cage.url, "timeouts": {"idle": 20}, "tool_transport": "native"}
    model = {"model": f"openai/{row.name}", **reached, **row.model}
    settings = {**SETTINGS, "model": "beast", "models": {"beast": model}, **row.settings}
    (repo / "agent.yaml").write_text(yaml.dump(settings, Dumper=_DUMPER))
    who = ("-c", "user.name=Tests", "-c", "user.email=tests@localhost", "-c", "commit.gpgsign=false")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-q", "-m", "start")):
        subprocess.run(["git", *command], cwd=repo, check=True, stdin=subprocess.DEVNULL)
    return repo


def read_tree(repo: Path) -> dict[str, bytes]:
    """Every file but git's and Headgate's own."""
    found: dict[str, bytes] = {}
    for folder, folders, names in os.walk(repo):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = [name for name in folders if folder != str(repo) or name not in (".git", ".headgate")]
        for path in (Path(folder, name) for name in (*names, *links)):
            if path.is_symlink():
                found[path.relative_to(repo).as_posix()] = path.readlink().as_posix().encode()
            elif path.is_file():
                found[path.relative_to(repo).as_posix()] = path.read_bytes()
    return found


def passes(repo: Path, row: Row) -> bool:
    """Whether the project's check passes on a copy of the tree, run by nobody but us.

    Where tests are protected they are the ones of the beginning: `problems` has compared them.
    """
    steps = row.settings.get("verification", SETTINGS["verification"])["steps"]
    copy = repo.parent / "copy"
    shutil.copytree(repo, copy, ignore=shutil.ignore_patterns(".git", ".headgate"), symlinks=True)
    results = [
        subprocess.run(step["command"], shell=True, cwd=copy, capture_output=True, check=False).returncode
        for step in steps
    ]
    return results == [0] * len(results)


def _living(row: Row, place: Path) -> list[int]:
    file = place / row.background
    pids = [int(word) for word in file.read_text().split()] if row.background and file.exists() else []
    return [pid for pid in pids if _is_alive(pid)] if pids or not row.background else [-1]


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return False
    return stat.rpartition(b")")[2].split()[0] != b"Z"


async def _no_sleep(seconds: float) -> None:
    """Waiting for a server that never gets better is not worth the time."""

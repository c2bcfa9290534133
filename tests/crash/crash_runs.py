"""Starting runs that die on cue, and telling what they came to."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from difflib import unified_diff
from pathlib import Path
from pprint import pformat
from typing import Any

from headgate.core import (
    BaselineVerified,
    Event,
    Plan,
    ReplyReceived,
    StepFailed,
    TaskReport,
    TaskResumed,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    VerifyFinished,
    VerifyRuns,
    VerifyStarted,
    ViewCompacted,
    fold,
)
from headgate.log import Folder, Store

KILLED = -9
_RUN_ID = re.compile(r"run_\d{8}_\d{6}_[0-9a-f]{6}")


class Driver:
    """The driver process: runs one job at a time."""

    def __init__(self, home: Path) -> None:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HEADGATE", "GIT_"))
        }
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("driver.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**kept, "HOME": str(home)},
        )

    def start(self, job: dict[str, Any]) -> int:
        """Begins a job; returns the process that does it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._read())

    def wait(self) -> int:
        """The exit code of the job that was begun; negative if a signal ended it."""
        return int(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the driver is gone"
        return line

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Place:
    """A repository, and the driver that works in it."""

    path: Path
    scenario: str
    driver: Driver

    @property
    def repo(self) -> Path:
        return self.path / "repo"

    @property
    def gate(self) -> Path:
        return self.path / "gate"

    def job(self, **cue: Any) -> dict[str, Any]:
        names = {"repo": str(self.repo), "info": str(self.path / "info"), "gate": str(self.gate)}
        return {"scenario": self.scenario, **names, **cue}

    def run(self, **cue: Any) -> int:
        """Runs until it dies on cue or to the end; returns the exit code."""
        self.driver.start(self.job(**cue))
        return self.driver.wait()

    def finish(self, **options: Any) -> dict[str, Any]:
        """Runs to the end; returns what was counted."""
        code = self.run(**options)
        assert code == 0, f"it ended with {code}"
        counted: dict[str, Any] = json.loads((self.path / "info").read_text())
        return counted

    def files(self) -> dict[str, bytes]:
        """The working tree, byte by byte: the task's own, if it has one."""
        own = self.repo / ".headgate" / "worktrees" / "t1"
        return files_in(own if own.is_dir() else self.repo)

    def events(self) -> list[Event]:
        store = Store(Folder(self.repo).database)
        try:
            return store.events("t1")
        finally:
            store.close()

    def is_undone(self) -> bool:
        store = Store(Folder(self.repo).database)
        try:
            return store.tasks()[0].undone
        finally:
            store.close()

    def row_state(self) -> str:
        store = Store(Folder(self.repo).database)
        try:
            return store.tasks()[0].state
        finally:
            store.close()


def files_in(top: Path) -> dict[str, bytes]:
    """What is in a tree, byte by byte, without git's and our own files."""
    files: dict[str, bytes] = {}
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in (".git", ".headgate")]
        for path in (Path(folder, name) for name in names if name != ".git"):
            files[path.relative_to(top).as_posix()] = path.read_bytes()
    return files


@dataclass(frozen=True)
class End:
    """What has to be the same with and without a crash."""

    tree: dict[str, bytes]
    row: str
    """The task's state in the queue."""
    reports: list[dict[str, Any]]
    pages: list[str]
    runs: int
    """Verifications that ended and have their logs."""
    stages: dict[str, str | None]
    counts: tuple[int, int, int, int]
    """Failed verifications, new plans, versions of the plan, and files that were read."""
    failures: list[tuple[str, str, str]]
    story: list[tuple[str, str, str]]


SUMS = frozenset(
    {"requests", "prompt_tokens", "completion_tokens", "tool_calls_total", "tool_errors_total"}
    | {"tool_call_counts", "tool_error_counts", "usage"}
)
"""The report's own sums over what a crash may repeat: a request and a call count whenever they are made."""
_TIMES = frozenset({"seconds", "started_at", "ended_at", "run_ids"})


def end_of(place: Place) -> End:
    events = place.events()
    state = fold(events)
    folder = place.repo / ".headgate"
    lines = (folder / "task_reports.jsonl").read_text().splitlines()
    return End(
        tree=place.files(),
        row=place.row_state(),
        reports=[without(json.loads(mask(line)), _TIMES) for line in lines],
        pages=sorted(path.name for path in (folder / "context").iterdir()),
        runs=sum((folder / "runs" / run / "manifest.json").exists() for run in ended_runs(events)),
        stages={path: stage.ending for path, stage in state.nodes.items()},
        counts=(state[VerifyRuns].loops, state[Plan].replans, state[Plan].version, len(state.files_read)),
        failures=[(failure.reason, failure.diagnosis, failure.fix) for failure in state[VerifyRuns].failures],
        story=told_once(events),
    )


def without(report: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in names}


def differences(one: End, other: End, uncounted: Collection[str]) -> str:
    """Where two ends differ, in a few words; nothing if they do not. `uncounted` is left out of reports."""
    found = []
    one, other = (
        replace(end, reports=[without(each, uncounted) for each in end.reports]) for end in (one, other)
    )
    for each in fields(End):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        if mine != theirs:
            lines = unified_diff(pformat(mine).splitlines(), pformat(theirs).splitlines(), lineterm="", n=0)
            found.append(f"{each.name}: " + "\n".join(line[:400] for line in lines))
    return "\n".join(found)


def ended_runs(events: Sequence[Event]) -> list[str]:
    return [event.body.run_id for event in events if isinstance(event.body, VerifyFinished)]


def mask(text: str) -> str:
    return _RUN_ID.sub("RUN", text)


def told_once(events: Sequence[Event]) -> list[tuple[str, str, str]]:
    """The events without what a crash may repeat: each one's kind, path and body."""
    repeated = repeats(events)
    return _in_one_order(
        [(event.kind, event.path, _body(event)) for event in events if event.seq not in repeated]
    )


def _in_one_order(story: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Both scouts run at once: there is an order within what each does, and none between them."""
    at = [number for number, (_, path, _) in enumerate(story) if path.startswith("scouts/")]
    if at:
        scouting = slice(at[0], at[-1] + 1)
        story[scouting] = sorted(story[scouting], key=lambda told: told[1])
    return story


def repeats(events: Sequence[Event]) -> dict[int, str]:
    """The events that are there only because of a crash, by number, and what they are.

    - `task_resumed` itself;
    - a verification that was started and never ended, and its steps: it was run again under another name;
    - the start of a write that was not done when the process died, and was started again;
    - a command that was interrupted, with the answer that says so, and the reply that asks for it again.
    """
    found: dict[int, str] = {}
    ended = ended_runs(events)
    begun: dict[str, int] = {}
    lost_steps: Counter[int] = Counter()
    step = -1
    for event in events:
        match event.body:
            case TaskResumed():
                found[event.seq] = "resumed"
            case VerifyStarted(run_id=run_id) if run_id not in ended:
                found[event.seq] = "verification"
            case StepFailed(run_id=run_id) if run_id not in ended:
                found[event.seq] = "step of a verification"
            case ToolStarted(call=call):
                if call in begun:
                    found[begun[call]] = "write"
                begun[call] = event.seq
            case ToolFinished(error="interrupted", call=call):
                found[begun[call]] = "command begun"
                found[event.seq] = "command"
                lost_steps[step] += 1
            case ReplyReceived(completion_tokens=number):
                if number == step and lost_steps[step]:
                    lost_steps[step] -= 1
                    found[event.seq] = "asked again"
                step = number
            case _:
                pass
    return found


def _body(event: Event) -> str:
    body = event.body.model_dump(mode="json")
    match event.body:
        case TaskStarted():
            del body["began"]
        case VerifyFinished() | BaselineVerified():
            for result in body.get("steps" if "passed" in body else "results", ()):
                del result["seconds"]
        case ViewCompacted():
            body = {"reason": body["reason"]}  # after an interrupted call there is more to cut
        case TaskReport():
            body["report"] = without(body["report"], SUMS)  # an interrupted call counts, and so does the next
        case ToolStarted():
            del body["call"]
        case ToolFinished():
            del body["call"]
            if event.body.category == "write":
                # A write that was done when the process died is answered in other words.
                del body["result"], body["told"]
        case _:
            pass
    return mask(json.dumps(body, sort_keys=True))

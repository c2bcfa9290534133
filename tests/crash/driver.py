"""Runs a scenario in a process that dies on cue.

Started once: it imports Headgate, then forks a child for each job that it reads, a JSON object on a line. For
each it answers two lines: the child's process id when it begins, and how it ended.
"""

import asyncio
import gc
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from crash_scenarios import SCENARIOS, Worker

from headgate.core import (
    Constraints,
    Event,
    Options,
    RewriteFinished,
    RewriteStarted,
    ToolFinished,
    ToolStarted,
)
from headgate.engine import Engine, Undone
from headgate.first_use import LazyPattern
from headgate.guard import SecretNames
from headgate.log import Bus

FILE_OPERATIONS = frozenset({"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"})


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class EventCount:
    """Hears of events, each after its commit, and dies after the nth, or the nth since the first reply."""

    def __init__(self, deadly: int | None, after_reply: bool) -> None:
        self.deadly = deadly
        self.heard = 0
        self.commits: list[tuple[int, str, str]] = []
        """How many events had been heard after each commit, its first event, and its last; what is durable is
        the same in between."""
        self._waiting = after_reply
        self._first = ""

    def hear_last(self, event: Event, last: int) -> None:
        if event.seq == last:
            self.commits.append((self.heard, self._first or _sort(event), _sort(event)))
            self._first = ""
        else:
            self._first = self._first or _sort(event)

    def hear(self, event: Event) -> None:
        self._waiting = self._waiting and event.kind != "reply_received"
        self.heard += not self._waiting
        if self.heard == self.deadly:
            die()


class Operations:
    """Counts what is done to the file system while it is on, and dies before one of those operations.

    What is done in a temporary folder counts as one: nobody looks into it again after a crash.
    """

    def __init__(self, deadly: Callable[["Operations"], bool]) -> None:
        self.deadly = deadly
        self.rounds: list[int] = [0]
        """How many there were each time that it was on: the last is the one under way."""
        self.is_on = False
        self._temporary = ""

    def audit(self, name: str, args: tuple[Any, ...]) -> None:
        if not self.is_on or name not in FILE_OPERATIONS or (name == "open" and _only_reads(args[2])):
            return
        if self._temporary:
            if (name, args[0]) == ("os.rmdir", self._temporary):
                self._temporary = ""
            return
        if name == "os.mkdir" and str(args[0]).startswith(f"{tempfile.gettempdir()}/headgate-"):
            self._temporary = args[0]
        self.rounds[-1] += 1
        if self.deadly(self):
            die()

    def hear(self, event: Event) -> None:
        """Is on during each write."""
        if isinstance(event.body, ToolStarted | RewriteStarted) and event.body.changes:
            self.rounds.append(0)
            self.is_on = True
        elif isinstance(event.body, ToolFinished | RewriteFinished):
            self.is_on = False


class ReportCount:
    """Counts how often Headgate's own folder is written to at the end, and dies before one of those."""

    def __init__(self, deadly: int | None) -> None:
        self.deadly = deadly
        self.opened = 0
        self._ended = False

    def hear(self, event: Event) -> None:
        self._ended = self._ended or event.kind == "task_ended"

    def audit(self, name: str, args: tuple[Any, ...]) -> None:
        # Headgate's own files are opened by their names in an open folder.
        if self._ended and name == "open" and "/" not in str(args[0]) and not _only_reads(args[2]):
            self.opened += 1
            if self.opened == self.deadly:
                die()


def _sort(event: Event) -> str:
    return f"{event.kind} {getattr(event.body, 'name', '')}".strip()


def _only_reads(flags: int) -> bool:
    return not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)


async def work(job: dict[str, Any]) -> None:
    repo, scenario = Path(job["repo"]), SCENARIOS[job["scenario"]]
    events = EventCount(job.get("event"), job.get("after_reply", False))
    files = Operations(lambda done: job.get("write") == [len(done.rounds) - 1, done.rounds[-1]])
    reports = ReportCount(job.get("report"))
    listeners: list[Callable[[Event], None]] = [files.hear, reports.hear, events.hear]
    engine = Engine.open(repo, bus=Bus(listeners), models={None: Worker(scenario)})
    if job.get("count"):
        listeners.append(lambda event: events.hear_last(event, engine.store.events("t1")[-1].seq))
    engine.bus.on_event = listeners
    if job.get("cancel"):
        engine.cancel("t1")
        await engine.settle_cancelled()
    tempfile.gettempdir()  # it is tried out once, which is no operation of ours
    sys.addaudithook(files.audit)
    sys.addaudithook(reports.audit)
    if not engine.store.tasks():
        engine.submit(
            scenario.text, Constraints(), Options(dry_run=scenario.dry_run, worktree=scenario.worktree)
        )
    await engine.drain()
    if engine.store.tasks()[0].state == "PROPOSED" and not job.get("propose"):
        await engine.apply("t1")
        await engine.drain()
    undoing = Operations(lambda done: job.get("undo") == done.rounds[0])
    if "undo" in job and not engine.store.tasks()[0].undone:
        sys.addaudithook(undoing.audit)
        undoing.is_on = True
        outcome = await engine.undo("t1")
        undoing.is_on = False
        assert isinstance(outcome, Undone), outcome
    engine.store.close()
    counted = {
        "events": events.heard,
        "commits": events.commits,
        "writes": files.rounds[1:],
        "reports": reports.opened,
        "undo": undoing.rounds[0],
    }
    Path(job["info"]).write_text(json.dumps(counted))


def run_child(job: dict[str, Any]) -> None:
    os.environ["CRASH_GATE"] = job.get("gate", "")
    status = 1
    try:
        asyncio.run(work(job))
        status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    for thing in gc.get_objects():
        if isinstance(thing, LazyPattern):
            thing.compile()
        elif isinstance(thing, type):
            is_dataclass(thing)  # writes its methods
    SecretNames().covers("a")  # its patterns take as long to compile as a short run
    gc.freeze()  # what is shared with the children is not to be touched by each of them
    for line in sys.stdin:
        # A fork copies only the thread that forks, so there must not be another one.
        assert threading.active_count() == 1
        pid = os.fork()
        if pid == 0:
            run_child(json.loads(line))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()

"""`headgate watch`: follows a task that another process works on."""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

import click

from headgate.cli.commands.steer import describe_hearing
from headgate.cli.endings import last_lines
from headgate.cli.follow import print_event
from headgate.cli.live import Progress, ShownTask
from headgate.cli.printing import say, tell
from headgate.cli.shared import (
    EXIT_CANCELLED,
    EXIT_CODES,
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    find_repo,
    repo_option,
)
from headgate.cli.stored_tasks import find_current, find_task, interrupted_hint, open_store, pause_sentence
from headgate.cli.terminal import is_in_front, is_interactive
from headgate.core import SETTLED_STATES, Event, Task, check_line
from headgate.engine import detail_lines
from headgate.errors import HeadgateError
from headgate.first_use import dataclass
from headgate.log import Bus, Folder, Store, build_report
from headgate.process import is_inside_command

Ending = tuple[list[str], int]
"""The last lines, and the exit code."""


@click.command("watch")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--detail", is_flag=True, help="Also show every tool call, failure log, diagnosis and fix.")
@click.option("--json", "as_json", is_flag=True, help="Print one event per line.")
@click.option(
    "--after", type=int, default=0, metavar="SEQ", help="Show only events after this sequence number."
)
@repo_option
def watch_command(task_id: str | None, detail: bool, as_json: bool, after: int, repo: Path | None) -> int:
    """Follow a task until it ends, and exit with its exit code.

    Without ID: the running task, or else the next in the queue, or else the latest.

    On a terminal, a line that you type is said to the task, as with headgate say.

    Ctrl-C or Ctrl-D stops watching; the task continues.
    """
    root = find_repo(repo)
    with open_store(root) as store:
        row = find_task(store, task_id) if task_id else find_current(store)
        watcher = Watcher(store, row.task, Folder(root), detail, as_json, after)
        may_speak = not as_json and row.state not in SETTLED_STATES and not is_inside_command(root)
        has_prompt = may_speak and is_interactive() and is_in_front(sys.stdin)
        try:
            lines, code = asyncio.run(watcher.at_prompt() if has_prompt else watcher.in_lines())
        except (KeyboardInterrupt, asyncio.CancelledError):
            name = row.task.id
            tell(f"Task {name} continues; headgate cancel {name} ends it.")
            sys.exit(EXIT_CANCELLED)
    for line in lines:
        tell(line) if as_json else say(line, hanging=2)
    return code


@dataclass
class Watcher:
    """Shows a task's events: milestones, and with `detail` what is behind them."""

    store: Store
    task: Task
    folder: Folder
    detail: bool
    as_json: bool
    after: int
    _ahead: int = field(default=0, init=False)

    async def in_lines(self) -> Ending:
        """Follows the task where nothing can be typed."""
        progress = Progress(Bus(), to_stdout=not self.as_json)

        def show(event: Event) -> None:
            progress.hear(event)
            if self.as_json:
                print_event(event, progress)

        with progress:
            return await self._follow(progress, show)

    async def at_prompt(self) -> Ending:
        """Follows the task above a prompt: what is typed there is said to the task."""
        from headgate.cli.interactive.watch_prompt import WatchPrompt

        prompt = WatchPrompt(Bus(), self.folder.repo, self.say)
        async with prompt.shown():
            return await self._follow(prompt, prompt.hear)

    def say(self, text: str) -> str:
        """Says to the task what was typed; what came of it. The task's own line follows later."""
        name = self.task.id
        try:
            if self.store.say(name, check_line(text), time.time()):
                row = self.store.task(name)
                return describe_hearing(name, row.state if row else "RUNNING")
        except HeadgateError as error:
            return str(error)
        return f"Task {name} has ended and does not read it."

    async def _follow(self, view: ShownTask, show: Callable[[Event], None]) -> Ending:
        """Shows events as they are committed, until nobody works any more; the last lines and the code."""
        view.shows_calls = not self.detail
        watching = asyncio.ensure_future(self._watch(view, show))
        lock = self.folder.work_lock()
        idle = 0
        try:
            # The lock is free for a moment when one process takes over from another.
            while not watching.done() and idle < 2 and self.store.task(self.task.id):
                self._show_place(view)
                await asyncio.wait({watching}, timeout=0.5)
                idle = 0 if await asyncio.to_thread(lock.is_held) else idle + 1
        finally:
            watching.cancel()
        if not watching.done():
            return self._explain_silence()
        watching.result()
        report = build_report(view.state)
        return ["", *last_lines(report)], EXIT_FAILED if report.conflicts else EXIT_CODES[report.state]

    async def _watch(self, view: ShownTask, show: Callable[[Event], None]) -> None:
        """Shows a task's events, the past ones first, until it is settled."""
        async for event in self.store.follow(self.task.id):
            view.state.apply(event)  # it comes from another process, and nobody here has folded it
            if event.seq > self.after:
                show(event)
                for line in detail_lines(event, "", self.folder) if self.detail else ():
                    view.print_more(line)
            if view.state.status in SETTLED_STATES and self._is_over(event.seq):
                return

    def _is_over(self, last: int) -> bool:
        """Whether nothing follows: a proposal is settled until it is applied."""
        row = self.store.task(self.task.id)
        return row is None or (row.state in SETTLED_STATES and not self.store.events(self.task.id, last))

    def _show_place(self, view: ShownTask) -> None:
        """Says how many tasks are before one that is queued, each time that changes."""
        row = self.store.task(self.task.id)
        ahead = self.store.count_ahead(self.task.id) if row and row.state == "QUEUED" else 0
        if ahead or self._ahead:
            view.waiting = f"Queued: {ahead} before this one" if ahead else ""
        if ahead and ahead != self._ahead:
            view.print_now(view.waiting)
        self._ahead = ahead

    def _explain_silence(self) -> Ending:
        """Why nobody works on the task, and what can be done."""
        name = self.task.id
        row = self.store.task(name)
        if row is None:
            return [f"Task {name} was cancelled before it started."], EXIT_CANCELLED
        if row.state == "QUEUED":
            nobody = f"No process is working: headgate submit --resume {name} starts the work."
            why = pause_sentence(self.store, self.folder) or nobody
            return [f"Task {name} is queued.", why], EXIT_CODES["QUEUED"]
        interrupted = [
            f"Task {name} was interrupted: no process is working on it.",
            interrupted_hint(self.store, name),
        ]
        return interrupted, EXIT_ENVIRONMENT

"""`headgate watch` and `cancel`: commands for a task that was submitted."""

import asyncio
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from headgate.cli.commands.look_back import detail_lines
from headgate.cli.commands.say import describe_hearing
from headgate.cli.follow import PhaseLines, print_event, start_worker
from headgate.cli.live import Progress, say
from headgate.cli.shared import (
    EXIT_CANCELLED,
    EXIT_CODES,
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    find_repo,
    find_repo_to_act,
    repo_option,
)
from headgate.cli.stored_tasks import (
    find_current,
    find_only,
    find_task,
    interrupted_hint,
    last_lines,
    open_store,
    pause_sentence,
)
from headgate.cli.typed_lines import typed_lines
from headgate.core import SETTLED_STATES, Event, TaskState, build_report, check_line
from headgate.engine import Engine
from headgate.errors import ConfigError, HeadgateError
from headgate.process import is_inside_command
from headgate.store import Bus, Folder, Store, load_state


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

    Ctrl-C stops watching; the task continues.
    """
    root = find_repo(repo)
    with open_store(root) as store:
        task = (find_task(store, task_id) if task_id else find_current(store)).task
        progress = Progress(Bus(), to_stdout=not as_json)
        progress.tries_again = task.resumes
        phases = PhaseLines(progress)
        phases.to_stdout = not as_json
        watcher = Watcher(progress, phases, Folder(root) if detail else None, as_json, after)
        watcher.may_speak = not as_json and not is_inside_command(root)
        try:
            lines, code = asyncio.run(follow_stored(store, task.id, Folder(root), watcher))
        except KeyboardInterrupt:
            click.echo(f"Task {task.id} continues; headgate cancel {task.id} ends it.", err=True)
            sys.exit(EXIT_CANCELLED)
    for line in lines:
        click.echo(line, err=True) if as_json else say(line, hanging=2)
    return code


@dataclass
class Watcher:
    """Shows events: milestones, and what is behind them if there is a folder to look it up in."""

    progress: Progress
    phases: PhaseLines
    details: Folder | None
    as_json: bool
    after: int
    may_speak: bool = False
    """What is typed meanwhile is said to the task."""
    _ahead: int = field(default=0, init=False)

    def show_place(self, store: Store, task_id: str) -> None:
        """Says how many tasks are before one that is queued, each time that changes."""
        row = store.task(task_id)
        ahead = store.count_ahead(task_id) if row and row.state == "QUEUED" else 0
        if ahead or self._ahead:
            self.progress.waiting = f"Queued: {ahead} before this one" if ahead else ""
        if ahead and ahead != self._ahead:
            self.progress.print_now(self.progress.waiting)
        self._ahead = ahead

    async def watch(self, store: Store, task_id: str) -> None:
        """Shows a task's events, the past ones first, until it is settled."""
        async for event in store.follow(task_id):
            self.progress.state.apply(event)  # it comes from another process, and nobody here has folded it
            if event.seq > self.after:
                self._show(event)
            if self.progress.state.status in SETTLED_STATES and _is_over(store, task_id, event.seq):
                return

    def say(self, store: Store, task_id: str, text: str) -> None:
        """Says to the task what was typed, and says what came of it. The task's own line follows later."""
        try:
            if store.say(task_id, check_line(text), time.time()):
                row = store.task(task_id)
                told = describe_hearing(task_id, row.state if row else "RUNNING")
            else:
                told = f"Task {task_id} has ended and does not read it."
        except HeadgateError as error:
            told = str(error)
        self.progress.print_now(told.rstrip("."))

    def _show(self, event: Event) -> None:
        self.progress.hear(event)
        self.phases.hear(event)
        if self.as_json:
            print_event(event, self.progress)
        for line in detail_lines(event, self.details) if self.details else ():
            self.progress.print_more(line)


def _is_over(store: Store, task_id: str, last: int) -> bool:
    """Whether nothing follows: a proposal is settled until it is applied."""
    row = store.task(task_id)
    return row is None or (row.state in SETTLED_STATES and not store.events(task_id, last))


async def follow_stored(
    store: Store, task_id: str, folder: Folder, watcher: Watcher
) -> tuple[list[str], int]:
    """Shows events as they are committed, until nobody works any more; the last lines and the exit code."""
    watching = asyncio.ensure_future(watcher.watch(store, task_id))
    lock = folder.work_lock()
    idle = 0
    speaking = typed_lines(partial(watcher.say, store, task_id)) if watcher.may_speak else nullcontext()
    with watcher.progress, speaking:
        # The lock is free for a moment when one process takes over from another.
        while not watching.done() and idle < 2 and store.task(task_id):
            watcher.show_place(store, task_id)
            await asyncio.wait({watching}, timeout=0.5)
            idle = 0 if await asyncio.to_thread(lock.is_held) else idle + 1
    if watching.done():
        watching.result()
        report = build_report(watcher.progress.state)
        return ["", *last_lines(report)], EXIT_FAILED if report.conflicts else EXIT_CODES[report.state]
    watching.cancel()
    row = store.task(task_id)
    if row is None:
        return [f"Task {task_id} was cancelled before it started."], EXIT_CANCELLED
    if row.state == "QUEUED":
        nobody = f"No process is working: headgate submit --resume {task_id} starts the work."
        why = pause_sentence(store, folder) or nobody
        return [f"Task {task_id} is queued.", why], EXIT_CODES["QUEUED"]
    interrupted = [
        f"Task {task_id} was interrupted: no process is working on it.",
        interrupted_hint(store, task_id),
    ]
    return interrupted, EXIT_ENVIRONMENT


WAIT_SECONDS = 60.0
POLL_SECONDS = 0.1


@click.command("cancel")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option(
    "--conclude", is_flag=True, help="Let a running task conclude with what it has, instead of stopping it."
)
@repo_option
def cancel_command(task_id: str | None, conclude: bool, repo: Path | None) -> None:
    """Cancel a queued or running task. Without ID: the only one.

    A queued task is removed, as if it had never been submitted. A running task is stopped, whichever process
    runs it; its changes so far stay in the working tree.

    With --conclude the model gets one last turn to say what it has done, and the result is verified.
    """
    root = find_repo_to_act(repo)
    with open_store(root) as store:
        found = find_only(store, task_id, ("RUNNING", "QUEUED"), "running or queued task").task.id
    engine = Engine.open(root, start_worker=partial(start_worker, root))
    try:
        if conclude and not engine.conclude(found):
            raise ConfigError(f"Task {found} is not running: there is nothing to conclude.")
        asked = f"Task {found} was asked to conclude. headgate watch {found} follows it."
        say(asked if conclude else asyncio.run(cancel_and_wait(engine, found)))
    finally:
        engine.store.close()


async def cancel_and_wait(engine: Engine, task_id: str) -> str:
    """Cancels a task and waits until it is over; returns what there is to say."""
    match engine.cancel(task_id):
        case "removed":
            return f"Task {task_id} was removed from the queue."
        case "returned":
            return f"Task {task_id} left the queue and is a proposal again."
        case "asked":
            state = await _wait_for_end(engine, task_id)
            if state == "PROPOSED":
                return f"Task {task_id} is a proposal again; nothing was changed."
            row = engine.store.task(task_id)
            if state == "CANCELLED" and row and load_state(engine.store, row).has_worktree:
                return f"Task {task_id} was cancelled. Its worktree .headgate/worktrees/{task_id} stays."
            if state == "CANCELLED":
                return f"Task {task_id} was cancelled. Its changes so far stay in the working tree."
            raise ConfigError(f"Task {task_id} has already ended: {state}.")
        case _:
            row = engine.store.task(task_id)
            if row and row.state == "PROPOSED":
                raise ConfigError(f"Task {task_id} is a proposal: headgate abort {task_id} discards it.")
            raise ConfigError(
                f"Task {task_id} has already ended: {row.state if row else 'it was cancelled'}."
            )


async def _wait_for_end(engine: Engine, task_id: str) -> TaskState | None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        row = engine.store.task(task_id)
        if row is None or row.state != "RUNNING":
            return row.state if row else None
        # Does something only if nobody holds the lock: the process that ran it is gone.
        await engine.settle_cancelled()
        await asyncio.sleep(POLL_SECONDS)
    raise HeadgateError(
        f"Task {task_id} was asked to stop, but the process that runs it has not stopped it yet."
    )

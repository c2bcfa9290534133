"""What the API and the page can do with tasks: one place for the rules and the sentences of both."""

import asyncio
import os
import re
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeVar

from headgate.checks import COMBINED, RUN_ID
from headgate.core import Constraints, Options, check_line, check_task_text, parse_task_text, plain
from headgate.engine import (
    RETRIED_STATES,
    ConfigReader,
    Engine,
    MergeProgress,
    Overlap,
    diff_of,
    is_mergeable,
)
from headgate.errors import ConfigError, ImageRefused
from headgate.first_use import dataclass
from headgate.log import Report, TaskRow, build_report, load_state
from headgate.server.feed import Feed
from headgate.server.problems import RequestRefused
from headgate.server.schemas import NewTask, Outcome, TaskAccepted, TaskSummary
from headgate.server.task_views import TaskView, TaskViews
from headgate.server.worker import Worker

Written = TypeVar("Written")
LOG_BYTES = 4_000_000
"""Of a verification log: its end, where the failures are, if it is longer."""


@dataclass
class Service:
    """The repository's tasks, for clients."""

    engine: Engine
    feed: Feed
    worker: Worker | None
    """None if another process is to carry tasks out."""
    _views: TaskViews = field(init=False)

    def __post_init__(self) -> None:
        self._views = TaskViews(self.engine.store)

    @property
    def repo(self) -> Path:
        return self.engine.repo

    def rows(self, words: str = "") -> list[TaskRow]:
        """The tasks, the latest first; with `words`, those that contain all of them."""
        wanted = words.casefold().split()
        rows = reversed(self.engine.store.tasks())
        return [
            row
            for row in rows
            if all(word in f"{row.task.id} {row.state} {row.task.text}".casefold() for word in wanted)
        ]

    def row(self, task_id: str) -> TaskRow:
        """A task by its id. RequestRefused (404) if there is none."""
        found = self.engine.store.task(task_id)
        if found is None:
            raise RequestRefused(404, f'There is no task "{task_id}".')
        return found

    def is_interrupted(self, row: TaskRow) -> bool:
        """Whether the process that ran a task is gone: nobody holds the lock."""
        return row.state == "RUNNING" and not self.engine.folder.work_lock().is_held()

    def view(self, row: TaskRow) -> TaskView:
        """A task's events, and what follows from them."""
        return self._views.of(row)

    def report(self, row: TaskRow) -> Report:
        return build_report(self.view(row).state(row))

    def submit(self, new: NewTask) -> TaskAccepted:
        """Stores a task. The configuration is read now, so that a file that was just changed counts."""
        constraints = Constraints(
            keep=tuple(new.keep), non_goals=tuple(new.non_goals), boundaries=tuple(new.boundaries)
        )
        options = Options(flow=new.flow, model=new.model, dry_run=new.dry_run, follows=new.follows or "")
        self.check_store()
        check_task_text(new.text, parse_task_text(new.text).constraints + constraints)
        notices: list[str] = []
        self._read_again(notices)
        with _refusing():
            if new.model:
                check_choice(self.repo, new.model)
            task = self.engine.submit(new.text, constraints, options)
        notices += self.engine.describe_boundaries(task)
        return self._accepted(task.id, notices)

    def check_store(self) -> None:
        """RequestRefused (503) if what is stored now would be lost: somebody deleted `.headgate`."""
        if self.engine.store.is_lost():
            raise RequestRefused(503, f"{self.engine.folder.path} was deleted: start the server again.")

    def _read_again(self, notices: list[str]) -> None:
        self.engine.read_config = ConfigReader(self.repo, os.environ)
        self.engine.on_notice = lambda line: notices.append(plain(line))

    def _accepted(self, task_id: str, notices: Sequence[str] = ()) -> TaskAccepted:
        self._changed()
        row = self.row(task_id)
        return TaskAccepted(id=task_id, state=row.state, position=row.position, notices=list(notices))

    def _changed(self, *, try_again: bool = False) -> None:
        self.feed.wake()
        if self.worker:
            self.worker.wake(try_again=try_again)

    def remove(self, task_id: str) -> None:
        """Removes a queued task, of which nothing is left. RequestRefused (409) if it is not one."""
        row = self.row(task_id)
        if row.applying or row.state != "QUEUED":
            how = "it waits to be applied" if row.applying and row.state == "QUEUED" else f"it is {row.state}"
            raise RequestRefused(409, f"Task {row.task.id} cannot be removed: {how}.")
        if self.engine.cancel(row.task.id) != "removed":
            raise RequestRefused(409, f"Task {row.task.id} has just started.")
        self._changed()

    async def say(self, task_id: str, text: str) -> Outcome:
        """Tells a running or queued task something. RequestRefused (409) if it has ended."""
        self.check_store()
        row = self.row(task_id)
        check_line(text)
        with _refusing():  # too many lines wait
            heard = self.engine.say(row.task.id, text)
        if not heard:
            raise RequestRefused(409, f"Task {row.task.id} has ended: start a follow-up instead.")
        return Outcome(id=row.task.id, outcome="said", state=row.state, position=row.position)

    async def cancel(self, task_id: str, *, conclude: bool = False) -> Outcome:
        """Cancels a task, or lets a running one conclude with what it has."""
        row = self.row(task_id)
        name = row.task.id
        if conclude:
            if not self.engine.conclude(name):
                raise RequestRefused(409, f"Task {name} does not run: there is nothing to conclude.")
            return Outcome(id=name, outcome="asked", state=row.state)
        outcome = self.engine.cancel(name)
        if outcome in ("settled", "unknown"):
            how = "is a proposal: discard it instead" if row.state == "PROPOSED" else "has already ended"
            raise RequestRefused(409, f"Task {name} {how}.")
        self._changed(try_again=outcome == "asked")
        now = self.engine.store.task(name)
        return Outcome(id=name, outcome=outcome, state=now.state if now else None)

    async def apply(self, task_id: str) -> Outcome:
        """Puts a proposal into the queue; writes what a task did in its worktree to the user's own tree.

        The second ends when the steps have run there.
        """
        row = self.row(task_id)
        if not is_mergeable(row):
            with _refusing():
                await self.engine.apply(row.task.id)
            self._changed(try_again=True)
            return self._outcome(task_id, "queued")
        told = MergeProgress(lambda merged: self.feed.wake())
        merged = await self._rewrite(self.engine.merge(row.task.id, told))
        outcome = Outcome(id=row.task.id, outcome="merged", state=row.state)
        if (found := merged.verification) is not None:
            outcome.verified, outcome.reason, outcome.run_id = found.passed, found.reason, found.run_id
        return outcome

    async def abort(self, task_id: str) -> Outcome:
        """Discards a proposal."""
        row = self.row(task_id)
        with _refusing():
            await self.engine.abort(row.task.id)
        self._changed()
        return self._outcome(task_id, "aborted")

    async def undo(self, task_id: str) -> Outcome:
        """Takes back what an ended task changed. RequestRefused (409) if that cannot be, with the reason."""
        row = self.row(task_id)
        self.check_store()
        await self._rewrite(self.engine.undo(row.task.id))
        return Outcome(id=row.task.id, outcome="undone", state=row.state)

    async def _rewrite(self, writing: Awaitable[Written | Overlap]) -> Written:
        """Writes to the user's own tree. RequestRefused (409) if somebody changed the same places."""
        try:
            with _refusing():
                written = await writing
        finally:
            self._changed()
        if isinstance(written, Overlap):
            raise RequestRefused(409, "\n".join(written.sentences()))
        return written

    def _outcome(self, task_id: str, outcome: Literal["queued", "aborted"]) -> Outcome:
        row = self.row(task_id)
        return Outcome(id=task_id, outcome=outcome, state=row.state, position=row.position)

    async def resume(self, task_id: str, added: str = "") -> Outcome:
        """Tries an ended task again as a new one, or has a queue that is paused go on."""
        self.check_store()
        row = self.row(task_id)
        if row.state in RETRIED_STATES:
            self._read_again([])
            again = self.engine.retry(row.task.id, Constraints(), Options(), added)
            self._changed(try_again=True)
            new = self.row(again.id)
            return Outcome(id=again.id, outcome="queued", state=new.state, position=new.position)
        if row.state != "QUEUED" and not self.is_interrupted(row):
            raise RequestRefused(409, f"Task {row.task.id} cannot be resumed: it is {row.state}.")
        if added:
            raise RequestRefused(409, f"Task {row.task.id} has not ended and continues as it was submitted.")
        if row.state == "QUEUED":
            self._read_again([])
            self.engine.pin_again(row.task.id)
        self._changed(try_again=True)
        return Outcome(id=row.task.id, outcome="resumed", state=row.state, position=row.position)

    async def diff(self, row: TaskRow) -> bytes:
        """A task's diff. RequestRefused (409) if there is none yet."""
        with _refusing():
            return await asyncio.to_thread(diff_of, self.repo, row, load_state(self.engine.store, row))

    async def log(self, run_id: str) -> str:
        """What a verification printed. RequestRefused (404) if there was no such run."""
        path = self.engine.folder.runs / run_id / COMBINED
        try:
            if not re.fullmatch(RUN_ID, run_id):
                raise FileNotFoundError
            data = await asyncio.to_thread(self.engine.folder.own.read, path)
        except OSError:
            raise RequestRefused(404, f'There is no log of a run "{run_id}".') from None
        return plain(data[-LOG_BYTES:].decode("utf-8", "replace"))


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuses a request (409) that cannot be met as things stand here."""
    try:
        yield
    except ImageRefused as error:  # that is the request's own fault
        raise RequestRefused(422, str(error)) from None
    except ConfigError as error:
        raise RequestRefused(409, str(error)) from None


def check_choice(repo: Path, model: str) -> None:
    """ConfigError if the configuration does not name this model.

    Whoever asks may be on another machine, and sends no code to a server that nobody here has named.
    """
    config = ConfigReader(repo, os.environ)(Options()).config
    names = list(dict.fromkeys(filter(None, (config.model, *config.models))))
    if model not in names:
        known = f"choose one of {', '.join(names)}" if names else "it names none"
        raise ConfigError(f'The configuration has no model "{model}": {known}.')


def summary(row: TaskRow) -> TaskSummary:
    """A task in the list."""
    task = row.task
    return TaskSummary(
        id=task.id,
        state=row.state,
        text=task.text,
        position=row.position,
        created=row.created,
        dry_run=task.dry_run,
        resumes=task.resumes,
        follows=task.follows,
        undone=row.undone,
    )

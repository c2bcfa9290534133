"""A flow as a task of a repository: with its queue, lock, log, guards and verification."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headgate.config import load_config
from headgate.core import Constraints, Decision, Event, Limits, Model, ModelSettings, State, Task
from headgate.engine import Engine, FlowParts
from headgate.errors import ConfigError
from headgate.library.flow import CompiledFlow
from headgate.library.following import RECENT
from headgate.library.lines import Head, encode_commit
from headgate.library.request import RunRequest
from headgate.library.restoring import Source, describe_flow
from headgate.log import Bus, Folder, Report, Store, load_state
from headgate.run import Job

_OF_PROGRAM = "program"
"""The name, in the configuration, of the model that a program gave."""


class RepositoryWork:
    """The work of a run with a repository. Its history is the store; positions are numbers of events."""

    job: Job | None = None
    """The engine has it."""

    def __init__(
        self, compiled: CompiledFlow, request: RunRequest, bus: Bus, session_id: str, source: Source | None
    ) -> None:
        self._compiled, self._request, self._bus, self._session = compiled, request, bus, session_id
        self._source = source
        self._repo = _repository_of(request, source)
        self._task: Task | None = None
        self._store: Store | None = None
        self.report: Report | None = None
        self.start = self.first = 0
        self.ended_before: set[str] = set()

    def head(self) -> Head:
        """What checkpoints begin with: they name the task, whose log the repository has."""
        if self._task is None:
            raise ConfigError("There is nothing to save yet: the flow has not started.")
        where = {"repo": str(self._repo), "task": self._task.id}
        return describe_flow(self._compiled, self._session, self._task.text, **where)

    async def run(self) -> Decision | None:
        """Carries the task out, or follows it to its end; None if it was cancelled."""
        engine = self._open()
        try:
            self._store = engine.store
            self._task = task = self._find(engine) if self._source else self._submit(engine)
            self.report = await engine.run(task, after=self.start)
        finally:
            self._store = None
            engine.store.close()
        match self.report.state:
            case "SUCCESS":
                return Decision("advance", "done")
            case "CANCELLED":
                return None
        return Decision("stuck", self.report.reason, self.report.summary)

    def _open(self) -> Engine:
        compiled, request, repo = self._compiled, self._request, self._repo
        named = {
            name: given if isinstance(given, ModelSettings) else ModelSettings(model=given)
            for name, given in request.models.items()
            if isinstance(given, str | ModelSettings)
        }
        objects: dict[str | None, Model] = {
            name: given
            for name, given in request.models.items()
            if not isinstance(given, str | ModelSettings)
        }
        flags = {"base_url": request.base_url}
        if isinstance(request.model, str):
            flags["model"] = request.model
        elif isinstance(request.model, ModelSettings):
            named[_OF_PROGRAM] = request.model
        elif request.model is not None:
            objects[None] = request.model
        key = {"HEADGATE_API_KEY": request.api_key} if request.api_key else {}
        loaded = load_config(repo, environ={**os.environ, **key}, flags=flags)
        config = loaded.config.model_copy(update={"models": {**loaded.config.models, **named}})
        if _OF_PROGRAM in named:
            config = config.model_copy(update={"model": _OF_PROGRAM})
        if request.limits != Limits():
            config = config.model_copy(update={"limits": request.limits})
        parts = FlowParts(
            flow=compiled.flow, tools=compiled.tools, stage_tools=compiled.stage_tools, code=compiled.code
        )
        engine = Engine.open(repo, replace(loaded, config=config), self._bus, objects, parts=parts)
        engine.now, engine.sleep = request.now, request.sleep
        return engine

    def _submit(self, engine: Engine) -> Task:
        return engine.submit(self._request.input or self._compiled.flow.name, Constraints())

    def _find(self, engine: Engine) -> Task:
        """The task of the checkpoint. ConfigError if the repository does not know it."""
        assert self._source is not None
        head, saved = self._source.head, self._source.load()
        row = engine.store.task(head.task)
        known = {event.seq: event.at for event in engine.store.events(head.task)} if row else {}
        same = all(known.get(event.seq) == event.at for event in saved.events[:1])
        if row is None or row.task.text != head.input or not same:
            raise ConfigError(
                f"The repository {self._repo} does not know the task of this checkpoint, {head.task}: its log"
                " was removed, or it is another repository. Start the flow again."
            )
        self.start = max(known, default=0)
        state: State = load_state(engine.store, row)
        self.ended_before.update(stage for ended in state.tree.endings.values() for stage in ended)
        return row.task

    # What was committed; see History.

    @property
    def told(self) -> int:
        return self._bus.state.last_seq

    @property
    def end(self) -> int:
        return self.told

    def read(self, position: int) -> tuple[list[Event], int]:
        """See History."""
        with self._open_store() as store:
            found = store.events(self._task.id, position, RECENT) if self._task else []
        return found, found[-1].seq if found else position

    def lines(self, start: int, stop: int) -> bytes:
        """See History. What was said stays in the repository, which the task needs anyway."""
        found: list[bytes] = []
        while start < stop:
            events, start = self.read(start)
            if not events:
                break
            found += (
                line for event in events if event.seq <= stop for line in encode_commit([(event, None)])
            )
        return b"".join(found)

    @contextmanager
    def _open_store(self) -> Iterator[Store]:
        """The store, also when the task has ended."""
        if self._store is not None:
            yield self._store
            return
        folder = Folder(self._repo)
        store = Store(folder.database)
        try:
            yield store
        finally:
            store.close()


def _repository_of(request: RunRequest, source: Source | None) -> Path:
    """Where the task is. ConfigError if that is not where the checkpoint was made."""
    given = Path(request.repo).resolve() if request.repo is not None else None
    if source is None:
        assert given is not None
        if not any((folder / ".git").exists() for folder in (given, *given.parents)):
            raise ConfigError(f'{given} is not in a git repository: run "git init" there, or correct `repo`.')
        return given
    kept = Path(source.head.repo)
    if given is not None and given != kept:
        raise ConfigError(
            f"The flow of this checkpoint is a task in the repository {kept}: it cannot continue in {given}."
        )
    if not kept.is_dir():
        raise ConfigError(
            f"The flow of this checkpoint is a task in the repository {kept}, which is gone: put it back, or"
            " start the flow again."
        )
    return kept

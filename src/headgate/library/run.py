"""Running a flow from Python: in this process or in a repository, on the same loop, with the same events."""

import asyncio
import inspect
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from headgate.core import PLANNER, Decision, Event
from headgate.errors import ConfigError
from headgate.features.compaction.feature import compact_later
from headgate.library.callbacks import Callbacks, call_back, tell_callbacks
from headgate.library.checkpoints import Checkpoint, Saver
from headgate.library.flow import CompiledFlow, Flow, LoadedFlow
from headgate.library.following import EventFeed
from headgate.library.in_process import ProcessWork
from headgate.library.in_repository import RepositoryWork
from headgate.library.lines import SavedFlow
from headgate.library.request import RunOptions, RunRequest
from headgate.library.restoring import Source, compiled_for, from_bytes, from_file
from headgate.library.results import FlowResult, collect
from headgate.log import Bus


class FlowRun:
    """A flow that runs. Await `result()`, or follow `events()`."""

    def __init__(self, compiled: CompiledFlow, request: RunRequest, source: Source | None = None) -> None:
        _check(request, source)
        if not _is_in_loop():
            raise ConfigError(
                "A flow is started in a running event loop: call start_flow in a coroutine,"
                " or use run_flow_sync."
            )
        planners = [leaf.id for leaf in compiled.flow.leaves() if leaf.kind == PLANNER]
        if planners and request.repo is None and not (source and source.head.repo):
            raise ConfigError(f'Stage "{planners[0]}" is a planner, whose recipes need `repo`.')
        self._compiled, self._request = compiled, request
        known = source.head.session_id if source else request.session_id
        self.session_id = known or f"flow_{secrets.token_hex(4)}"
        self._bus = Bus()
        in_repository = source.head.repo if source else request.repo
        kind = RepositoryWork if in_repository else ProcessWork
        self._work: RepositoryWork | ProcessWork = kind(compiled, request, self._bus, self.session_id, source)
        history = self._work if isinstance(self._work, RepositoryWork) else self._work.history
        self._feed = EventFeed(history)
        self._bus.on_event.append(self._feed.tell)
        self._saver = (
            Saver(request.checkpoint, self.session_id, history, self._work.head, request.now)
            if request.checkpoint and request.saves
            else None
        )
        self._calling = asyncio.create_task(self._call_back())
        self._running: asyncio.Task[Decision | None] = asyncio.create_task(self._work.run())
        self._running.add_done_callback(lambda _: self._feed.end())

    async def result(self) -> FlowResult:
        """Waits for the end. Cancelling the call cancels the flow, which is saved as it is then."""
        try:
            await asyncio.wait({self._running, self._calling})
        except asyncio.CancelledError:
            for task in (self._running, self._calling):
                task.cancel()
                await asyncio.wait({task})
            await self._save_end()
            raise
        ended = None if self._running.cancelled() else self._running.result()
        self._calling.result()
        return collect(self._compiled, self._bus.state, ended, self._work.report)

    def compact(self, stage: str | None = None) -> None:
        """Replaces the messages of a stage that has ended, or of all that have, before the next turn."""
        if isinstance(self._work, RepositoryWork):
            raise ConfigError("Only a flow that runs without `repo` can be compacted on request.")
        if self._work.job is None:
            raise ConfigError("There is nothing to compact yet: the flow has not started.")
        compact_later(self._work.job, stage)

    def cancel(self) -> None:
        """Stops the flow. `result()` then returns what there is."""
        self._running.cancel()

    def events(self) -> AsyncIterator[Event]:
        """Every event of this run, from the first one on, until the flow ends."""
        return self._feed.follow()

    async def save(self) -> None:
        """Saves the flow as it is now, where its checkpoint says."""
        if self._saver is None:
            raise ConfigError("There is nothing to save to: give `checkpoint`.")
        await self._saver.save()

    @property
    def checkpoint(self) -> bytes:
        """The latest checkpoint, with `storage="memory"`."""
        return self._saver.latest if self._saver else b""

    async def _call_back(self) -> None:
        """Saves the flow when that is due, and tells the callbacks what happened."""
        work, saver = self._work, self._saver
        if saver is None and self._request.callbacks == Callbacks():
            return
        told = tell_callbacks(
            self._request.callbacks,
            self._compiled,
            self._feed.follow(),
            lambda: self._bus.state,
            work.ended_before,
        )
        async for event in told:
            if saver and saver.is_due(event):
                await call_back(saver.save)
        await self._save_end()

    async def _save_end(self) -> None:
        if self._saver and self._saver.saves_end and self._bus.state.last_seq:
            await call_back(self._saver.save)


def _check(request: RunRequest, source: Source | None) -> None:
    """ConfigError if what a flow is to run with does not go together."""
    if request.repo is not None and request.workspace is not None:
        raise ConfigError("Give `repo` or `workspace`, not both: a repository has its own files.")
    in_repository = request.repo is not None or (source is not None and bool(source.head.repo))
    if in_repository and request.log is not None:
        raise ConfigError("A flow in a repository has its log there: leave `log` out.")
    if source is None:
        return
    if request.repo is not None and not source.head.repo:
        raise ConfigError("The flow of this checkpoint ran without a repository: leave `repo` out.")
    if request.workspace is not None and source.head.repo:
        raise ConfigError(
            f"The flow of this checkpoint is a task in the repository {source.head.repo}:"
            " leave `workspace` out."
        )
    if request.input and request.input != source.head.input:
        raise ConfigError("A flow that continues from a checkpoint has its input already: leave `input` out.")


def start_flow(flow: Flow | LoadedFlow, **options: Unpack[RunOptions]) -> FlowRun:
    """Starts a flow. Await the result of what is returned, or follow its events."""
    if not isinstance(flow, Flow | LoadedFlow):
        raise ConfigError(f"A flow must be a Flow(...), or come from Flow.load, not {flow!r}.")
    return FlowRun(flow.compiled, RunRequest.of(options))


async def run_flow(flow: Flow | LoadedFlow, **options: Unpack[RunOptions]) -> FlowResult:
    """Runs a flow to its end."""
    return await start_flow(flow, **options).result()


@dataclass(frozen=True)
class RestoredFlow:
    """A flow that goes on where a checkpoint was made."""

    compiled: CompiledFlow
    source: Source

    @property
    def note(self) -> str:
        """What was wrong with the checkpoint: its end was cut off, or its backup had to be used."""
        return self.source.note

    @property
    def saved(self) -> SavedFlow:
        """What the checkpoint holds, decoded each time."""
        return self.source.load()

    def start(self, **options: Unpack[RunOptions]) -> FlowRun:
        """Goes on. The options are those of `start_flow`, but for `input`.

        Files are those that the checkpoint was made with: its `workspace` or its `repo`. From a log, the run
        goes on in that log, unless `log` names a new one.
        """
        return FlowRun(self.compiled, RunRequest.of(options), self.source)

    async def run(self, **options: Unpack[RunOptions]) -> FlowResult:
        """Goes on to the end."""
        return await self.start(**options).result()


def restore_flow(
    checkpoint: str | Path | bytes | Checkpoint, flow: Flow | LoadedFlow | None = None
) -> RestoredFlow:
    """A flow from a checkpoint: a file, the bytes of one, or custom storage that has `on_load`.

    A log is such a file, too. `flow` is needed if its functions cannot be imported by name. It must be the
    same flow.
    """
    if isinstance(checkpoint, Checkpoint):
        checkpoint = _load(checkpoint)
    source = from_bytes(checkpoint) if isinstance(checkpoint, bytes) else from_file(Path(checkpoint))
    return RestoredFlow(compiled_for(source.head, flow), source)


def _load(checkpoint: Checkpoint) -> bytes:
    """What a program has kept."""
    if checkpoint.on_load is None:
        raise ConfigError("To restore from custom storage, give `on_load`; from a file, its path.")
    kept = checkpoint.on_load()
    if inspect.iscoroutine(kept):
        if _is_in_loop():
            kept.close()
            raise ConfigError("`on_load` is a coroutine function: await it, and restore what it returns.")
        kept = asyncio.run(kept)
    if not isinstance(kept, bytes):
        raise ConfigError("`on_load` has to return the bytes that `on_save` was given.")
    return kept


def run_flow_sync(flow: Flow | LoadedFlow, **options: Unpack[RunOptions]) -> FlowResult:
    """The same for scripts. ConfigError inside a running event loop: await `run_flow` there."""
    if _is_in_loop():
        raise ConfigError("run_flow_sync cannot be called in a running event loop: await run_flow instead.")
    return asyncio.run(run_flow(flow, **options))


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

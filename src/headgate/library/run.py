"""Running a flow from Python: without a repository, on the same loop and with the same events."""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headgate.config import load_config
from headgate.core import (
    Constraints,
    Decision,
    DecisionMade,
    Event,
    Limits,
    Model,
    ModelSettings,
    ReplyReceived,
    Report,
    StageCompacted,
    StageEnded,
    StageSkipped,
    StageStarted,
    Task,
    ToolFinished,
)
from headgate.engine import Engine, FlowParts
from headgate.errors import ConfigError
from headgate.library.callbacks import Callbacks, call_back
from headgate.library.checkpoints import (
    Checkpoint,
    SavedFlow,
    compiled_for,
    decode,
    encode,
    fingerprint,
    read_checkpoint,
    write_checkpoint,
)
from headgate.library.flow import CompiledFlow, Flow, LoadedFlow
from headgate.library.log import MemoryLog
from headgate.library.request import RunRequest, open_models
from headgate.library.results import FlowResult, collect, stage_result
from headgate.library.surroundings import NoFiles, NoTree
from headgate.run import KINDS, Job, call_program, restore
from headgate.run import run_flow as run_job
from headgate.store import Bus
from headgate.tools import (
    ToolContext,
    edit_file,
    find_files,
    ls,
    read_file,
    read_files,
    search,
    think,
    write_file,
)
from headgate.workspace import DiskWorkspace, Workspace

_FILE_TOOLS = (ls, read_file, read_files, find_files, search, write_file, edit_file)
_END = object()


class FlowRun:
    """A flow that runs. Await `result()`, or follow `events()`."""

    def __init__(self, compiled: CompiledFlow, request: RunRequest, saved: SavedFlow | None = None) -> None:
        self._compiled = compiled
        self._request = request
        self._saved = saved
        self.session_id = saved.session_id if saved else request.session_id or f"flow_{secrets.token_hex(4)}"
        self._log: MemoryLog | None = None
        self._job: Job | None = None
        self._saved_at = request.now()
        self.checkpoint = b""
        """The latest checkpoint, with `storage="memory"`."""
        self._bus = Bus()
        self._past: list[Event] = []
        self._followers: list[asyncio.Queue[Any]] = []
        self._report: Report | None = None
        self._bus.on_event.append(self._tell)
        self._calling = asyncio.create_task(self._call_back(self._follow()))
        work = self._run_in_memory if request.repo is None else self._run_in_repository
        self._work = asyncio.create_task(work())
        self._work.add_done_callback(self._end)

    async def result(self) -> FlowResult:
        """Waits for the end. Cancelling the call cancels the flow."""
        try:
            await asyncio.wait({self._work})
        except asyncio.CancelledError:
            self._work.cancel()
            await asyncio.wait({self._work})
            raise
        ended = None if self._work.cancelled() else self._work.result()
        await self._calling
        return collect(self._compiled, self._bus.state, ended, self._report)

    def compact(self, stage: str | None = None) -> None:
        """Replaces the messages of a stage that has ended, or of all that have, before the next turn."""
        if self._job is None:
            raise ConfigError("Only a flow that runs without `repo` can be compacted on request.")
        self._job.compact(stage)

    def cancel(self) -> None:
        """Stops the flow. `result()` then returns what there is."""
        self._work.cancel()

    async def events(self) -> AsyncIterator[Event]:
        """Every event, from the first one on, until the flow ends."""
        queue = self._follow()
        if self._work.done():
            queue.put_nowait(_END)
        while (event := await queue.get()) is not _END:
            yield event

    def _follow(self) -> "asyncio.Queue[Any]":
        queue: asyncio.Queue[Any] = asyncio.Queue()
        for event in self._past:
            queue.put_nowait(event)
        self._followers.append(queue)
        return queue

    def _end(self, work: "asyncio.Task[Decision]") -> None:
        """Tells all who follow that nothing else comes, also if nobody asks for the result."""
        for queue in self._followers:
            queue.put_nowait(_END)

    def _tell(self, event: Event) -> None:
        self._past.append(event)
        for queue in self._followers:
            queue.put_nowait(event)

    async def _run_in_memory(self) -> Decision:
        compiled, request, saved = self._compiled, self._request, self._saved
        text = saved.input if saved else request.input or compiled.flow.name
        task = Task(id=self.session_id, text=text, goal=text)
        past, contents = (saved.events, saved.contents) if saved else ((), {})
        self._log = MemoryLog(self._bus, task, request.now, past, contents)
        async with AsyncExitStack() as stack:
            models, settings = await open_models(stack, compiled.flow, request)
            files = request.workspace
            workspace: Workspace = NoFiles() if files is None else DiskWorkspace(Path(files), ())
            given = [think, *(_FILE_TOOLS if files is not None else ())]
            self._job = job = Job(
                task=task,
                flow=compiled.flow,
                kinds=KINDS,
                log=self._log,
                models=models,
                model_settings=settings,
                tools={**{tool.name: tool for tool in given}, **compiled.tools},
                context=ToolContext(workspace=workspace, save_output=_drop),
                verifier=None,
                tree=NoTree(),
                redact=lambda text: text,
                now=request.now,
                sleep=request.sleep,
                pulse=self._bus.pulse,
                agents_md=False,
                limits=request.limits,
                system_prompt="system_plain",
                stage_tools=compiled.stage_tools,
                code=compiled.code,
            )
            if past:
                restore(job, past, contents)
            return await run_job(job)

    async def save(self) -> None:
        """Saves the flow as it is now, where its checkpoint says."""
        wanted, log = self._request.checkpoint, self._log
        if wanted is None or log is None:
            raise ConfigError("There is nothing to save: give `checkpoint`, and run the flow without `repo`.")
        flow, text = self._compiled.flow, log.state.text
        saved = SavedFlow(
            self.session_id, text, flow, fingerprint(flow), "", tuple(log.events), dict(log.contents)
        )
        data = encode(saved)
        match wanted.storage:
            case "memory":
                self.checkpoint = data
            case "file":
                await asyncio.to_thread(write_checkpoint, wanted.file(self.session_id), data)
            case "custom":
                assert wanted.on_save is not None
                await call_program(wanted.on_save, data)
        self._saved_at = self._request.now()

    def _is_due(self, event: Event) -> bool:
        """Whether the flow is to be saved after an event."""
        wanted = self._request.checkpoint
        if wanted is None or not wanted.auto_save or self._log is None:
            return False
        if wanted.interval == "on_stage":
            return isinstance(event.body, StageEnded)
        if wanted.interval == "on_turn":
            return isinstance(event.body, ReplyReceived | ToolFinished | StageEnded)
        return self._request.now() - self._saved_at >= wanted.interval

    async def _run_in_repository(self) -> Decision:
        """As a task of the repository: with its queue, lock, log, guards and verification."""
        compiled, request = self._compiled, self._request
        assert request.repo is not None
        repo = Path(request.repo)
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
        elif request.model is not None:
            objects[None] = request.model
        loaded = load_config(repo, environ=os.environ, flags=flags)
        config = loaded.config.model_copy(update={"models": {**loaded.config.models, **named}})
        if request.limits != Limits():
            config = config.model_copy(update={"limits": request.limits})
        parts = FlowParts(
            flow=compiled.flow, tools=compiled.tools, stage_tools=compiled.stage_tools, code=compiled.code
        )
        engine = Engine.open(repo, replace(loaded, config=config), self._bus, objects, parts=parts)
        engine.now, engine.sleep = request.now, request.sleep
        try:
            task = engine.submit(request.input or compiled.flow.name, Constraints())
            self._report = await engine.run(task)
        finally:
            engine.store.close()
        if self._report.state == "SUCCESS":
            return Decision("advance", "done")
        return Decision("stuck", self._report.reason, self._report.summary)

    async def _call_back(self, queue: "asyncio.Queue[Any]") -> None:
        """Tells the callbacks what happened, in order."""
        calls, leaves = self._request.callbacks, {leaf.id: leaf for leaf in self._compiled.flow.leaves()}
        ended: set[str] = set()
        retried: set[str] = set()
        """Attempts that are followed by another. By now, the state may know that one already."""
        while (event := await queue.get()) is not _END:
            body = event.body
            if self._is_due(event):
                await call_back(self.save)
            if isinstance(body, StageStarted):
                await call_back(calls.on_start, body.stage)
            if isinstance(body, StageCompacted):
                await call_back(calls.on_compact, body.stage, body.chars_before, body.chars_after)
            if isinstance(body, StageSkipped):
                await call_back(calls.on_skip, body.stage, body.reason)
            if isinstance(body, DecisionMade) and body.action == "retry":
                retried.add(event.path)
            if not isinstance(body, StageEnded) or event.path in retried:
                continue
            ended.add(body.stage)
            match body.ending:
                case "completed" | "exhausted" if calls.on_complete and body.stage in leaves:
                    result = stage_result(self._compiled, leaves[body.stage], self._bus.state)
                    await call_back(calls.on_complete, body.stage, result)
                case "skipped" if (attempt := self._bus.state.nodes.get(event.path)) and attempt.turns:
                    await call_back(calls.on_skip, body.stage, body.reason)
                case "failed":
                    await call_back(calls.on_error, body.stage, body.reason)
            await call_back(calls.on_progress, len(ended), len(leaves), body.stage)


def start_flow(
    flow: Flow | LoadedFlow,
    *,
    model: "str | Model | None" = None,
    input: str = "",
    base_url: str | None = None,
    api_key: str | None = None,
    models: "Mapping[str, str | Model | ModelSettings] | None" = None,
    workspace: str | Path | None = None,
    repo: str | Path | None = None,
    limits: Limits | None = None,
    callbacks: Callbacks | None = None,
    checkpoint: Checkpoint | None = None,
    session_id: str = "",
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> FlowRun:
    """Starts a flow. Await the result of what is returned, or follow its events.

    `model` is a name such as `openai/qwen3-coder`, or a model object; without one, HEADGATE_MODEL and
    HEADGATE_BASE_URL count. `models` are further ones that stages name. With `repo`, the flow is a task in
    this git repository. Otherwise, `workspace` is a folder that the file tools work in; without it there are
    no files.
    """
    request = RunRequest(
        input=input,
        model=model,
        base_url=base_url,
        api_key=api_key,
        models=models or {},
        workspace=workspace,
        repo=repo,
        limits=limits or Limits(),
        callbacks=callbacks or Callbacks(),
        checkpoint=checkpoint,
        session_id=session_id,
        now=now,
        sleep=sleep,
    )
    if repo is not None and checkpoint is not None:
        raise ConfigError("A flow with `repo` needs no checkpoint: its log is in the repository.")
    return FlowRun(flow.compiled, request)


async def run_flow(flow: Flow | LoadedFlow, **options: Any) -> FlowResult:
    """Runs a flow to its end. The options are those of `start_flow`."""
    return await start_flow(flow, **options).result()


@dataclass(frozen=True)
class RestoredFlow:
    """A flow that goes on where a checkpoint was made."""

    compiled: CompiledFlow
    saved: SavedFlow
    note: str = ""
    """What was wrong with the checkpoint, if its backup had to be used."""

    def start(self, **options: Any) -> FlowRun:
        """Goes on. The options are those of `start_flow`, without `repo` and `input`."""
        return FlowRun(self.compiled, RunRequest(**options), self.saved)

    async def run(self, **options: Any) -> FlowResult:
        """Goes on to the end."""
        return await self.start(**options).result()


def restore_flow(
    checkpoint: str | Path | bytes | Checkpoint, flow: Flow | LoadedFlow | None = None
) -> RestoredFlow:
    """A flow from a checkpoint: a file, the bytes of one, or custom storage that has `on_load`.

    `flow` is needed if its functions cannot be imported by name. It must be the same flow.
    """
    if isinstance(checkpoint, Checkpoint):
        if checkpoint.on_load is None:
            raise ConfigError("To restore from custom storage, give `on_load`; from a file, its path.")
        checkpoint = checkpoint.on_load()
    if isinstance(checkpoint, bytes):
        saved, note = decode(checkpoint, "The checkpoint"), ""
    else:
        saved, note = read_checkpoint(Path(checkpoint))
    return RestoredFlow(compiled_for(saved, flow), saved, note)


def run_flow_sync(flow: Flow | LoadedFlow, **options: Any) -> FlowResult:
    """The same for scripts. ConfigError inside a running event loop: await `run_flow` there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_flow(flow, **options))
    raise ConfigError("run_flow_sync cannot be called in a running event loop: await run_flow instead.")


def _drop(text: str) -> str:
    return "not kept"

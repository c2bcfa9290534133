"""Running a flow from Python: without a repository, on the same loop and with the same events."""

import asyncio
import inspect
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headgate.config import load_config
from headgate.core import (
    Constraints,
    Decision,
    Event,
    Limits,
    Model,
    ModelSettings,
    Price,
    Report,
    StageEnded,
    StageStarted,
    Task,
    place_of,
)
from headgate.engine import Engine, FlowParts
from headgate.errors import ConfigError
from headgate.library.flow import CompiledFlow, Flow
from headgate.library.log import MemoryLog
from headgate.library.results import FlowResult, StageResult, collect
from headgate.library.surroundings import NoFiles, NoTree
from headgate.models import ScriptedModel, open_configured_model
from headgate.run import KINDS, Job
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

_logger = logging.getLogger("headgate")
_FILE_TOOLS = (ls, read_file, read_files, find_files, search, write_file, edit_file)
_END = object()


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """Functions that are told what happens, sync or async. One that raises is logged; the flow goes on."""

    on_start: Callable[[str], Any] | None = None
    """A stage starts: its id."""
    on_complete: Callable[[str, StageResult], Any] | None = None
    on_error: Callable[[str, str], Any] | None = None
    """A stage failed: its id, and why."""
    on_skip: Callable[[str, str], Any] | None = None
    """A stage was skipped: its id, and why."""
    on_progress: Callable[[int, int, str], Any] | None = None
    """How many stages have ended, of how many, and the id of the latest."""


class FlowRun:
    """A flow that runs. Await `result()`, or follow `events()`."""

    def __init__(self, flow: Flow, request: "RunRequest") -> None:
        self.flow = flow
        self._compiled: CompiledFlow = flow.compiled
        self._request = request
        self._bus = Bus()
        self._past: list[Event] = []
        self._followers: list[asyncio.Queue[Any]] = []
        self._report: Report | None = None
        self._bus.on_event.append(self._tell)
        self._calling = asyncio.create_task(self._call_back(self._follow()))
        work = self._run_in_memory if request.repo is None else self._run_in_repository
        self._work = asyncio.create_task(work())

    async def result(self) -> FlowResult:
        """Waits for the end. Cancelling the call cancels the flow."""
        ended: Decision | None = None
        try:
            ended = await self._work
        except asyncio.CancelledError:
            if not self._work.cancelled():
                self._work.cancel()
                raise
        finally:
            for queue in self._followers:
                queue.put_nowait(_END)
        await self._calling
        return collect(self._compiled, self._bus.state, ended, self._report)

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

    def _tell(self, event: Event) -> None:
        self._past.append(event)
        for queue in self._followers:
            queue.put_nowait(event)

    async def _run_in_memory(self) -> Decision:
        compiled, request = self._compiled, self._request
        text = request.input or self.flow.name
        task = Task(id=f"flow_{secrets.token_hex(4)}", text=text, goal=text)
        async with AsyncExitStack() as stack:
            models, settings = await _open_models(stack, compiled, request)
            files = request.workspace
            workspace: Workspace = NoFiles() if files is None else DiskWorkspace(Path(files), ())
            given = [think, *(_FILE_TOOLS if files is not None else ())]
            job = Job(
                task=task,
                flow=compiled.flow,
                kinds=KINDS,
                log=MemoryLog(self._bus, task, request.now),
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
            return await run_job(job)

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
            task = engine.submit(request.input or self.flow.name, Constraints())
            self._report = await engine.run(task)
        finally:
            engine.store.close()
        if self._report.state == "SUCCESS":
            return Decision("advance", "done")
        return Decision("stuck", self._report.reason, self._report.summary)

    async def _call_back(self, queue: "asyncio.Queue[Any]") -> None:
        """Tells the callbacks what happened, in order."""
        calls, leaves = self._request.callbacks, [leaf.id for leaf in self._compiled.flow.leaves()]
        ended: set[str] = set()
        while (event := await queue.get()) is not _END:
            body = event.body
            if isinstance(body, StageStarted):
                await _call(calls.on_start, body.stage)
            if not isinstance(body, StageEnded) or place_of(event.path) in self._bus.state.tree.retries:
                continue
            ended.add(body.stage)
            result = collect(self._compiled, self._bus.state, None).stages.get(body.stage)
            match body.ending:
                case "completed" | "exhausted":
                    await _call(calls.on_complete, body.stage, result or StageResult(body.stage, body.ending))
                case "skipped":
                    await _call(calls.on_skip, body.stage, body.reason)
                case "failed":
                    await _call(calls.on_error, body.stage, body.reason)
            await _call(calls.on_progress, len(ended), len(leaves), body.stage)


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a flow is run with."""

    input: str = ""
    model: "str | Model | None" = None
    base_url: str | None = None
    api_key: str | None = None
    models: "Mapping[str, str | Model | ModelSettings]" = field(default_factory=dict)
    workspace: str | Path | None = None
    repo: str | Path | None = None
    limits: Limits = field(default_factory=Limits)
    callbacks: Callbacks = field(default_factory=Callbacks)
    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


async def run_flow(
    flow: Flow,
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
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> FlowResult:
    """Runs a flow to its end.

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
        now=now,
        sleep=sleep,
    )
    return await FlowRun(flow, request).result()


def run_flow_sync(flow: Flow, **options: Any) -> FlowResult:
    """The same for scripts. ConfigError inside a running event loop: await `run_flow` there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_flow(flow, **options))
    raise ConfigError("run_flow_sync cannot be called in a running event loop: await run_flow instead.")


async def _open_models(
    stack: AsyncExitStack, compiled: CompiledFlow, request: RunRequest
) -> tuple[dict[str | None, Model], dict[str | None, ModelSettings]]:
    models: dict[str | None, Model] = {}
    settings: dict[str | None, ModelSettings] = {}
    for name in dict.fromkeys((None, *(leaf.model for leaf in compiled.flow.leaves()))):
        default = request.model or os.environ.get("HEADGATE_MODEL")
        given = default if name is None else request.models.get(name, name)
        if given is None:
            raise ConfigError(
                "A flow needs a model: give `model`, such as openai/qwen3-coder, or set HEADGATE_MODEL."
            )
        if not isinstance(given, str | ModelSettings):
            price = given.price if isinstance(given, ScriptedModel) else Price()
            models[name], settings[name] = given, ModelSettings(model=given.name, price=price)
            continue
        known = request.api_key or os.environ.get("HEADGATE_API_KEY")
        key = SecretStr(known) if known else None
        address = request.base_url or os.environ.get("HEADGATE_BASE_URL")
        asked = (
            given
            if isinstance(given, ModelSettings)
            else ModelSettings(model=given, base_url=address, api_key=key)
        )
        models[name], settings[name] = await stack.enter_async_context(open_configured_model(asked))
    return models, settings


async def _call(function: Callable[..., Any] | None, *arguments: Any) -> None:
    if function is None:
        return
    try:
        answer = function(*arguments)
        if inspect.isawaitable(answer):
            await answer
    except Exception:
        _logger.exception("A callback of a flow failed.")


def _drop(text: str) -> str:
    return "not kept"

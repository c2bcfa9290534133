"""What a flow is run with: its models above all."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import field
from pathlib import Path
from typing import TypedDict

from headgate.config import assemble
from headgate.core import Flow, Limits, Model, ModelSettings, unknown_name
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.library.callbacks import Callbacks
from headgate.library.checkpoints import Checkpoint
from headgate.models import given_settings, open_configured_model


class RunOptions(TypedDict, total=False):
    """The options of a run. None is the same as nothing."""

    model: "str | Model | ModelSettings | None"
    """A name such as `openai/qwen3-coder`, or a model object; without one, HEADGATE_MODEL and
    HEADGATE_BASE_URL count."""
    input: str
    base_url: str | None
    api_key: str | None
    models: "Mapping[str, str | Model | ModelSettings] | None"
    """Further models, which stages name."""
    workspace: str | Path | None
    """A folder that the file tools work in; without it and without `repo` there are no files."""
    repo: str | Path | None
    """A git repository, in which the flow is a task."""
    log: str | Path | None
    """A new file that the log is written to; without it, the log is in memory."""
    limits: Limits | None
    callbacks: Callbacks | None
    checkpoint: Checkpoint | None
    session_id: str
    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a flow is run with: the options, and what holds where they say nothing."""

    input: str = ""
    model: "str | Model | ModelSettings | None" = None
    base_url: str | None = None
    api_key: str | None = None
    models: "Mapping[str, str | Model | ModelSettings]" = field(default_factory=dict)
    workspace: str | Path | None = None
    repo: str | Path | None = None
    log: str | Path | None = None
    limits: Limits = field(default_factory=Limits)
    checkpoint: Checkpoint | None = None
    session_id: str = ""
    callbacks: Callbacks = field(default_factory=Callbacks)
    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @classmethod
    def of(cls, options: RunOptions) -> "RunRequest":
        """ConfigError if there is no such option, or one is something else than it should be."""
        for name in options.keys() - RunOptions.__annotations__.keys():
            raise ConfigError(unknown_name("option", name, RunOptions.__annotations__))
        given = {name: value for name, value in options.items() if value is not None}
        for name, wanted in _TYPES.items():
            if name in given and not isinstance(given[name], wanted):
                raise ConfigError(f"`{name}` must be a {wanted.__name__}, not {given[name]!r}.")
        return cls(**given)  # type: ignore[arg-type]

    @property
    def saves(self) -> bool:
        """Whether there is a checkpoint."""
        return self.checkpoint is not None and self.checkpoint.enabled


_TYPES: dict[str, type] = {
    "input": str,
    "session_id": str,
    "models": Mapping,
    "limits": Limits,
    "callbacks": Callbacks,
    "checkpoint": Checkpoint,
}


async def open_models(
    stack: AsyncExitStack, flow: Flow, request: RunRequest
) -> tuple[dict[str | None, Model], dict[str | None, ModelSettings]]:
    models: dict[str | None, Model] = {}
    settings: dict[str | None, ModelSettings] = {}
    for name in flow.models:
        default = request.model or os.environ.get("HEADGATE_MODEL")
        given = default if name is None else request.models.get(name, name)
        if name is not None and name not in request.models and "/" not in name and ":" not in name:
            raise ConfigError(
                f'A stage names the model "{name}", which `models` does not have: give'
                f' models={{"{name}": ...}}, or write it as openai/NAME, ollama/NAME or anthropic/NAME.'
            )
        if given is None:
            raise ConfigError(
                "A flow needs a model: give `model`, such as openai/qwen3-coder, or set HEADGATE_MODEL."
            )
        if not isinstance(given, str | ModelSettings):
            if not hasattr(given, "name"):
                raise ConfigError(f"A model is a name such as openai/qwen3-coder, not {given!r}.")
            models[name], settings[name] = given, given_settings(given)
            continue
        asked = given if isinstance(given, ModelSettings) else _settings_of(given, request)
        models[name], settings[name] = await stack.enter_async_context(open_configured_model(asked))
    return models, settings


def _settings_of(model: str, request: RunRequest) -> ModelSettings:
    """A model by its name, with the address and the key that the request or the environment has for it."""
    environ = {**os.environ, **({"HEADGATE_API_KEY": request.api_key} if request.api_key else {})}
    flags = {"model": model, "base_url": request.base_url}
    return assemble((), environ, flags).config.model_settings(None)

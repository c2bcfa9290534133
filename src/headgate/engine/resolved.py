"""What a task is carried out with: configuration, package, flow and models, found once and passed on.

Whoever submits a task resolves its configuration and stores it as a pin. If the same process carries the task
out, it uses the same object. Another process makes it once, from the pin.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headgate.config import Config, Loaded, config_files, load_config, unpin
from headgate.core import Flow, Model, Options, State, Task, parse_task_text, show_path
from headgate.engine.flow_models import (
    PARTS,
    FlowModel,
    FlowParts,
    check_models,
    choose_flow,
    find_models,
    steps_run,
)
from headgate.errors import ConfigError
from headgate.store import Folder
from headgate.workspace import internal_name


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """What one task is carried out with."""

    loaded: Loaded
    """The configuration and where it came from. Its package, if it has one, is a canonical path."""
    flow: Flow
    models: tuple[FlowModel, ...]
    """The models that the flow's stages ask, with the addresses of their servers."""
    parts: FlowParts
    """What the flow may name besides tools."""

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def servers(self) -> tuple[tuple[str, str], ...]:
        """Each model with its server's address; a script has none."""
        return tuple(dict.fromkeys((model.settings.model, model.address) for model in self.models))

    def task_fields(self, repo: Path, options: Options) -> dict[str, Any]:
        """The fields of a task that depend on the configuration."""
        return {
            "package": self.config.package,
            "config_files": config_files(repo, self.loaded, config=options.config, flow=options.flow),
            "models": self.servers,
            "steps": steps_run(self.loaded, self.flow),
        }


def load_options(repo: Path, options: Options, environ: Mapping[str, str]) -> Loaded:
    """The configuration for a task: what was asked for with it, over what this process finds."""
    file = Path(options.config) if options.config else None
    return load_config(repo, config_file=file, environ=environ, flags=_flags(options))


def _flags(options: Options) -> dict[str, str | None]:
    return options.model_dump(include={"model", "base_url", "flow", "package"})


class ConfigReader:
    """Reads the configuration for the tasks of one command: once, unless options ask for another one."""

    def __init__(self, repo: Path, environ: Mapping[str, str]) -> None:
        self._repo, self._environ = repo, environ
        self._read: dict[tuple[str | None, ...], Loaded] = {}

    def __call__(self, options: Options) -> Loaded:
        key = (options.config, *_flags(options).values())
        if key not in self._read:
            self._read[key] = load_options(self._repo, options, self._environ)
        return self._read[key]


def resolve(
    loaded: Loaded,
    options: Options,
    request: str,
    folder: Folder,
    given: Mapping[str | None, Model],
    parts: FlowParts = PARTS,
) -> ResolvedConfig:
    """What a new task is to be carried out with; ConfigError if something of it cannot be used.

    `given` are models that take the place of the configuration's.
    """
    config = resolve_package(folder.repo, loaded.config, "--package" if options.package else "")
    loaded = replace(loaded, config=config)
    flow = choose_flow(loaded, options, folder, request, parts)
    models = find_models(config, flow, given)
    check_models(models, loaded, folder.repo)
    return ResolvedConfig(loaded, flow, models, parts)


def resolve_stored(
    task: Task,
    pin: str,
    state: State,
    present: Loaded | None,
    folder: Folder,
    given: Mapping[str | None, Model],
    parts: FlowParts = PARTS,
) -> ResolvedConfig:
    """What a task is carried out with that another process submitted: what its pin and its log say.

    `present` is the configuration to use instead of the pinned one. Versions before this one stored no pin:
    their tasks need it.
    """
    flow = state.flow
    if pin:
        unpinned = unpin(pin, os.environ, _flags(task))
        loaded, flow = present or unpinned.loaded, flow or unpinned.flow
    else:
        assert present is not None
        loaded = present
        flow = flow or choose_flow(loaded, task, folder, parse_task_text(task.text).request, parts)
    models = find_models(loaded.config, flow, given)
    recorded = replace(loaded, config=as_recorded(loaded.config, state.config))
    return ResolvedConfig(recorded, flow, models, parts)


def as_recorded(config: Config, recorded: Mapping[str, Any]) -> Config:
    """The configuration of a resumed task: the recorded one, except for how models are reached."""
    if not recorded:
        return config
    begun = Config.model_validate(recorded)
    kept = set(Config.model_fields) - {"model", "base_url", "api_key", "models"}
    return config.model_copy(update={name: getattr(begun, name) for name in kept})


def resolve_package(repo: Path, config: Config, source: str = "") -> Config:
    """The configuration with the package that tasks write in, if it names one, as a canonical path.

    ConfigError if the configuration, or the option `source`, names something that is no directory of this
    repository.
    """
    named = config.package
    if named is None:
        return config
    said = source or "agent.yaml: monorepo.package"
    root = Path(os.path.realpath(repo))
    try:
        place = Path(os.path.realpath(root / named))
        package = place.relative_to(root).as_posix()
        if not place.exists():
            raise ConfigError(f"{said}: there is no directory {named}.")
        if not place.is_dir():
            raise ConfigError(f"{said}: {named} is a file; name the package's directory.")
    except ValueError:
        raise ConfigError(f"{said}: {show_path(named)} points outside the repository.") from None
    if package == ".":
        raise ConfigError(f"{said} is the repository itself: name a directory in it, or leave it out.")
    if internal_name(package):
        raise ConfigError(f"{said}: {named} is not a package.")
    return config.with_package(package)

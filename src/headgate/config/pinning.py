"""What a task is submitted with: the files as they were read, the environment's choices, and its flow.

It is stored with the task, so that no file of the configuration is read again when the task's turn comes.
API keys are never stored. Nor are headers and request fields from files outside the repository, since they
may hold keys. They are read again from where they were, and only for the server they were written for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from headgate.config.endpoint import Layer, env_value
from headgate.config.load import Loaded, assemble
from headgate.config.schema import provider_of
from headgate.config.yamlfile import Document, read_yaml
from headgate.core.flow import Flow
from headgate.errors import ConfigError

CHOICES = ("HEADGATE_MODEL", "HEADGATE_BASE_URL", "OPENAI_BASE_URL")
"""Environment variables that are part of what a task is submitted with."""
_SECRET = ("api_key", "headers", "extra_body")


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PinnedFile(_Stored):
    """A configuration file as it was read."""

    name: str
    path: str
    by_repository: bool
    data: dict[str, Any]
    withheld: tuple[str, ...] = ()
    """The models whose keys and the like are still in the file; an empty name is the file's own top level."""


class Pin(_Stored):
    """What a task is submitted with."""

    files: tuple[PinnedFile, ...] = ()
    environ: dict[str, str] = {}
    flow: Flow


@dataclass(frozen=True, slots=True)
class Settled:
    """What a task runs with."""

    loaded: Loaded
    flow: Flow


def pin(loaded: Loaded, flow: Flow, repo: Path, environ: Mapping[str, str]) -> str:
    """What a task is submitted with, as text that can be stored."""
    files = tuple(_pin_file(layer, repo) for layer in loaded.layers)
    chosen = {name: value for name in CHOICES if (value := env_value(environ, name))}
    return Pin(files=files, environ=chosen, flow=flow).model_dump_json(exclude_defaults=True)


def unpin(text: str, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Settled:
    """What a task runs with, with the keys that this process has. ConfigError where that is not possible."""
    try:
        stored = Pin.model_validate_json(text)
    except ValidationError:
        raise ConfigError(
            "Another version of Headgate stored the task's configuration, and this one cannot read it: "
            "submit the task again."
        ) from None
    layers = [_unpin_file(file) for file in stored.files]
    others = {name: value for name, value in environ.items() if name not in CHOICES}
    return Settled(assemble(layers, {**others, **stored.environ}, flags), stored.flow)


def _pin_file(layer: Layer, repo: Path) -> PinnedFile:
    inside = layer.path.resolve().is_relative_to(repo.resolve())
    secret = _SECRET[:1] if inside else _SECRET
    data, withheld = _without(layer.document.data, secret), []
    if data != layer.document.data:
        withheld.append("")
    if models := data.get("models"):
        data["models"] = {name: _without(entry, secret) for name, entry in models.items()}
        withheld += [name for name, entry in models.items() if entry != data["models"][name]]
    return PinnedFile(
        name=layer.document.name,
        path=str(layer.path.absolute()),
        by_repository=layer.by_repository,
        data=data,
        withheld=tuple(withheld),
    )


def _unpin_file(file: PinnedFile) -> Layer:
    data = {**file.data}
    if file.withheld:
        now = read_yaml(Path(file.path), file.name).data
        data = {**data, **_withheld(file, "", now)}
        if "models" in data:
            data["models"] = {
                name: {**entry, **_withheld(file, name, now)} for name, entry in data["models"].items()
            }
    return Layer(Document(file.name, data), file.by_repository, Path(file.path))


def _withheld(file: PinnedFile, model: str, now: Mapping[str, Any]) -> dict[str, Any]:
    """The secret settings of one model, or of the top level, if they are still meant for the same server."""
    if model not in file.withheld:
        return {}
    before = _entry(file.data, model)
    after = _entry(now, model)
    if _server(before) != _server(after):
        which = f'the model "{model}"' if model else "the model's server"
        raise ConfigError(
            f"{file.name} has changed {which} since the task was submitted, and the key is "
            "not stored: submit the task again."
        )
    return {name: after[name] for name in _SECRET if name in after and name not in before}


def _entry(data: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    entry = data.get("models", {}).get(model, {}) if model else data
    return entry if isinstance(entry, Mapping) else {}


def _server(entry: Mapping[str, Any]) -> tuple[str, Any]:
    return provider_of(str(entry.get("model", ""))), entry.get("base_url")


def _without(entry: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in names}

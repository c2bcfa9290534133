"""What a task is submitted with: the files as they were read, the environment's choices, and its flow.

It is stored with the task, so that no file of the configuration is read again when the task's turn comes.
API keys are never stored. Nor are headers and request fields, since they may hold keys. They are read again
from where they were, and only for the server they were written for.
A key in the environment goes only to a server that the environment of the same process chooses.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from headgate.config.endpoint import KEY_VARIABLES, Layer, env_value, has_login, show_address
from headgate.config.flows import builtin_flows
from headgate.config.load import CONFIG_NAMES, Loaded, assemble
from headgate.config.schema import provider_of
from headgate.config.stage_forms import FLOW_SUFFIXES, expand_stages
from headgate.config.yaml_files import Document, read_yaml
from headgate.core import COMMANDS_FOLDER, Flow, ModelSettings
from headgate.errors import ConfigError
from headgate.remembered import user_config_path

CHOICES = ("HEADGATE_MODEL", "HEADGATE_BASE_URL", "OPENAI_BASE_URL", "OLLAMA_HOST")
"""Environment variables that are part of what a task is submitted with."""
_SECRET = ("api_key", "headers", "extra_body")


class PinnedFile(BaseModel, frozen=True, extra="forbid"):
    """A configuration file as it was read."""

    name: str
    path: str
    by_repository: bool
    data: dict[str, Any]
    withheld: dict[str, tuple[str, ...]] = {}
    """The settings of each model that are only in the file; an empty name is the file's own top level."""


class Pin(BaseModel, frozen=True, extra="forbid"):
    """What a task is submitted with."""

    files: tuple[PinnedFile, ...] = ()
    environ: dict[str, str] = {}
    uses_env_keys: bool = False
    """Whether a model of the flow got its key from the environment when the task was submitted."""
    flow: Flow


class Unpinned(NamedTuple):
    """The configuration and the flow of a pin."""

    loaded: Loaded
    flow: Flow


def pin(loaded: Loaded, flow: Flow, environ: Mapping[str, str]) -> str:
    """What a task is submitted with, as text that can be stored."""
    chosen = {name: value for name in CHOICES if (value := env_value(environ, name))}
    for name, value in chosen.items():
        if name != "HEADGATE_MODEL":
            _check_address(name, value)
    files = tuple(_pin_file(layer) for layer in loaded.layers)
    stored = Pin(
        files=files, environ=chosen, uses_env_keys=bool(_sent_keys(loaded, flow, environ)), flow=flow
    )
    return stored.model_dump_json(exclude_defaults=True)


def unpin(text: str, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Unpinned:
    """The configuration and the flow of a task, with the keys that this process has for it.

    ConfigError where that is not possible.
    """
    try:
        stored = Pin.model_validate_json(text)
    except ValidationError:
        raise ConfigError(
            "Another version of Headgate stored the task's configuration, and this one cannot read it: "
            "submit the task again."
        ) from None
    layers = [_unpin_file(file) for file in stored.files]
    return Unpinned(_with_own_keys(stored, layers, environ, flags), stored.flow)


def _with_own_keys(
    stored: Pin, layers: Sequence[Layer], environ: Mapping[str, str], flags: Mapping[str, Any]
) -> Loaded:
    """The configuration with those of this process's keys that it would itself send to the same server.

    ConfigError if the task needs a key from the environment and this process has one for another server.
    """
    own, withheld = dict(environ), set[tuple[str, str | None]]()
    while True:
        others = {name: value for name, value in own.items() if name not in CHOICES}
        loaded = assemble(layers, {**others, **stored.environ}, flags)
        sent = _sent_keys(loaded, stored.flow, own)
        # The provider's own key may always go to the provider's own server.
        sent = {(name, url) for name, url in sent if url is not None or name == "HEADGATE_API_KEY"}
        if sent:
            sent -= _keys_of_this_process(stored, layers, own, flags)
        if not sent:
            break
        withheld |= sent
        own = _without(own, tuple(name for name, _ in sent))
    bare = {one.base_url for one in _models(loaded, stored.flow) if one.api_key is None}
    missing = sorted(((name, url) for name, url in withheld if url in bare), key=str)
    if missing and stored.uses_env_keys:
        name, url = missing[0]
        server = show_address(url) if url else "the provider's own server"
        raise ConfigError(
            f"{name} is not sent to {server}, which the task was submitted for, because this process's "
            "environment chooses another server: resume the task in a shell whose environment chooses "
            "that one."
        )
    return loaded


def _keys_of_this_process(
    stored: Pin, layers: Sequence[Layer], environ: Mapping[str, str], flags: Mapping[str, Any]
) -> set[tuple[str, str | None]]:
    """Where this process would send its keys if the same task, with the same model, were submitted here."""
    model = {"HEADGATE_MODEL": stored.environ.get("HEADGATE_MODEL", "")}
    try:
        return _sent_keys(assemble(layers, {**environ, **model}, flags), stored.flow, environ)
    except ConfigError:  # its own choices make no configuration, so they choose no server either
        return set()


def _sent_keys(loaded: Loaded, flow: Flow, environ: Mapping[str, str]) -> set[tuple[str, str | None]]:
    """The variables whose keys the flow's models get, each with the server's address (None: the default)."""
    found: set[tuple[str, str | None]] = set()
    for settings in _models(loaded, flow):
        key = settings.api_key.get_secret_value() if settings.api_key else ""
        names = [name for name in KEY_VARIABLES if key and env_value(environ, name) == key]
        found |= {(name, settings.base_url) for name in names}
    return found


def _models(loaded: Loaded, flow: Flow) -> Iterator[ModelSettings]:
    for model in flow.models:
        with suppress(ConfigError):  # opening the model says what is wrong with it
            yield loaded.config.model_settings(model)


def _check_address(name: str, text: str) -> None:
    if has_login(text):
        raise ConfigError(f"{name} must hold no user name or password; use api_key or headers.")


def _pin_file(layer: Layer) -> PinnedFile:
    data = {**layer.document.data}
    entries = {"": data, **data.get("models", {})}
    for entry in entries.values():
        _check_address(f"The setting base_url in {layer.document.name}", str(entry.get("base_url", "")))
    withheld = {
        model: tuple(name for name in _SECRET if name in entry)
        for model, entry in entries.items()
        if any(name in entry for name in _SECRET)
    }
    data = _without(data, _SECRET)
    if "models" in data:
        data["models"] = {name: _without(entry, _SECRET) for name, entry in data["models"].items()}
    return PinnedFile(
        name=layer.document.name,
        path=str(layer.path.absolute()),
        by_repository=layer.by_repository,
        data=data,
        withheld=withheld,
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
    return {name: after[name] for name in file.withheld[model] if name in after}


def _entry(data: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    entry = data.get("models", {}).get(model, {}) if model else data
    return entry if isinstance(entry, Mapping) else {}


def _server(entry: Mapping[str, Any]) -> tuple[str, Any]:
    return provider_of(str(entry.get("model", ""))), entry.get("base_url")


def _without(entry: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in names}


# Which files of a repository configure Headgate: no task may write them unless the configuration says so.


_MAX_LINKS = 40


def _recipe_files(repo: Path, folders: Iterable[str]) -> Iterator[str]:
    """The paths of the repository's own recipes, which no task may change."""
    for name in folders:
        folder = repo / name
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.endswith((*FLOW_SUFFIXES, ".md")):
                yield PurePosixPath(name, path.name).as_posix()


def config_files(
    repo: Path, loaded: Loaded, *, config: str | None = None, flow: str | None = None
) -> tuple[str, ...]:
    """Paths in the repository of every file that configures Headgate, whether it is there or not.

    `config` and `flow` were named for one task. A symlink counts as well as what it leads to.
    """
    if loaded.config.allow_config_edits:
        return ()
    root = Path(os.path.realpath(repo))
    own = [str(user_config_path()), *(str(layer.path) for layer in loaded.layers)]
    named = [*CONFIG_NAMES, *own, *([config] if config else []), *_flow_files(flow)]
    named += _recipe_files(root, loaded.config.recipes)
    for document in loaded.documents:
        named += _flow_files(document.data.get("flow"))
    if config:
        named += _flows_of_the_repository(root)
    paths = [path for name in named for path in _paths_through_links(root, name)]
    own_folders = (*loaded.config.recipes, COMMANDS_FOLDER)
    folders = [path for name in own_folders for path in _paths_through_links(root, name)]
    return tuple(dict.fromkeys([*paths, *folders, *(f"{path}/" for path in folders)]))


def repository_source(repo: Path, loaded: Loaded, flow: str | None, model: str | None) -> str:
    """The file of the repository that names a flow's model, or its server; empty if none does.

    `flow` was named for one task, and `model` is what a stage says; None is the default.
    """
    own = next((layer.document.name for layer in loaded.layers if layer.by_repository), "")
    if model is None or model in loaded.config.models:
        return own
    naming = next((layer for layer in reversed(loaded.layers) if "flow" in layer.document.data), None)
    named = flow or (naming.document.data["flow"] if naming else None)
    root = Path(os.path.realpath(repo))
    inside = [path for path in _flow_files(named) if list(_paths_through_links(root, path))]
    if isinstance(named, list) and any(
        isinstance(one, Mapping) and one.get("model") == model for one in named
    ):
        inside = []  # the stage is in the configuration itself
    by_repository = not flow and naming is not None and naming.by_repository
    return inside[0] if inside else own if by_repository else ""


def _flows_of_the_repository(root: Path) -> Iterator[str]:
    """The flow files that the repository's own configuration names, where another one is used."""
    for name in CONFIG_NAMES:
        try:
            data: Mapping[str, Any] = read_yaml(root / name, name).data
        except ConfigError:  # it is not there, or names nothing that could be read
            continue
        yield from _flow_files(data.get("flow"))


def _flow_files(flow: Any) -> Iterator[str]:
    """The files that a `flow` setting names."""
    if isinstance(flow, str):
        is_file = "/" in flow or flow.endswith(FLOW_SUFFIXES)
        yield from [flow] if is_file and flow not in builtin_flows() else []
    elif isinstance(flow, list):
        for stage in expand_stages(flow):
            if isinstance(stage, Mapping) and isinstance(stage.get("file"), str):
                yield stage["file"]


def _paths_through_links(root: Path, name: str) -> Iterator[str]:
    inside, path = f"{root}/", os.path.normpath(root / name)
    path = path if path.startswith(inside) else os.path.realpath(path)
    for _ in range(_MAX_LINKS):
        if not path.startswith(inside):
            return
        # The directories between the root and the path, the outermost first, and the path itself.
        above = accumulate(path.removeprefix(inside).split("/"), "{}/{}".format)
        found = next((place for place in above if Path(inside, place).is_symlink()), None)
        yield found or path.removeprefix(inside)
        if found is None:
            return
        link = Path(inside, found)
        path = os.path.normpath(f"{link.parent / link.readlink()}/{path.removeprefix(inside + found)}")

"""Putting the configuration together: defaults < user file < agent.yaml < environment < flags.

The repository is not trusted: its `agent.yaml` may name a server, but a key of the user's own is not sent to
one that only the repository names, and the file cannot hand the model's keys to the commands it runs.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from headgate.config.endpoint import (
    KEY_VARIABLES,
    PROVIDER_KEYS,
    Layer,
    address_problem,
    choose_endpoint,
    chosen_servers,
    describe_keys,
    env_value,
    has_login,
    login_problem,
    ollama_address,
)
from headgate.config.schema import NO_MODEL, Access, Config
from headgate.config.trust import check_trust
from headgate.config.yaml_files import Document, Place, explain, read_yaml
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.remembered import user_config_path
from headgate.tree import leads_out

CONFIG_NAME = "agent.yaml"
CONFIG_NAMES = (CONFIG_NAME, "agent.yml", "agent.json")
"""The files that a repository may be configured by: one of them, in its root."""
FLAGS = {"model": "--model", "base_url": "--base-url", "flow": "--flow"}
_KEYS = frozenset(Config.model_fields)


@dataclass(frozen=True)
class Loaded:
    """The configuration and where it came from."""

    config: Config
    sources: tuple[str, ...]
    """Files, environment variables and flags that were used, weakest first."""
    notes: tuple[str, ...] = ()
    """What the user should know, such as a key that was withheld."""
    layers: tuple[Layer, ...] = ()
    """The files as they were read, weakest first."""
    chosen: frozenset[str] = frozenset()
    """The servers that the user names, not only the repository, in the form of `same_server`."""

    @property
    def documents(self) -> tuple[Document, ...]:
        """What the files hold, for messages with line numbers."""
        return tuple(layer.document for layer in self.layers)


def load_config(
    repo: Path,
    *,
    config_file: Path | None = None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    user_file: Path | None = None,
) -> Loaded:
    """The configuration for a repository. `config_file` takes the place of the repository's agent.yaml."""
    return assemble(_read_layers(repo, config_file, user_file or user_config_path()), environ, flags)


def assemble(layers: Sequence[Layer], environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """The configuration that files, weakest first, the environment and the flags make together."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer.document.data)
    if any(layer.by_repository for layer in layers):
        own = [layer.document.data for layer in layers if not layer.by_repository]
        merged |= _kept_for_user(own, merged)
    sources = [layer.document.name for layer in layers]
    if model := env_value(environ, "HEADGATE_MODEL"):
        merged["model"] = model
        sources.append("HEADGATE_MODEL")
    given = {name: flags[name] for name in FLAGS if flags.get(name) is not None}
    for name, value in given.items():
        if not str(value).strip():
            raise ConfigError(f"The option {FLAGS[name]} needs a value.")
        if name == "base_url" and has_login(str(value)):
            raise ConfigError(
                "The option --base-url must hold no user name or password; use api_key or headers."
            )
    merged |= given
    if flags.get("package") is not None:
        merged["monorepo"] = {"package": flags["package"]}
        sources.append("--package")
    endpoint = choose_endpoint(merged, layers, environ, given.get("base_url"))
    sources += [source for source in endpoint.sources if source not in sources]
    sources += [FLAGS[name] for name in given]
    merged |= {"base_url": endpoint.base_url, "api_key": endpoint.api_key}
    if merged.get("model") in merged.get("models", {}):
        entry = {**merged["models"][merged["model"]]}
        entry |= {"base_url": endpoint.base_url, "api_key": endpoint.api_key}
        merged["models"] = {**merged["models"], merged["model"]: entry}
    try:
        config = Config.model_validate(merged)
    except ValidationError as error:
        raise explain(error, Document("The configuration", merged), Config) from None
    if config.research.backend == "searxng" and not config.research.url:
        raise ConfigError('"research: {backend: searxng}" needs `url`, such as http://localhost:8080.')
    return Loaded(
        config.with_access(_access(environ), _explain_no_model(layers, environ)),
        tuple(sources),
        endpoint.notes,
        tuple(layers),
        chosen_servers(layers, environ, given),
    )


def merge(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Key by key, also inside the keys that are listed here; all else is replaced as a whole."""
    merged = {**weaker, **stronger}
    for key in ("models", "commands", "verification", "research"):
        if isinstance(weaker.get(key), Mapping) and isinstance(stronger.get(key), Mapping):
            merged[key] = {**weaker[key], **stronger[key]}
    return merged


def _kept_for_user(own: Sequence[Mapping[str, Any]], merged: Mapping[str, Any]) -> dict[str, Any]:
    """What the user has closed or limited. A repository's file adds to it, and takes nothing away.

    The user's patterns come last, because the last one that matches decides.
    """
    kept: dict[str, Any] = {}
    for key in ("boundaries", "secret_files", "test_paths"):
        if users := dict.fromkeys(item for data in own for item in data.get(key, ())):
            added = [item for item in merged.get(key, ()) if item not in users]
            kept[key] = [*added, *users]
    users_limits = [data["limits"] for data in own if data.get("limits")]
    if users_limits:
        asked = merged.get("limits", {})
        limits = {**asked, **{key: most for key, most in users_limits[-1].items() if most is not None}}
        kept["limits"] = {
            key: most if asked.get(key) is None else min(most, asked[key]) for key, most in limits.items()
        }
    return kept


def _read_layers(repo: Path, config_file: Path | None, user_file: Path) -> list[Layer]:
    layers: list[Layer] = []
    if _present(user_file):
        document = _read(user_file, str(user_file))
        if document.data.get("allow_config_edits"):  # a command of a task can write this file
            raise document.error(
                ("allow_config_edits",),
                "allow_config_edits belongs in the repository's agent.yaml or a file given with --config: "
                "remove it here.",
            )
        layers.append(Layer(document, False, user_file))
    if config_file is not None:
        layers.append(Layer(_read(config_file, str(config_file)), False, config_file))
        return layers
    found = find_configs(repo)
    if len(found) > 1:
        raise ConfigError(
            f"The repository has {' and '.join(found)}, and only one of them can be used: "
            "remove one, or name the right one with --config."
        )
    for name in found:
        document = _read(repo / name, name)
        for index, variable in enumerate(document.data.get("shell_env", [])):
            if variable in KEY_VARIABLES:
                raise document.error(
                    ("shell_env", index),
                    f"a repository's file may not pass on {variable}; name it in {user_file}.",
                )
        for index, folder in enumerate(document.data.get("worktree", {}).get("link", ())):
            if leads_out(repo, folder):
                said = f"{folder} leads out of the repository: leave it out"
                raise document.error(("worktree", "link", index), said)
        check_trust(document, layers[0].document.data if layers else {}, user_file)
        layers.append(Layer(document, True, repo / name))
    return layers


def find_configs(repo: Path) -> list[str]:
    """The names of the configuration files that a repository has."""
    return [name for name in CONFIG_NAMES if _present(repo / name)]


def _present(path: Path) -> bool:
    """Whether there is something to read; what cannot be looked at is there, and reading it says why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _read(path: Path, name: str) -> Document:
    """One file, valid by itself. A key without a value counts as absent."""
    document = read_yaml(path, name)
    kept = {key: value for key, value in document.data.items() if value is not None or key not in _KEYS}
    document = replace(document, data=kept)
    try:
        config = Config.model_validate(kept)
    except ValidationError as error:
        raise explain(error, document, Config) from None
    addresses: dict[Place, str | None] = {("base_url",): config.base_url}
    addresses |= {("models", name, "base_url"): entry.base_url for name, entry in config.models.items()}
    for place, address in addresses.items():
        if address is not None and (problem := address_problem(address)):
            raise document.error(place, f'"base_url" {problem}')
    searching = config.research.url
    if searching is not None and (problem := address_problem(searching) or login_problem(searching)):
        raise document.error(("research", "url"), f'"research.url" {problem}')
    return document


def _explain_no_model(layers: Sequence[Layer], environ: Mapping[str, str]) -> str:
    """What to do where no model is configured: it depends on the files and the keys that are there."""
    last = layers[-1] if layers else None
    is_given = last is not None and (last.by_repository or last.path != user_config_path())
    file = last.document.name if last and is_given else CONFIG_NAME
    said = NO_MODEL.format(file=file)
    if file != CONFIG_NAME:
        return said  # `headgate init` writes only that one
    advice = " ".join(filter(None, describe_keys(environ)))
    return f"{said} {advice or '`headgate init` looks for models on this machine.'}"


def _access(environ: Mapping[str, str]) -> dict[str, Access]:
    """What the environment says about each provider, for models other than the default."""
    addresses = {"openai": env_value(environ, "OPENAI_BASE_URL")}
    with suppress(ConfigError):  # what is wrong with it matters only to those who use it
        addresses["ollama"] = ollama_address(environ)
    keys = {provider: env_value(environ, variable) for provider, variable in PROVIDER_KEYS.items()}
    return {
        provider: Access(addresses.get(provider), SecretStr(key) if key else None)
        for provider, key in keys.items()
    }

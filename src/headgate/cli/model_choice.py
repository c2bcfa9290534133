"""Which model `headgate init` writes into agent.yaml: the one that was named, else one on this machine.

The code of a repository goes to a hosted service only if a person named that service or one of its models. A
key in the environment is not enough.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.config import (
    describe_keys,
    env_value,
    ollama_address,
    parse_yaml,
    provider_of,
    read_yaml,
    show_address,
    unknown_model,
    user_config_path,
)
from headgate.core import ModelSettings, is_openai_name
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.models import DEFAULT_URLS, explain_local_name, find_endpoint
from headgate.models.network import USUAL_ADDRESSES, FoundModel, FoundServer, rank_models

ADDRESSES_VARIABLE = "HEADGATE_SERVERS"
Look = Callable[[Sequence[tuple[str, str]]], list[FoundServer]]
Ask = Callable[[Sequence[FoundModel]], FoundModel]
_MOST_LISTED = 12


@dataclass(frozen=True)
class ModelChoice:
    """What agent.yaml gets, and what to say about it."""

    model: str | None = None
    base_url: str | None = None
    said: tuple[str, ...] = ()
    todo: str = ""
    """What is left to do before a task can run; empty if nothing is."""


def addresses_to_ask(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The addresses where a model server may be: HEADGATE_SERVERS, else the usual ones and OLLAMA_HOST."""
    if ADDRESSES_VARIABLE in environ:
        return [
            ("A model server", part.strip())
            for part in environ[ADDRESSES_VARIABLE].split(",")
            if part.strip()
        ]
    host = ollama_address(environ)
    return [(name, host if host and name == "Ollama" else address) for name, address in USUAL_ADDRESSES]


def choose_model(
    named: str | None, base_url: str | None, environ: Mapping[str, str], look: Look, ask: Ask | None
) -> ModelChoice:
    """The model that was named, or one that is there; `ask` lets a person choose, where one can be asked."""
    if named is not None:
        return _take_named(named, base_url, environ, look)
    if base_url is None and (elsewhere := _named_elsewhere(environ)):
        return ModelChoice(said=(elsewhere,))
    servers = look([("The model server", base_url)] if base_url else addresses_to_ask(environ))
    said = tuple(describe_server(server) for server in servers)
    models = rank_models(servers)
    if not models and base_url:
        raise ConfigError(
            f"No model server lists its models at {show_address(base_url)}: name one with --model."
        )
    if not models:
        return _without_server(servers, said, environ)
    if len(models) == 1:
        return _take(models[0], said)
    if ask:
        return _take(ask(models), said)
    others = f"To use another one: headgate init --model {models[1].spec}"
    return _take(models[0], (*said, f"Chose {models[0].spec}. {others}"))


def describe_server(server: FoundServer) -> str:
    """A server and its models, in one line."""
    names = [f"{model.name} (hosted)" if model.is_remote else model.name for model in server.models]
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    listed = f": {', '.join(names[:_MOST_LISTED])}{more}" if names else ""
    count = f"{len(names)} model{'s' * (len(names) != 1)}" if names else "no model yet"
    return f"Found {server.name} at {server.address} with {count}{listed}."


def _take(model: FoundModel, said: tuple[str, ...]) -> ModelChoice:
    return ModelChoice(model.spec, model.base_url, said)


def _take_named(named: str, base_url: str | None, environ: Mapping[str, str], look: Look) -> ModelChoice:
    provider = provider_of(named)
    if not provider and "/" in named:
        raise unknown_model(named)
    if provider == "script":
        return ModelChoice(named)
    if provider and base_url:
        find_endpoint(ModelSettings(model=named, base_url=base_url))
        return ModelChoice(named, base_url)
    if provider == "ollama":
        return _take_of_ollama(named, environ, look)
    for variable in ("HEADGATE_BASE_URL", "OPENAI_BASE_URL"):
        address = env_value(environ, variable)
        if provider == "openai" and address:
            return ModelChoice(named, said=(f"Its server is {show_address(address)} (from {variable}).",))
    name = named.partition("/")[2] if provider else named
    if provider == "anthropic" or (provider and is_openai_name(name)):
        root = DEFAULT_URLS["anthropic" if provider == "anthropic" else "openai"]
        return ModelChoice(named, said=(f"Tasks will send the code that they read to {root}.",))
    servers = look([("The model server", base_url)] if base_url else addresses_to_ask(environ))
    for model in (model for server in servers for model in server.models):
        if name in (model.name, model.name.removesuffix(":latest")):
            return _take(model, tuple(describe_server(server) for server in servers))
    raise ConfigError(explain_local_name(name)) if provider else unknown_model(named)


def _take_of_ollama(named: str, environ: Mapping[str, str], look: Look) -> ModelChoice:
    name = named.partition("/")[2]
    servers = [server for server in look(addresses_to_ask(environ)) if server.name == "Ollama"]
    if not servers:
        return ModelChoice(
            named, todo=f"Start Ollama with `ollama serve`, and get the model with `ollama pull {name}`."
        )
    for model in servers[0].models:
        if name in (model.name, model.name.removesuffix(":latest")):
            hosted = ("Ollama passes requests for this model on to a hosted service.",)
            return ModelChoice(named, model.base_url, hosted if model.is_remote else ())
    address = servers[0].models[0].base_url if servers[0].models else None
    said = (describe_server(servers[0]),)
    return ModelChoice(named, address, said, f"Get the model with `ollama pull {name}`.")


def _named_elsewhere(environ: Mapping[str, str]) -> str:
    """What says which model tasks use, other than agent.yaml."""
    if model := env_value(environ, "HEADGATE_MODEL"):
        return f"The model is {model} (from HEADGATE_MODEL)."
    path = user_config_path()
    model = read_yaml(path, str(path)).data.get("model") if path.is_file() else None
    return f"The model is {model} (from {path})." if model else ""


def _without_server(
    servers: Sequence[FoundServer], said: tuple[str, ...], environ: Mapping[str, str]
) -> ModelChoice:
    if servers:
        get = "Get a model, for example with `ollama pull qwen3:8b`"
        give = get if servers[0].name == "Ollama" else "Give the server a model"
        return ModelChoice(said=said, todo=f"{give}, and run headgate init again.")
    nothing = (
        "No model server answered on this machine. Headgate looked for Ollama, llama.cpp, vLLM and LM Studio."
    )
    keys, todo = describe_keys(environ)
    if keys:
        return ModelChoice(said=(nothing, keys), todo=todo)
    todo = (
        "Start a model server, for example Ollama with `ollama serve`. Get a model, for example with "
        "`ollama pull qwen3:8b`. Then run headgate init again, or name a model in agent.yaml. "
        "headgate demo shows a task without a model."
    )
    return ModelChoice(said=(nothing,), todo=todo)


PLACEHOLDER = "# model: ollama/qwen3-coder"
"""What `headgate init` writes where it has found no model."""


def quote(text: str) -> str:
    """A JSON string is a YAML string, whatever is in it."""
    return json.dumps(text)


def set_model(text: str, model: str, base_url: str | None) -> str | None:
    """The text with this model and this address; None where that cannot be done line by line."""
    lines = {"model": model, **({"base_url": base_url} if base_url else {})}
    before = parse_yaml(text, "agent.yaml").data
    wanted = {**{key: value for key, value in before.items() if key != "base_url"}, **lines}
    ending = "\r\n" if "\r\n" in text else "\n"
    if not base_url:
        text = _line("base_url", whole=True).sub("", text, count=1)
    for candidate in _with_model(text, model, ending):
        changed = _with_address(candidate, base_url, ending) if base_url else candidate
        if _says(changed, wanted):
            return changed
    return None


def _with_model(text: str, model: str, ending: str) -> list[str]:
    """The text with the model in its own line, or in the first line that is free."""
    line = f"model: {quote(model)}{ending}"
    if found := _line("model").search(text):
        return [_put(text, found, model)]
    if found := re.search(rf"^{re.escape(PLACEHOLDER)}[ \t]*(\r?\n|\Z)", text, re.MULTILINE):
        return [text[: found.start()] + line + text[found.end() :]]
    return [line + text, _ended(text, ending) + line]


def _with_address(text: str, base_url: str, ending: str) -> str:
    """The text with the address in its own line, or in a new one after the model."""
    if found := _line("base_url").search(text):
        return _put(text, found, base_url)
    written = f"base_url: {quote(base_url)}{ending}"
    return _line("model", whole=True).sub(lambda line: _ended(line[0], ending) + written, text, count=1)


def _put(text: str, found: re.Match[str], value: str) -> str:
    return f"{text[: found.start()]}{found['key']}: {quote(value)}{found['rest']}{text[found.end() :]}"


def _line(key: str, *, whole: bool = False) -> re.Pattern[str]:
    """A key at the left margin with a value on the same line; `whole` takes the line's end as well."""
    value = r"""(?:[ \t]+(?:"[^"\\\r\n]*"|'[^'\r\n]*'|[^\s#"'&*!|>{\[][^\r\n]*?))?"""
    end = r"[ \t]*(?:[ \t]#[^\r\n]*)?"
    stop = r"(?:\r?\n|\Z)" if whole else r"(?=\r?$)"
    return re.compile(rf"^(?P<key>{key}[ \t]*):{value}(?P<rest>{end}){stop}", re.MULTILINE)


def _ended(text: str, ending: str) -> str:
    return text if not text or text.endswith("\n") else text + ending


def _says(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return parse_yaml(text, "agent.yaml").data == wanted
    except ConfigError:
        return False

"""Changing the model in an existing agent.yaml without changing anything else."""

import json
import re
from collections.abc import Mapping
from typing import Any

from headgate.config import parse_yaml
from headgate.errors import ConfigError

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

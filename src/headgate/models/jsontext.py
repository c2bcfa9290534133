"""JSON to and from the wire: fast where the data is sound, forgiving where it is not."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from headgate.core.messages import clean_text

UNPARSED = "_unparsed"
"""The key under which arguments that are not a JSON object are handed back to a server."""


def encode_json(value: object) -> bytes:
    """Compact JSON. Lone surrogates become U+FFFD and integers may have any size."""
    try:
        return orjson.dumps(value, default=_plain)
    except orjson.JSONEncodeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
        return clean_text(text).encode()


def decode_json(data: str | bytes) -> Any:
    """The value of a JSON text; ValueError where it is none. Lone surrogate escapes and NaN may pass."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def mend_text(text: str) -> str:
    """Text that can be encoded: halves of a character that arrived separately are joined, strays replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments of a past call as an object: servers parse them again and fail on anything else."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    return value if isinstance(value, dict) else {UNPARSED: clean_text(text)}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")

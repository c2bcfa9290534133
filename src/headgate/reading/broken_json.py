"""JSON that a model wrote and that is slightly broken."""

import json
import re
from typing import Any

from headgate.first_use import regex

MOST_DEPTH = 64
_MOST_QUOTES = 2_000
# A string, which is kept as it is, or a comma before a closing bracket, which is dropped.
_TRAILING_COMMA = regex(r'("(?:\\.|[^"\\])*+")|,(\s*[}\]])', re.DOTALL)
_BRACKET = regex(r"[{}\[\]]")


def repair_json(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list that a slightly broken text means; None where that would be guesswork."""
    text = text.strip()
    if not text.startswith(("{", "[")) or _is_deep(text):
        return None
    try:
        value = json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or match[2], text), strict=False)
    except ValueError:
        if text.count('"') > _MOST_QUOTES:
            return None
        import json_repair  # twenty modules that a process with sound replies has no use for

        try:
            value = json_repair.loads(text, skip_json_loads=True, stream_stable=True)
        except (RecursionError, ValueError):
            return None
        if not value or not _is_faithful(text, value):
            return None
    return value if isinstance(value, dict if text[0] == "{" else list) else None


def _is_deep(text: str) -> bool:
    depth = deepest = 0
    for match in _BRACKET.finditer(text):
        depth += 1 if match[0] in "{[" else -1
        deepest = max(depth, deepest)
    return deepest > MOST_DEPTH


def _is_faithful(text: str, value: Any) -> bool:
    """Whether a repaired value says only what the text says: every string in it, every key with a colon."""
    match value:
        case dict():
            return all(
                re.search(re.escape(_quote(key)) + r"\\?[\"']?\s*:", text) is not None
                and _is_faithful(text, item)
                for key, item in value.items()
            )
        case list():
            return all(_is_faithful(text, item) for item in value)
        case str():
            # A word that stands in no quotes is no value: it was a value of another kind, or nothing.
            written = (value, _quote(value)) if value else ('"', "'")
            return any(f"{mark}{part}" in text for mark in "\"'" for part in written)
    return True


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]

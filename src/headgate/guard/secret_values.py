"""The values in a file with secrets: in JSON, YAML, TOML, lines such as `KEY=value`, and bare keys."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import yaml

from headgate.patterns import regex
from headgate.reading import word_set

MIN_LENGTH = 8
"""Characters of a value that is hidden in the middle of other text."""
_MIN_WORD = 4
_MAX_NODES = 20_000
_PAIR = regex(r"""^\s*(?:export\s+)?["']?([\w./:-]+?)["']?\s*[=:]\s*(.+?)\s*,?\s*$""", re.MULTILINE)
_QUOTED = regex(
    r"""^\s*(?:export\s+)?([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|`([^`]*)`)""",
    re.MULTILINE | re.DOTALL,
)
_ESCAPE = regex(r"\\(.)", re.DOTALL)
_PEM_LINE = regex(r"^\s*([A-Za-z0-9+/=]{24,})\s*$", re.MULTILINE)
_NETRC = regex(r"\bpassword\s+(\S+)")
_PGPASS = regex(r"^[^#:\n]+:[^:\n]*:[^:\n]*:[^:\n]*:(.+)$", re.MULTILINE)
_URL_PASSWORD = regex(r"://[^/\s:@]*:([^/\s@]+)@")
_SECRET_KEY = regex(r"KEY|TOKEN|SECRET|PASS|PWD|CRED|AUTH|DSN|SALT|PRIVATE|CERT|SIGN|WEBHOOK", re.IGNORECASE)
_CERTAIN_KEY = regex(r"KEY$|TOKEN$|SECRET|PASS|PWD|CRED|(^|[_.-])PIN$|SALT$|PRIVATE", re.IGNORECASE)
_PLAIN = regex(
    r"(?:https?://)?[A-Za-z]+(?:[ ._-][A-Za-z]+)*(?::\d+)?(?:/[A-Za-z./_-]*)?|[\d.,:]+|[./~][\w./-]*"
)
_DUMMIES = frozenset(
    {"changeme", "password", "postgres", "postgresql", "localhost", "username", "your-key-here"}
)
_WORDS = word_set(
    """
    true false none null basic bearer test local debug admin root user secret token pass file prompt always
    never auto main default
    """
)


class Secret(NamedTuple):
    """A value and where it is hidden: anywhere, as a word of its own, or right after its key."""

    key: str
    value: str
    hidden: Literal["anywhere", "word", "after its key"]


def secrets_in(name: str, text: str) -> Iterator[Secret]:
    """The secrets in a file's text; its name says how it may have to be read."""
    pairs = [*_structured(name, text), *((key, _unquote(value)) for key, value in _PAIR.findall(text))]
    for found in _QUOTED.finditer(text):
        pairs.append((found[1], found[2] or found[3] or found[4] or ""))
        if "\\" in (found[2] or ""):
            pairs.append((found[1], _ESCAPE.sub(_unescape, found[2])))
    for key, value in pairs:
        if secret := _judge(key, value):
            yield secret
    for pattern in (_PEM_LINE, _NETRC, _PGPASS, _URL_PASSWORD):
        for value in pattern.findall(text):
            if len(value) >= MIN_LENGTH and value.lower() not in _DUMMIES:
                yield Secret("", value, "anywhere")


def _structured(name: str, text: str) -> list[tuple[str, str]]:
    """Keys and values of JSON, TOML or YAML; nothing where the text is neither."""
    try:
        if name.endswith(".toml"):
            data: Any = tomllib.loads(text)
        elif text.lstrip()[:1] in ("{", "["):
            data = json.loads(text)
        elif name.endswith((".yaml", ".yml")) or re.search(r":\s*[|>][+-]?\d?\s*$", text, re.MULTILINE):
            data = yaml.safe_load(text) if "&" not in text else None  # aliases can make it endless
        else:
            return []
    except (ValueError, RecursionError, yaml.YAMLError):
        return []
    found: list[tuple[str, str]] = []
    pending: list[tuple[str, Any]] = [("", data)]
    while pending and len(found) < _MAX_NODES:
        key, value = pending.pop()
        if isinstance(value, dict):
            pending += [(str(inner), below) for inner, below in value.items()]
        elif isinstance(value, list):
            pending += [(key, below) for below in value]
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            found.append((key, str(value).strip()))
    return found


def _unquote(value: str) -> str:
    if value[:1] in ("'", '"'):
        end = value.find(value[0], 1)
        return value[1:end] if end > 0 else value[1:]
    return value.partition(" #")[0].rstrip()


def _unescape(escape: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r", "t": "\t"}.get(escape[1], escape[1])


def _judge(key: str, value: str) -> Secret | None:
    """Where a value is hidden. `localhost` and `production` everywhere would only blind the model."""
    if not value or value.startswith(("${", "$(", "<", "|", ">", "{", "[")):
        return None
    if "\n" not in value and value.startswith("-----"):
        return None
    certain = bool(_CERTAIN_KEY.search(key))
    if len(value) >= MIN_LENGTH and value.lower() not in _DUMMIES:
        hide = bool(_SECRET_KEY.search(key)) or not _PLAIN.fullmatch(value)
        return Secret(key, value, "anywhere") if hide else None
    if not certain:
        return None
    is_word = len(value) >= _MIN_WORD and value.lower() not in _WORDS | _DUMMIES
    return Secret(key, value, "word" if is_word else "after its key")

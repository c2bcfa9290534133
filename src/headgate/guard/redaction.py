"""Hiding the values of secrets wherever they turn up: those of a repository's files, and known keys.

Files are read as JSON, YAML, TOML, lines such as `KEY=value`, and bare keys.
"""

import json
import re
import tomllib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, quote_plus

import yaml

from headgate.core import Access, Denial, show_path
from headgate.first_use import regex
from headgate.guard.secret_scan import SecretScan, SecretsFound
from headgate.guard.secrets import DEFAULT_SECRETS
from headgate.reading import word_set
from headgate.tree import read_regular

HIDDEN = "[redacted]"
MAX_FILE = 256_000
_MOST_VALUES = 5_000
_PLAIN_IN_SCRIPTS = "!'()*"
"""What `encodeURIComponent` leaves as it is."""
_ESCAPED_BYTE = regex("%[0-9A-F]{2}")
_SKIPPED = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", "site-packages", "target"})
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


class _Values:
    """The values to hide, in the forms in which they are looked for."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        plain: dict[str, None] = {}
        words: set[str] = set()
        pairs: set[tuple[str, str]] = set()
        for secret in sorted(secrets, key=lambda secret: not secret.key):  # lines of keys come last
            if secret.hidden == "anywhere":
                plain.update(dict.fromkeys(_lines_of(secret.value)))
            elif secret.hidden == "word":
                words.add(secret.value)
            else:
                pairs.add((secret.key, secret.value))
        forms = {form for value in plain for form in _forms_of(value)}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        alone = [rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in sorted(words, key=len, reverse=True)]
        alone += [
            rf"(?<=\b{re.escape(key)}{between}){re.escape(value)}(?![\w-])"
            for key, value in sorted(pairs)
            for between in ("=", ": ", "='", '="', '": "', '":"')
        ]
        self._short = re.compile("|".join(alone)) if alone else None

    def hide(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        return text if self._short is None else self._short.sub(HIDDEN, text)


def _lines_of(value: str) -> Iterator[str]:
    """A value, and each of its lines that says enough to be told from other text."""
    yield value
    if "\n" in value:
        yield from (line for part in value.splitlines() if len(line := part.strip()) >= MIN_LENGTH)


def _forms_of(value: str) -> Iterator[str]:
    """A value as it is, as JSON and most programs write it in quotes, in addresses, and in base64."""
    data = value.encode("utf-8", "replace")
    yield value
    for address in (quote(data), quote(data, safe=""), quote(data, safe=_PLAIN_IN_SCRIPTS), quote_plus(data)):
        yield from (address, _ESCAPED_BYTE.sub(lambda found: found[0].lower(), address))
    yield from (json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))
    for before in range(3):  # the part that does not depend on the text around the value
        start, end = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        yield b64encode(b"\0" * before + data).decode()[start:end]
        yield urlsafe_b64encode(b"\0" * before + data).decode()[start:end]


class Redactor:
    """Replaces each secret value found in the repository's secret files by `[redacted]`.

    So are the `known` values, such as keys in the environment. A value that was seen once stays hidden,
    whatever becomes of its file.
    """

    def __init__(
        self, root: Path, patterns: Sequence[str] = DEFAULT_SECRETS, known: Iterable[str] = ()
    ) -> None:
        self.scan = SecretScan(root, patterns)
        secrets = (Secret("known", value, "anywhere") for value in known if len(value) >= MIN_LENGTH)
        self._secrets = dict.fromkeys(secrets)
        self._read: dict[str, tuple[int, ...]] = {}
        self._values = _Values(self._secrets) if self._secrets else None
        self._version = -1
        self._lock = Lock()

    def __call__(self, text: str) -> str:
        """The text without the values. Files are read again once a command has run or a look found others."""
        with self._lock:
            if (version := self.scan.version) != self._version:
                self._collect(self.scan.latest())
                self._version = version
            values = self._values
        return text if values is None else values.hide(text)

    def _collect(self, found: SecretsFound) -> None:
        before = len(self._secrets)
        for path, stamp in found.named.items():
            if self._read.get(path) != stamp and _SKIPPED.isdisjoint(path.split("/")):
                self._read[path] = stamp
                data = read_regular(path, MAX_FILE)
                if b"\0" not in data:
                    self._secrets.update(
                        dict.fromkeys(secrets_in(Path(path).name, data.decode(errors="replace")))
                    )
        if len(self._secrets) > before:
            self._secrets = dict.fromkeys([*self._secrets][:_MOST_VALUES])  # the first ones are the user's
            self._values = _Values(self._secrets)


class HiddenValues:
    """Denies writing `[redacted]` into a file that holds a hidden value: the value would be lost."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def __call__(self, access: Access, /) -> Denial | None:
        mark = HIDDEN.encode()
        before, after = access.before or b"", access.after or b""
        if access.act != "write" or after.count(mark) <= before.count(mark):
            return None
        text = before.decode("utf-8", "replace")
        if self._redact(text) == text:
            return None
        return Denial(
            f"{show_path(access.target)} has a value that you see as {HIDDEN}, and this would overwrite "
            "it. Edit only the lines without it."
        )

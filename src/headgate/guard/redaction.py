"""Hiding the values of secrets wherever they turn up: those of a repository's files, and known keys."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from urllib.parse import quote, quote_plus

from headgate.core import Access, Denial, show_path
from headgate.guard.secret_scan import SecretScan, SecretsFound
from headgate.guard.secret_values import MIN_LENGTH, Secret, secrets_in
from headgate.guard.secrets import DEFAULT_SECRETS
from headgate.patterns import regex
from headgate.tree import read_regular

HIDDEN = "[redacted]"
MAX_FILE = 256_000
_MOST_VALUES = 5_000
_PLAIN_IN_SCRIPTS = "!'()*"
"""What `encodeURIComponent` leaves as it is."""
_ESCAPED_BYTE = regex("%[0-9A-F]{2}")
_SKIPPED = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", "site-packages", "target"})


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

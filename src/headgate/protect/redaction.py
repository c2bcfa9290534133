"""Hiding the values of secrets wherever they turn up: those of a repository's files, and known keys."""

import os
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from headgate.protect.secret_values import MIN_LENGTH, Secret, secrets_in
from headgate.protect.secrets import DEFAULT_SECRETS
from headgate.workspace import Rules

HIDDEN = "[redacted]"
_MAX_FILE = 256_000
_MAX_DIRECTORIES = 20_000
_SKIPPED = frozenset(
    {".git", ".headgate", "node_modules", ".venv", "venv", "__pycache__", ".tox", "site-packages", "target"}
)
_BREAKS = str.maketrans("", "", "\r\n \t")

Fingerprint = tuple[tuple[str, int, int], ...]


def redactor(
    root: Path,
    patterns: Sequence[str] = DEFAULT_SECRETS,
    clock: Callable[[], float] = time.monotonic,
    known: Iterable[str] = (),
) -> Callable[[str], str]:
    """A function that replaces each secret value found in the repository's secret files by `[redacted]`.

    So are the `known` values, such as keys in the environment. The files are read again when one of them, or
    a directory on the way, has changed. Looking for that takes at most a fiftieth of the time, however large
    the repository is.
    """
    return _Redactor(root, Rules(patterns, ignore_case=True), clock, known).redact


class _Values:
    """The values to hide, in the forms in which they are looked for."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        plain: set[str] = set()
        words: set[str] = set()
        pairs: set[tuple[str, str]] = set()
        for secret in secrets:
            if secret.hidden == "anywhere":
                plain.update(_lines_of(secret.value))
            elif secret.hidden == "word":
                words.add(secret.value)
            else:
                pairs.add((secret.key, secret.value))
        forms = {form for value in plain for form in (value, quote(value, safe=""), _escaped(value))}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._encoded = sorted({form for value in plain for form in _encodings(value)}, key=len, reverse=True)
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
        if self._short is not None:
            text = self._short.sub(HIDDEN, text)
        # Programs break encoded text into lines and groups.
        squeezed = text.translate(_BREAKS) if self._encoded else ""
        for form in self._encoded:
            if form in squeezed:
                text = re.sub(r"\s*".join(map(re.escape, form)), HIDDEN, text)
        return text


def _lines_of(value: str) -> Iterator[str]:
    """A value, and each of its lines that says enough to be told from other text."""
    yield value
    if "\n" in value:
        yield from (line for part in value.splitlines() if len(line := part.strip()) >= MIN_LENGTH)


def _escaped(value: str) -> str:
    """A value as JSON and most programs write it in quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _encodings(value: str) -> Iterator[str]:
    """A value in hexadecimal digits, and the part of its base64 that does not depend on text around it."""
    data = value.encode("utf-8", "surrogateescape")
    yield data.hex()
    yield data.hex().upper()
    for before in range(3):
        start = -(-before * 8 // 6)
        end = (before + len(data)) * 8 // 6
        text = b64encode(b"\0" * before + data).decode()[start:end]
        yield text
        yield text.replace("+", "-").replace("/", "_")


class _Redactor:
    def __init__(
        self, root: Path, rules: Rules, clock: Callable[[], float], known: Iterable[str] = ()
    ) -> None:
        self._root = root
        self._rules = rules
        self._clock = clock
        self._known = [Secret("", value, "anywhere") for value in known if len(value) >= MIN_LENGTH]
        self._watched: list[str] | None = None
        self._seen: Fingerprint = ()
        self._values: _Values | None = None
        self._look_again_at = 0.0
        self._lock = Lock()

    def redact(self, text: str) -> str:
        with self._lock:
            started = self._clock()
            if started >= self._look_again_at:
                if self._watched is None or _look(self._watched) != self._seen:
                    self._collect()
                ended = self._clock()
                self._look_again_at = ended + 50 * (ended - started)
            values = self._values
        return text if values is None else values.hide(text)

    def _collect(self) -> None:
        folders, files = _find(self._root, self._rules)
        self._watched = folders + files
        self._seen = _look(self._watched)
        found = [*self._known, *(secret for file in files for secret in _read(Path(file)))]
        self._values = _Values(found) if found else None


def _look(paths: Sequence[str]) -> Fingerprint:
    seen = []
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:
            continue  # gone, which is a change as well
        seen.append((path, status.st_mtime_ns, status.st_ino))
    return tuple(seen)


def _find(root: Path, rules: Rules) -> tuple[list[str], list[str]]:
    """The directories looked through and the secret files in them, ignored ones and links included."""
    folders: list[str] = []
    files: list[str] = []
    pending = [""]
    while pending and len(folders) < _MAX_DIRECTORIES:
        path = pending.pop()
        prefix = path + "/" if path else ""
        folders.append(str(root / path))
        try:
            with os.scandir(root / path) as scan:
                for entry in scan:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _SKIPPED:
                            pending.append(prefix + entry.name)
                    elif rules.covers(prefix + entry.name) and entry.is_file():
                        files.append(entry.path)
        except OSError:
            continue  # what Headgate cannot list its tools cannot read either
    return folders, files


def _read(file: Path) -> Iterator[Secret]:
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_FILE)
    except OSError:
        return  # unreadable here, so unreadable for the tools
    if b"\0" not in data:
        yield from secrets_in(file.name, data.decode(errors="replace"))

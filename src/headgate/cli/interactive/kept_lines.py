"""What the terminal remembers of a user, in the user's own state folder: typed lines, and a few answers.

Nothing of it is in the repository, and no line that looks like a secret is kept.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import orjson
import platformdirs
from prompt_toolkit.history import History

from headgate.first_use import regex
from headgate.remembered import read_remembered, remember

MOST_LINES, MOST_CHARS = 1_000, 10_000
_TOKENS = regex(
    r"\b(sk-[\w-]{16,}|(ghp|gho|ghs|ghu|glpat|github_pat)[_-]\w{16,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
    r"|AIza[\w-]{30,}|hf_\w{20,}|eyJ[\w-]{10,}\.[\w-]{10,}\.)|-----BEGIN [A-Z ]*PRIVATE KEY"
)
_ASSIGNED = regex(
    r"(api[_-]?key|token|secret|passw(or)?d|pwd|passphrase|credentials?|authorization)\b['\"]?\s*(=|:|\bis\b)\s*\S",
    re.IGNORECASE,
)
_IN_ADDRESS = regex(r"://[^/\s:@]+:[^/\s@]+@")
_SECRET_VARIABLE = regex(r"KEY|TOKEN|SECRET|PASS|PWD|CRED", re.IGNORECASE)
_MIN_VALUE = 8


def state_folder() -> Path:
    """Where it is kept."""
    return platformdirs.user_state_path("headgate")


def looks_secret(text: str, environ: Mapping[str, str]) -> bool:
    """Whether a text seems to hold a key or a password, or holds one from the environment."""
    if any(pattern.search(text) for pattern in (_TOKENS, _ASSIGNED, _IN_ADDRESS)):
        return True
    values = (value for name, value in environ.items() if _SECRET_VARIABLE.search(name))
    return any(len(value) >= _MIN_VALUE and value in text for value in values)


class KeptLines(History):
    """The lines typed in one repository. A file that cannot be written costs nothing but the memory."""

    def __init__(self, folder: Path, repo: Path, environ: Mapping[str, str]) -> None:
        super().__init__()
        self._file = folder / "history" / f"{sha256(str(repo).encode()).hexdigest()[:16]}.jsonl"
        self._environ = environ
        self.expand: Callable[[str], str] = lambda line: line
        """Puts pasted text in the place of the name that stands for it in this session."""

    def load_history_strings(self) -> Iterable[str]:
        """The lines, the newest first. Only the newest of very many are kept."""
        lines = self._read()
        if len(lines) > 2 * MOST_LINES:
            lines = lines[-MOST_LINES:]
            with suppress(OSError):
                self._rewrite(lines)
        return reversed(lines)

    def store_string(self, string: str) -> None:
        """Keeps a line for later sessions, unless it looks like a secret or is very long."""
        line = self.expand(string)
        if len(line) > MOST_CHARS or looks_secret(line, self._environ):
            return
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(_encode(line))

    def _read(self) -> list[str]:
        try:
            found = self._file.read_bytes().splitlines()
        except OSError:
            return []
        lines = []
        for line in found:
            with suppress(ValueError):  # a line that a full disk has cut off
                lines.append(orjson.loads(line))
        return [line for line in lines if isinstance(line, str)]

    def _rewrite(self, lines: list[str]) -> None:
        new = self._file.with_suffix(f".{os.getpid()}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.writelines(map(_encode, lines))
        new.replace(self._file)


def _encode(line: str) -> bytes:
    return orjson.dumps(line.encode("utf-8", "replace").decode()) + b"\n"


class Answers:
    """What a user has answered about a repository once and for all."""

    def __init__(self, folder: Path, repo: Path) -> None:
        self._file, self._repo = folder / "answers.json", str(repo)

    def has(self, what: str) -> bool:
        """Whether this was answered with yes before."""
        return what in self._of_repository()

    def add(self, what: str) -> None:
        """Remembers it. Without a place to write to, the question is asked again."""
        known = read_remembered(self._file)
        known[self._repo] = [*dict.fromkeys([*self._of_repository(), what])]
        with suppress(OSError):
            remember(self._file, known)

    def _of_repository(self) -> list[str]:
        found = read_remembered(self._file).get(self._repo, [])
        return [str(one) for one in found] if isinstance(found, list) else []

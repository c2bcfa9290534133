"""Secrets: which files hold them, the guard that keeps tools away from them, and hiding their values."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock

from headgate.core import Access, Denial, show_path
from headgate.reading import split_commands
from headgate.workspace import Rules

DEFAULT_SECRETS: tuple[str, ...] = (
    *(".env", ".env.*", "*.env", ".envrc"),
    *("!.env.example", "!.env.*.example", "!.env.sample", "!.env.template", "!.env.dist", "!.env.defaults"),
    *("!example.env", "!sample.env", "!template.env"),
    *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx", "*.kdb"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "**/.ssh/**", "!*.pub"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".htpasswd", ".git-credentials"),
    *("credentials.json", "client_secret*.json", "service-account*.json", "service_account*.json"),
    *("secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", ".vault-token", ".vault_pass*"),
    *("**/.aws/credentials", "**/.docker/config.json", "**/.kube/config", "**/.config/gcloud/**"),
    *("**/.azure/**", "**/.gnupg/**"),
)
"""Patterns as in .gitignore; one that starts with `!` makes an exception from those before it."""

_NOT_IN_PATHS = re.compile(r"""[\s'"`$(){}\[\]<>|;&,=:@*?!#%^\\]+""")


class SecretFiles:
    """Denies reading and writing files that hold secrets, and commands whose words name one.

    With `root` it can tell a word that merely ends like one (`self.key`) from a file that is there.
    """

    def __init__(self, patterns: Sequence[str] = DEFAULT_SECRETS, root: Path | None = None) -> None:
        self._rules = Rules(patterns, ignore_case=True)
        # An ending alone says little in a command: `jq .key`, `process.env`.
        self._certain = Rules((text for text in patterns if not text.startswith("*.")), ignore_case=True)
        self._root = root

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "run":
            return self._judge(access.target)
        if self._rules.covers(access.target):
            return Denial(f"{show_path(access.target)} may contain secrets: tools cannot read or write it.")
        return None

    def _judge(self, command: str) -> Denial | None:
        words = list(dict.fromkeys(_named(command)))
        suspects = [word for word in words if self._rules.covers(word.strip("/"))]
        for word in suspects:
            if self._certain.covers(word) or self._is_there(word, words):
                return Denial(
                    f"The command names {show_path(word)}, which may contain secrets: leave it alone."
                )
        return None

    def _is_there(self, word: str, words: Sequence[str]) -> bool:
        """Whether the file exists, seen from the root or from a directory that the command names too."""
        if self._root is None:
            return True
        try:
            return (self._root / word).exists() or any(
                (self._root / folder / word).exists() for folder in words[:50] if folder != word
            )
        except (OSError, ValueError):
            return False  # too long or too odd to be a file's name


def _named(command: str) -> Iterator[str]:
    """Everything in a command that could be a path: its words as a shell would see them, and their parts."""
    for simple in split_commands(command):
        for word in (*simple.words, *simple.written, *simple.read):
            yield from _paths_in(word)
    yield from _paths_in(command)


def _paths_in(text: str) -> Iterator[str]:
    for part in _NOT_IN_PATHS.split(text):
        normal = "/".join(piece for piece in part.split("/") if piece not in ("", "."))
        if normal and normal != "..":
            yield normal


# Hiding the values of a repository's secrets wherever they turn up.


MIN_LENGTH = 8
_MAX_FILE = 256_000
_MAX_DIRECTORIES = 20_000
_SKIPPED = frozenset(
    {".git", ".headgate", "node_modules", ".venv", "venv", "__pycache__", ".tox", "site-packages", "target"}
)
_PAIR = re.compile(r"""^\s*(?:export\s+)?["']?([\w./:-]+?)["']?\s*[=:]\s*(.+?)\s*,?\s*$""", re.MULTILINE)
_PEM_LINE = re.compile(r"^[A-Za-z0-9+/=]{24,}$", re.MULTILINE)
_NETRC = re.compile(r"\bpassword\s+(\S+)")
_PGPASS = re.compile(r"^[^#:\n]+:[^:\n]*:[^:\n]*:[^:\n]*:(.+)$", re.MULTILINE)
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_SECRET_KEY = re.compile(
    r"KEY|TOKEN|SECRET|PASS|PWD|CRED|AUTH|DSN|SALT|PRIVATE|CERT|SIGN|WEBHOOK", re.IGNORECASE
)
_PLAIN = re.compile(
    r"(?:https?://)?[A-Za-z]+(?:[ ._-][A-Za-z]+)*(?::\d+)?(?:/[A-Za-z./_-]*)?|[\d.,:]+|[./~][\w./-]*"
)
_DUMMIES = frozenset(
    {"changeme", "password", "postgres", "postgresql", "localhost", "username", "your-key-here"}
)

Fingerprint = tuple[tuple[str, int, int], ...]


def redactor(
    root: Path, patterns: Sequence[str] = DEFAULT_SECRETS, clock: Callable[[], float] = time.monotonic
) -> Callable[[str], str]:
    """A function that replaces each secret value found in the repository's secret files by `[redacted]`.

    The files are read again when one of them, or a directory on the way, has changed. Looking for that takes
    at most a fiftieth of the time, however large the repository is.
    """
    return _Redactor(root, Rules(patterns, ignore_case=True), clock).redact


class _Redactor:
    def __init__(self, root: Path, rules: Rules, clock: Callable[[], float]) -> None:
        self._root = root
        self._rules = rules
        self._clock = clock
        self._watched: list[str] | None = None
        self._seen: Fingerprint = ()
        self._values: re.Pattern[str] | None = None
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
        return text if values is None else values.sub("[redacted]", text)

    def _collect(self) -> None:
        folders, files = _find(self._root, self._rules)
        self._watched = folders + files
        self._seen = _look(self._watched)
        found = {value for file in files for value in _values_in(Path(file))}
        longest_first = sorted(found, key=lambda value: (-len(value), value))
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _look(paths: Sequence[str]) -> Fingerprint:
    seen = []
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue  # gone, which is a change as well
        seen.append((path, status.st_mtime_ns, status.st_ino))
    return tuple(seen)


def _find(root: Path, rules: Rules) -> tuple[list[str], list[str]]:
    """The directories looked through and the secret files in them, ignored ones included."""
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
                    elif entry.is_file(follow_symlinks=False) and rules.covers(prefix + entry.name):
                        files.append(entry.path)
        except OSError:
            continue  # what Headgate cannot list its tools cannot read either
    return folders, files


def _values_in(file: Path) -> Iterator[str]:
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_FILE)
    except OSError:
        return  # unreadable here, so unreadable for the tools
    if b"\0" in data:
        return
    text = data.decode(errors="replace")
    for key, quoted in _PAIR.findall(text):
        value = _unquote(quoted)
        if _is_secret(key, value):
            yield value
    for pattern in (_PEM_LINE, _NETRC, _PGPASS, _URL_PASSWORD):
        for value in pattern.findall(text):
            if len(value) >= MIN_LENGTH and value.lower() not in _DUMMIES:
                yield value


def _unquote(value: str) -> str:
    if value[:1] in ("'", '"'):
        end = value.find(value[0], 1)
        return value[1:end] if end > 0 else value[1:]
    return value.partition(" #")[0].rstrip()


def _is_secret(key: str, value: str) -> bool:
    """Whether hiding a value is worth it: `localhost` and `production` would only blind the model."""
    if len(value) < MIN_LENGTH or value.lower() in _DUMMIES or value.startswith(("${", "$(", "<", "-----")):
        return False
    return bool(_SECRET_KEY.search(key)) or not _PLAIN.fullmatch(value)

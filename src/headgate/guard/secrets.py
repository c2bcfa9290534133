"""Secrets: which files hold them, and the guard that keeps tools away from them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from headgate.core import Access, Denial, show_path
from headgate.first_use import regex
from headgate.reading import split_commands
from headgate.tree import Rules

DEFAULT_SECRETS: tuple[str, ...] = (
    *(".env", ".env.*", ".env[-_]*", "*.env", ".envrc", "!.env[-_]example", "!.env[-_]sample"),
    *("!.env[-_]template", "!.env[-_]dist", "!.env[-_]defaults"),
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

_BACKUP = regex(
    r"(?:~|\.~\d+~|[._-](?:bak|backup|old|orig|saved?|copy|tmp|rej|sw[a-p]|kate-swp|rpmsave|dpkg-\w+|ucf-\w+)\d*"
    r"|___jb_\w+___)$",
    re.IGNORECASE,
)
"""What editors and tools add to the name of a file when they keep a copy of it."""
_NOT_IN_PATHS = regex(r"""[\s'"`$(){}\[\]<>|;&,=:@*?!#%^\\]+""")


@lru_cache(maxsize=16)  # the same few lists, a dozen times a task: 0.1 ms each
def _rules_of(patterns: tuple[str, ...]) -> Rules:
    return Rules(patterns, ignore_case=True)


class SecretNames:
    """Tells by a path whether a file holds secrets. A copy that an editor leaves counts as well."""

    def __init__(self, patterns: Iterable[str] = DEFAULT_SECRETS) -> None:
        self._rules = _rules_of(tuple(patterns))

    def covers(self, path: str) -> bool:
        """Whether the file may hold secrets."""
        if not self._rules.may_cover(path):
            return False
        if self._rules.covers(path):
            return True
        folder, slash, name = path.rpartition("/")
        originals = _originals(name)
        if not originals or self.excepts(path):
            return False
        return any(self._rules.covers(folder + slash + original) for original in originals)

    def covers_folder(self, path: str) -> bool:
        """Whether a pattern means the folder itself, and so all that is in it."""
        return self._rules.verdict(path, is_dir=True) is True

    def excepts(self, path: str) -> bool:
        """Whether a pattern with `!` says that the file holds none."""
        return self._rules.verdict(path, is_dir=False) is False


def _originals(name: str) -> list[str]:
    """What a file is called that this may be a copy of; empty if the name is not that of a copy."""
    bare = name
    if len(bare) > 2 and bare[0] == bare[-1] == "#":
        bare = bare[1:-1]
    bare = bare.removeprefix(".#")
    while (shorter := _BACKUP.sub("", bare)) not in (bare, ""):
        bare = shorter
    # Vim puts a dot before the names of its swap files.
    return [] if bare == name else [bare, bare.removeprefix(".")]


def deny_secret(path: str) -> Denial:
    """Says that tools may not touch a file because it may contain secrets."""
    return Denial(f"{show_path(path)} may contain secrets: tools cannot read or write it.")


class SecretFiles:
    """Denies reading and writing files that hold secrets, and commands whose words name one.

    With `root` it can tell a word that merely ends like one (`self.key`) from a file that is there.
    """

    def __init__(self, patterns: Sequence[str] = DEFAULT_SECRETS, root: Path | None = None) -> None:
        self._names = SecretNames(patterns)
        # An ending alone says little in a command: `jq .key`, `process.env`.
        self._certain = SecretNames(text for text in patterns if not text.startswith("*."))
        self._root = root

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "run":
            return self._judge(access.target)
        if self._names.covers(access.target):
            return deny_secret(access.target)
        return None

    def _judge(self, command: str) -> Denial | None:
        words = list(dict.fromkeys(_named(command)))
        suspects = [word for word in words if self._names.covers(word.strip("/"))]
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

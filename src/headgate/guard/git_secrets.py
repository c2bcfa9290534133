"""The secrets in files that are committed or stashed: commands can read git's objects."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from headgate.guard.redaction import MAX_FILE
from headgate.guard.secret_values import Secret, secrets_in
from headgate.guard.secrets import DEFAULT_SECRETS, SecretNames
from headgate.tree import GitFailed, batch_objects, common_folder, git, read_regular, run_git

_MOST_STASHES = 20
_MOST_FILES = 500
_MOST_LOG = 1_000_000


def committed_secrets(repo: Path, patterns: Sequence[str] = DEFAULT_SECRETS) -> list[Secret]:
    """The secrets in the secret files of HEAD, of the index and of the latest stashes.

    Older commits and other branches are not searched: that would take as long as the history is.
    """
    names = SecretNames(patterns)
    try:
        found = {name: path for path, name in _files(repo) if names.covers(path)}
        contents = _read(repo, list(found)[:_MOST_FILES]) if found else ()
        return [secret for name, text in contents for secret in secrets_in(Path(found[name]).name, text)]
    except GitFailed:
        return []  # where git does not work, commands cannot read its objects either


def _files(repo: Path) -> Iterator[tuple[str, str]]:
    """Paths with the names of their objects."""
    log = read_regular(common_folder(repo) / "logs/refs/stash", _MOST_LOG).decode("utf-8", "replace")
    stashes = [words[1] for line in log.splitlines()[-_MOST_STASHES:] if len(words := line.split(" ", 2)) > 1]
    calls = [["ls-files", "-z", "--stage"], ["ls-tree", "-r", "-z", "HEAD"]]
    # The third parent of a stash has the untracked files.
    calls += [["ls-tree", "-r", "-z", f"{name}{parent}"] for name in stashes for parent in ("", "^3")]
    for call in calls:
        for row in run_git(repo, *call).stdout.split(b"\0"):  # prints nothing where there is no such commit
            about, tab, path = row.partition(b"\t")
            words = about.decode().split()
            if tab:
                yield os.fsdecode(path), words[1] if call[0] == "ls-files" else words[2]


def _read(repo: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    asked = "".join(f"{name}\n" for name in names).encode()
    sizes = git(repo, "cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", stdin=asked)
    rows = [line.split() for line in sizes.decode().splitlines()]
    fit = [row[0] for row in rows if len(row) == 3 and row[1] == "blob" and int(row[2]) <= MAX_FILE]
    out = git(repo, "cat-file", "--batch", stdin="".join(f"{name}\n" for name in fit).encode())
    for name, _, data in batch_objects(out, fit):
        if b"\0" not in data:
            yield name, data.decode(errors="replace")

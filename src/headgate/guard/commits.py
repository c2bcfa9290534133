"""Commits that change protected files: named in the report, for a person to look at before they are pushed.

The tree is put right after a command, but a commit that the command made keeps what it changed. In a sandbox
`.git` is read-only, so that no command makes one.
"""

import os
from collections.abc import Iterator, Sequence
from hashlib import sha1, sha256
from pathlib import Path

from headgate.core import show_path
from headgate.errors import HeadgateError
from headgate.first_use import dataclass
from headgate.guard.guards import Rule
from headgate.guard.restore import Restored
from headgate.tree import LARGE, ConfinedTree, Difference, commit_of, git, read_at

_AS_PUSHED = {"GIT_NO_REPLACE_OBJECTS": "1"}
_EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_MOST_NAMED = 5
_SHORT = 10


@dataclass(frozen=True, slots=True)
class CommitFound(Restored):
    """A commit that changes protected files. It stays."""

    said: str = ""

    def sentence(self) -> str:
        """See Restored."""
        return self.said


class CommitWatch:
    """Compares the commit that is checked out with the one before."""

    def __init__(self, repo: Path, rules: Sequence[Rule]) -> None:
        self._repo, self._rules = repo, tuple(rules)
        self._seen: str | None = None

    def begin(self) -> None:
        """A command begins. What moves HEAD while none runs is a person."""
        self._seen = commit_of(self._repo)

    def check(self) -> tuple[Restored, ...]:
        """A command has ended, and protected files are as they were."""
        before, after = self._seen, commit_of(self._repo)
        if before is None or after in ("", before):
            return ()
        self._seen = after
        try:
            broken = dict(self._broken(before, after))
        except HeadgateError as error:
            said = f"Could not check whether commit {after[:_SHORT]} changes protected files: {error}"
            return (CommitFound("HEAD", "changed", "", said=said),)
        if not broken:
            return ()
        named = [f"{show_path(path)} ({reason})" for path, reason in broken.items()]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        since = f", compared with {before[:_SHORT]}" if before else ""
        said = (
            f"Commit {after[:_SHORT]} changes protected files{since}: {', '.join(named[:_MOST_NAMED])}{more}."
            " Headgate does not change commits: look at it before you push."
        )
        return (CommitFound("HEAD", "changed", "", said=said),)

    def _broken(self, before: str, after: str) -> Iterator[tuple[str, str]]:
        """The protected files that differ between two commits, each with the reason.

        What the tree has, with all protected files restored, may be committed: it was there before.
        """
        flags = ("-r", "-z", "--no-renames", "--raw", "--no-abbrev", "--ignore-submodules=none")
        start = before or _EMPTY_TREES[len(after)]
        fields = git(self._repo, "diff-tree", *flags, start, after, env=_AS_PUSHED).split(b"\0")
        for row, path in zip(fields[:-1:2], fields[1::2], strict=True):
            one = Difference.of(row, os.fsdecode(path))
            for rule in self._rules:
                if rule.forbids(one.path) and not self._may_stay(rule, one):
                    yield one.path, rule.reason
                    break

    def _may_stay(self, rule: Rule, one: Difference) -> bool:
        place = self._repo / one.path
        if one.after is None:
            return not os.path.lexists(place)
        if place.is_symlink():
            own: bytes | None = os.fsencode(place.readlink())
        else:
            own = read_at(ConfinedTree(self._repo), show_path(one.path), LARGE)
        if own is not None and one.after[1] in _names_of(own, len(one.after[1])):
            return True
        if not one.is_plain or not rule.allows(one.path, b"", b""):
            return False  # it is protected as a whole
        return rule.allows(one.path, own, git(self._repo, "cat-file", "blob", one.after[1], env=_AS_PUSHED))


def _names_of(data: bytes, length: int) -> list[str]:
    """The names that git gives a content, and the same with plain line ends."""
    method = sha1 if length == 40 else sha256
    texts = dict.fromkeys((data, data.replace(b"\r\n", b"\n")))
    return [method(b"blob %d\0" % len(text) + text).hexdigest() for text in texts]

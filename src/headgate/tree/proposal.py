"""What a dry run proposes, and what a task has changed: kept as two git trees, shown as a patch."""

from collections.abc import Sequence

from headgate.tree.overlay import ProposedChange
from headgate.tree.snapshots import Snapshots

_PATCH_FLAGS = (
    *("--patch", "-M", "--binary", "--full-index", "--unified=3", "--inter-hunk-context=0"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--no-color"),
)


def record_proposal(
    snapshots: Snapshots, baseline: str, changes: Sequence[ProposedChange]
) -> tuple[str, str]:
    """Keeps a proposal as two git trees, before and after, and returns their names.

    Before is the baseline with each file as it was when the proposal first touched it.
    """
    before = snapshots.tree_with(baseline, {one.path: _file(one.before, one.before_mode) for one in changes})
    after = snapshots.tree_with(before, {one.path: _file(one.after, one.after_mode) for one in changes})
    return before, after


def _file(data: bytes | None, mode: int | None) -> tuple[bytes, int] | None:
    return None if data is None else (data, mode or 0)


def patch_between(snapshots: Snapshots, before: str, after: str) -> bytes:
    """The difference between two trees, such as `git apply` takes in the working tree."""
    return snapshots.compare(before, after, *_PATCH_FLAGS)

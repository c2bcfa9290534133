"""What a task proposes, or has changed, for who wants to see it while others work."""

from pathlib import Path

from headgate.core.state import State
from headgate.engine.log import recall
from headgate.engine.store import Store
from headgate.errors import ConfigError
from headgate.host.git import Snapshots
from headgate.host.proposal import patch


def diff_of(store: Store, repo: Path, task_id: str, *, after_review: bool = False) -> bytes:
    """A task's diff, such as `git apply` takes. ConfigError if there is none, or none yet.

    With `after_review`, only what was changed after a proposal was applied.
    """
    row = store.task(task_id)
    state = recall(store, row) if row else State()
    if after_review and not (state.applied_tree and state.end_tree):
        raise ConfigError(f"Task {task_id} is not an applied proposal that has ended.")
    with Snapshots.apart(repo) as snapshots:
        if row and row.state in ("PROPOSED", "QUEUED", "RUNNING") and state.phase == "proposed":
            assert state.proposal is not None
            return patch(snapshots, *state.proposal)
        if not state.baseline:
            raise ConfigError(f"Task {task_id} has not started: there is no diff yet.")
        if row and row.state == "RUNNING" and row.task.dry_run and state.proposal is None:
            raise ConfigError(f"Task {task_id} has not proposed anything yet: there is no diff yet.")
        if state.end_tree:
            start = state.applied_tree if after_review else state.baseline
            return patch(snapshots, start, state.end_tree)
        if row and row.state == "RUNNING":
            return patch(snapshots, state.baseline, snapshots.take())
    raise ConfigError(f"Task {task_id} left no diff.")

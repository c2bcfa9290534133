"""Writing a change that passed in a copy, as a tool would: recorded before, and guarded."""

from dataclasses import dataclass
from typing import Literal

from headgate.core import (
    CandidateTried,
    CheckFinished,
    Note,
    StageDoneSignalled,
    ToolFinished,
    ToolStarted,
    clean_text,
    parse_path,
    show_path,
)
from headgate.errors import ToolError
from headgate.run import Job, StageRun, write_changes
from headgate.workspace import FileChange

_CALL = "candidate-"


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of an answer."""

    tried: CandidateTried
    changes: tuple[FileChange, ...] = ()
    """What to write: only for an answer that passed."""


def is_late(run: StageRun) -> bool:
    """Whether time is up for the stage or the task: one answer may be tried in many places."""
    job, most, left = run.job, run.stage.budget.seconds, run.job.seconds_left()
    if most is not None and job.now() - run.state.started_at >= most:
        return True
    return job.stopping() or (left is not None and left <= 0)


async def keep(run: StageRun, judged: Judged) -> bool:
    """Writes what passed, after which the stage is over. False if that is refused."""
    job, changes = run.job, judged.changes
    call, paths = f"{_CALL}{run.turn}", tuple(show_path(change.path) for change in changes)
    started = ToolStarted(call=call, name="write_file", category="write", target=", ".join(paths))
    finished = ToolFinished(call=call, name="write_file", ok=True, changed=paths, category="write")
    try:
        await write_changes(run, started, changes)
    except ToolError as error:
        told = job.redact(clean_text(str(error)))
        refused = {"ok": False, "error": error.slug, "detail": told[:300], "changed": ()}
        run.record(finished.model_copy(update=refused))
        run.record(judged.tried.model_copy(update={"verdict": "refused", "reason": told}))
        return False
    run.record(finished)
    run.record(judged.tried)
    _finish(run, paths)
    return True


def open_write(job: Job) -> ToolStarted | None:
    """After a crash: the write that was under way."""
    return next((call for call in job.state.open_calls.values() if call.call.startswith(_CALL)), None)


def settle(
    run: StageRun, begun: ToolStarted, origin: Literal["model", "mutation"] = "model", reason: str = ""
) -> bool:
    """After a crash: records a write that was made. False if it was not."""
    if not all(run.job.tree.hash_of(change.path) == change.after for change in begun.changes):
        return False
    paths = tuple(change.path for change in begun.changes)
    run.record(ToolFinished(call=begun.call, name=begun.name, ok=True, changed=paths, category="write"))
    run.record(CandidateTried(place=", ".join(paths), verdict="passed", reason=reason, origin=origin))
    _finish(run, tuple(show_path(parse_path(path)) for path in paths))
    return True


def _finish(run: StageRun, paths: tuple[str, ...]) -> None:
    summary = f"Changed {', '.join(paths)}; the check passes in a copy of the tree with this change."
    run.record(StageDoneSignalled(note=Note(summary=summary, files_changed=paths), implied=True))
    run.record(CheckFinished(check="exit", verdict="pass"))

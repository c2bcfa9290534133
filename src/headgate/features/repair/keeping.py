"""Writing a change that passed in a copy, as a tool would: recorded before, and guarded.

Stages that run at once may each find one. The first is written; the others end without a word.
"""

from typing import Literal

from headgate.core import (
    Calls,
    CandidateTried,
    CheckFinished,
    Decision,
    Note,
    StageDoneSignalled,
    ToolFinished,
    ToolStarted,
    clean_text,
    parse_path,
    show_path,
    split_path,
)
from headgate.errors import ToolError
from headgate.features.repair.suspects import memory_of
from headgate.first_use import dataclass
from headgate.run import Job, StageRun, write_changes
from headgate.tree import FileChange

OUTRUN = Decision("skip", "outrun", "a change that was found beside it was written")
"""How an attempt ends that is too late."""
_CALL = "candidate-"
_KINDS = ("answer", "mutate")


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of an answer."""

    tried: CandidateTried
    changes: tuple[FileChange, ...] = ()
    """What to write: only for an answer that passed."""


def is_late(run: StageRun, waited: float = 0.0) -> bool:
    """Whether time is up for the stage or the task: one answer may be tried in many places.

    `waited`: the seconds that the stage had to wait for others.
    """
    job, most, left = run.job, run.stage.budget.seconds, run.job.seconds_left()
    if most is not None and job.clock.now() - run.state.counts.started_at - waited >= most:
        return True
    return job.people.stopping() or (left is not None and left <= 0)


def is_outrun(run: StageRun) -> bool:
    """Whether another stage of the same round has written a change that passed.

    It may have done so just before a crash, and not have recorded it yet.
    """
    state, parent = run.job.state, split_path(run.path).parent
    others = [
        node
        for node in state.nodes.values()
        if node.path != run.path and node.kind in _KINDS and split_path(node.path).parent == parent
    ]
    return any(
        other.counts.done or ((begun := open_write(run.job, other.path)) and _is_made(run.job, begun))
        for other in others
    )


async def keep(run: StageRun, judged: Judged) -> bool:
    """Writes what passed, after which the stage is over. False if that is refused, or comes too late.

    The caller holds the lock `trying`.
    """
    job, changes = run.job, judged.changes
    assert memory_of(job).trying.locked()
    if is_outrun(run):
        return False
    call, paths = f"{_CALL}{run.stage.id}-{run.turn}", tuple(show_path(change.path) for change in changes)
    started = ToolStarted(call=call, name="write_file", category="write", target=", ".join(paths))
    finished = ToolFinished(call=call, name="write_file", ok=True, changed=paths, category="write")
    try:
        await write_changes(run, started, changes)
    except ToolError as error:
        told = job.place.redact(clean_text(str(error)))
        refused = {"ok": False, "error": error.slug, "detail": told[:300], "changed": ()}
        run.record(finished.model_copy(update=refused))
        run.record(judged.tried.model_copy(update={"verdict": "refused", "reason": told}))
        await job.log.commit()
        return False
    run.record(finished)
    run.record(judged.tried)
    _finish(run, paths)
    await job.log.commit()  # whoever holds the lock next looks at what is on record
    return True


def open_write(job: Job, path: str) -> ToolStarted | None:
    """After a crash: the write of an attempt that was under way."""
    calls = (call for (owner, _), call in job.state[Calls].open.items() if owner == path)
    return next((call for call in calls if call.call.startswith(_CALL)), None)


def settle(
    run: StageRun, begun: ToolStarted, origin: Literal["model", "mutation"] = "model", reason: str = ""
) -> bool:
    """After a crash: records a write that was made. False if it was not."""
    if not _is_made(run.job, begun):
        return False
    paths = tuple(change.path for change in begun.changes)
    run.record(ToolFinished(call=begun.call, name=begun.name, ok=True, changed=paths, category="write"))
    run.record(CandidateTried(place=", ".join(paths), verdict="passed", reason=reason, origin=origin))
    _finish(run, tuple(show_path(parse_path(path)) for path in paths))
    return True


def drop(run: StageRun, begun: ToolStarted) -> None:
    """After a crash: records a write that was not made."""
    run.record(ToolFinished(call=begun.call, name=begun.name, ok=False, error="interrupted"))


def _is_made(job: Job, begun: ToolStarted) -> bool:
    return all(job.place.tree.hash_of(change.path) == change.after for change in begun.changes)


def _finish(run: StageRun, paths: tuple[str, ...]) -> None:
    summary = f"Changed {', '.join(paths)}; the check passes in a copy of the tree with this change."
    run.record(StageDoneSignalled(note=Note(summary=summary, files_changed=paths), implied=True))
    run.record(CheckFinished(check="exit", verdict="pass"))

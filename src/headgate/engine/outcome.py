"""What comes of a task: a proposal, which is written whole or not at all, or an end with a report."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from headgate.checks import prune_runs
from headgate.core import (
    AnyBody,
    ApplyFinished,
    ApplyRefused,
    ApplyStarted,
    Decision,
    Event,
    ImpossibleTransition,
    PrivilegesRemoved,
    ProposalMade,
    Report,
    Task,
    TaskEnded,
    TaskState,
    build_report,
    clean_text,
    fold,
    report_events,
    show_path,
    write_summary,
)
from headgate.engine.recovery import commit_events, logged_protection, release_protected
from headgate.engine.tree import Changes, TaskTree
from headgate.errors import ConfigError, HeadgateError, StoreError, ToolError
from headgate.process import uninterrupted
from headgate.protect import Protected
from headgate.run import Job, hashes_of
from headgate.store import Draft, Folder, LineWaits, Store, TaskLog
from headgate.workspace import (
    DiskWorkspace,
    FileChange,
    ProposalConflicts,
    ProposedChange,
    Workspace,
    decode_changes,
    encode_changes,
)

MOST_LOST = 10
"""Protected files that are named if they could not be restored."""
_MOST_NAMED = 5


@dataclass
class OutcomeRecorder:
    """Records how a task ended, even on a full disk."""

    task: Task
    folder: Folder
    store: Store
    log: TaskLog
    tree: TaskTree
    now: Callable[[], float]
    protected: Protected | None = None
    """What this process knows of protected files, once it has begun to carry the task out."""
    redact: Callable[[str], str] = str
    """Replaces secrets, once it is known what they are."""

    async def propose(self, why: Decision) -> Report:
        """A dry run waits for `apply` or `abort`."""
        made = await self.tree.record_proposal()
        trouble = await self._release()

        def propose(unread: tuple[str, ...]) -> list[AnyBody]:
            summary = write_summary(
                self.log.state, "PROPOSED", why.reason, why.detail, made.files, unread=unread
            )
            proposal = ProposalMade(
                before=made.before,
                after=made.after,
                summary="\n".join([*trouble, summary]),
                files_changed=made.files,
                unread=unread,
            )
            return [proposal]

        await self._settle(propose, "PROPOSED")
        return build_report(self.log.state)

    async def keep_proposal(self, why: Decision) -> Report:
        """A proposal that could not be applied stays one. A conflict has been recorded where it was found."""
        refusal: list[AnyBody] = []
        trouble = await self._release()
        if why.reason != "conflict":
            detail = "\n".join(filter(None, [*trouble, why.detail]))
            refusal.append(ApplyRefused(reason=why.reason, detail=detail))
        await self._commit(refusal, "PROPOSED")
        return build_report(self.log.state)

    async def end(
        self, ending: TaskState, why: Decision, trace: str, *, is_proposing: bool, keep_conversation: bool
    ) -> Report:
        """Records how it ended, with what really differs in the tree, and writes the report."""
        log = self.log
        trouble = await self._release()
        changes = Changes() if is_proposing else await self._changes()

        def finish(unread: tuple[str, ...]) -> list[AnyBody]:
            summary = write_summary(
                log.state,
                ending,
                why.reason,
                why.detail,
                changes.files,
                changes.after_review,
                changes.not_in_diff,
                unread,
            )
            ended = TaskEnded(
                state=ending,
                verified=ending == "SUCCESS" and bool(log.state.passing_run),
                reason=why.reason,
                summary="\n".join(filter(None, [*trouble, summary])),
                files_changed=changes.files,
                tree=changes.tree,
                diffstat=changes.diffstat,
                traceback=trace,
                after_review=changes.after_review,
                not_in_diff=changes.not_in_diff,
                unread=unread,
            )
            return [*report_events(log.state, ended, self.now()), ended]

        await self._settle(finish, ending, keep_bodies=keep_conversation)
        if not keep_conversation:
            self.folder.forget_outputs(self.task.id)
        await asyncio.to_thread(self.folder.forget_sandbox, self.task.id)
        report = build_report(log.state)
        self._write(report)
        keep = {*report.run_ids, *self.store.failed_runs()}
        await asyncio.to_thread(prune_runs, self.folder.runs, keep, self.now())
        return report

    async def _changes(self) -> Changes:
        state = self.log.state
        may_change = any(stage.may_change for stage in state.nodes.values())
        if state.nodes and not may_change and not state.run_ids:
            # Nothing could write or run: what differs was changed by somebody else meanwhile.
            return Changes(tree=state.baseline)
        changes = await self.tree.final_changes(state.proposal.applied_tree)
        if stripped := self.tree.stripped:
            names = ", ".join(stripped[:_MOST_NAMED])
            more = f" and {len(stripped) - _MOST_NAMED} more files" if len(stripped) > _MOST_NAMED else ""
            sentence = f"{names}{more} had a setuid or setgid bit, which was removed."
            await self._commit([PrivilegesRemoved(sentence=sentence)], "RUNNING")
        return changes

    async def _release(self) -> list[str]:
        """Deletes the copies of protected files; returns lines about files that could not be restored."""
        place = self.folder.protected(self.task.id)
        known = self.protected
        try:
            if known is None and place.is_dir():
                known = await asyncio.to_thread(logged_protection, self.folder, self.task, self.log.state)
            restored = await asyncio.to_thread(release_protected, known, place) if known else ()
        except (HeadgateError, OSError) as error:
            reason = str(error).rstrip(".")
            return [f"Protected files could not be checked ({reason}): compare them with {place}."]
        for event in commit_events(() if self.protected else restored):  # otherwise they are recorded
            self.log.record("", 0, event)
        lost = [f"{one.path} ({one.reason}; {one.problem})" for one in restored if one.problem]
        if not lost:
            return []
        more = f" and {len(lost) - MOST_LOST} more" if len(lost) > MOST_LOST else ""
        listed = ", ".join(lost[:MOST_LOST]) + more
        return [
            f"Protected files were changed and could not be restored: {listed}.",
            f"Restore them by hand, with git or from {place}: all copies stay there.",
        ]

    async def _settle(
        self,
        conclude: Callable[[tuple[str, ...]], list[AnyBody]],
        state: TaskState,
        *,
        keep_bodies: bool = True,
    ) -> None:
        """Commits the events that settle the task, which tell of every line that nobody has read.

        A line that comes at the last moment is looked at: it is said to a task that has not ended.
        """
        while True:
            lines = self.store.lines(self.task.id)
            bodies = conclude(tuple(self.redact(clean_text(line.text)) for line in lines))
            last = lines[-1].number if lines else 0
            try:
                return await self._commit(bodies, state, keep_bodies=keep_bodies, last_line=last)
            except LineWaits:
                continue

    async def _commit(
        self,
        bodies: list[AnyBody],
        state: TaskState,
        *,
        keep_bodies: bool = True,
        last_line: int | None = None,
    ) -> None:
        commit = partial(self.log.commit_state, state, *bodies, keep_bodies=keep_bodies, last_line=last_line)
        try:
            await commit()
        except StoreError:
            if not self.folder.drop_ballast():
                raise
            await commit()

    def _write(self, report: Report) -> None:
        try:
            self.folder.write_report(report, self.log.state)
        except OSError:
            if not self.folder.drop_ballast():
                raise
            self.folder.write_report(report, self.log.state)


REFUSED = Decision("propose", "conflict")


async def settle_proposal(store: Store, task_id: str, state: TaskState, drafts: list[Draft]) -> Task:
    """Moves a task that is PROPOSED to another state, with the events that go with it.

    ConfigError if it is not, or no longer, a proposal.
    """
    row = store.task(task_id)
    if row is None or row.state != "PROPOSED":
        raise ConfigError(f"Task {task_id} is not a proposal: it is {row.state if row else 'gone'}.")
    try:
        await store.append(row.task.id, drafts, state, keep_bodies=False)
    except ImpossibleTransition:
        raise ConfigError(f"Task {task_id} was just applied or aborted elsewhere.") from None
    return row.task


async def discard_proposal(store: Store, task_id: str, at: float) -> Task:
    """Ends a proposal as cancelled. ConfigError if it is none."""
    row = store.task(task_id)
    unread = tuple(line.text for line in store.lines(row.task.id)) if row else ()
    ended = TaskEnded(
        state="CANCELLED", verified=False, reason="aborted", summary="", files_changed=(), unread=unread
    )
    told = report_events(fold(store.events(task_id)), ended, at)
    return await settle_proposal(
        store, task_id, "CANCELLED", [Draft("", 0, at, body) for body in (*told, ended)]
    )


async def apply_proposal(
    job: Job, tree: TaskTree, past: Iterable[Event], contents: Mapping[int, str]
) -> Decision | None:
    """Writes the task's proposal; None when it is in the tree, otherwise how the attempt ended.

    What is to be written is in the log, with hashes, before the first file is touched: a crash in between is
    made good by writing the rest.
    """
    workspace = job.context.workspace
    if job.state.proposal.step == "applying":
        changes = begun_changes(past, contents)
        todo = [_rest_of(change) if _has_content(tree, change) else change for change in changes]
    else:
        assert job.state.proposal.trees is not None
        fitted = await asyncio.to_thread(tree.fit, workspace, *job.state.proposal.trees)
        if isinstance(fitted, ProposalConflicts):
            return await _refuse(job, fitted.problems)
        changes = tuple(_with_mode(tree, change) for change in fitted.changes)
        todo = list(changes)
        baseline = await tree.begin()
        event = ApplyStarted(baseline=baseline, changes=tuple(map(hashes_of, changes)))
        job.log.record("", 0, event, encode_changes(changes))
        await job.log.commit()
    try:
        await uninterrupted(asyncio.to_thread(workspace.apply, todo))
    except ToolError as error:
        await asyncio.to_thread(undo_changes, workspace, tree, changes)
        return await _refuse(job, (str(error),))
    job.log.record("", 0, ApplyFinished(tree=(await tree.final_changes()).tree))
    await job.log.commit()
    return None


def begun_changes(past: Iterable[Event], contents: Mapping[int, str]) -> tuple[FileChange, ...]:
    """What was to be written when the proposal was last begun to be applied."""
    started = [event for event in past if isinstance(event.body, ApplyStarted)][-1]
    return decode_changes(contents[started.seq])


def is_written(tree: TaskTree, change: FileChange) -> bool:
    """Whether a change is in the tree, with the mode that belongs to it."""
    right = change.after is None or change.mode in (None, tree.mode_of(show_path(change.path)))
    return right and _has_content(tree, change)


def undo_changes(workspace: Workspace, tree: TaskTree, changes: Iterable[FileChange]) -> None:
    """Undoes the changes that are in the tree, when the others cannot or must not be written."""
    written = [change for change in changes if _has_content(tree, change)]
    workspace.apply(
        [
            FileChange(
                change.path,
                change.after,
                change.before,
                change.before_mode
                if isinstance(change, ProposedChange) and change.before is not None
                else None,
            )
            for change in written
        ]
    )


def abandon_apply(task: Task, folder: Folder, store: Store, tree: TaskTree) -> bool:
    """Undoes a proposal of which only a part is in the tree, when the rest will not be written.

    True if nothing of it is there any more. Blocks.
    """
    changes = begun_changes(store.events(task.id), store.contents(task.id))
    if all(is_written(tree, change) for change in changes):
        return False
    try:
        undo_changes(DiskWorkspace(folder.repo), tree, changes)
    except ToolError:
        return False  # somebody has changed a file since: it stays as it is, and the report names it
    return True


def _with_mode(tree: TaskTree, change: FileChange) -> ProposedChange:
    """The change with the mode that its file has now, which taking it back has to bring back."""
    mode = None if change.before is None else tree.mode_of(show_path(change.path))
    return ProposedChange(change.path, change.before, change.after, change.mode, mode)


def _has_content(tree: TaskTree, change: FileChange) -> bool:
    return tree.hash_of(show_path(change.path)) == change.after_hash


def _rest_of(change: FileChange) -> FileChange:
    """What may be left of a change whose content is there: the mode."""
    return FileChange(change.path, change.after, change.after, change.mode)


async def _refuse(job: Job, conflicts: tuple[str, ...]) -> Decision:
    job.log.record("", 0, ApplyRefused(conflicts=tuple(map(job.redact, conflicts))))
    await job.log.commit()
    return REFUSED

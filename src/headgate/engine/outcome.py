"""What comes of a task: a proposal, or an end with a report."""

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial

from headgate.checks import prune_runs
from headgate.core import (
    Body,
    Decision,
    Event,
    PrivilegesRemoved,
    ProposalMade,
    Proposed,
    RewriteRefused,
    Task,
    TaskEnded,
    TaskState,
    VerifyRuns,
    Workplace,
    WorktreeCommitted,
    WorktreeRemoved,
    clean_text,
)
from headgate.engine.authors import is_running_something
from headgate.engine.proposals import redact_unread
from headgate.engine.recovery import logged_protection, release_protected, restored_events
from headgate.engine.tree import Changes, TaskTree
from headgate.engine.worktree import commit_changes, has_commits, remove_worktree
from headgate.errors import HeadgateError, StoreError
from headgate.first_use import dataclass
from headgate.guard import Protected
from headgate.log import Folder, LineWaits, Report, Store, TaskLog, build_report, report_events, write_summary

MOST_LOST = 10
"""Protected files that are named if they could not be restored."""
_MOST_NAMED = 5


Conclude = Callable[[tuple[str, ...]], list[Body]]
"""The events that settle a task, given the lines of people that nobody has read."""


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
    redact: Callable[[str], str] | None = None
    """Replaces secrets, once this process has begun to carry the task out."""

    async def record(
        self, ending: TaskState, why: Decision, trace: str = "", *, keep_conversation: bool = True
    ) -> Report:
        """Records how it came out: as a proposal, which waits for `apply` or `abort`, or at its end."""
        trouble = await self._release()
        if ending != "PROPOSED":
            conclude = await self._end(ending, why, trace, trouble)
        elif self.log.state[Proposed].step == "proposed":
            conclude = self._refuse(why, trouble)
        else:
            conclude = await self._propose(why, trouble)
        await self._settle(conclude, ending, keep_bodies=keep_conversation)
        report = build_report(self.log.state)
        if ending != "PROPOSED":
            keep = {*report.run_ids, *self.store.failed_runs()}
            await asyncio.to_thread(self._clean_up, report, keep, keep_conversation=keep_conversation)
        return report

    async def _propose(self, why: Decision, trouble: list[str]) -> Conclude:
        made = await self.tree.record_proposal()

        def conclude(unread: tuple[str, ...]) -> list[Body]:
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

        return conclude

    def _refuse(self, why: Decision, trouble: list[str]) -> Conclude:
        """A proposal that could not be applied stays one. A conflict has been recorded where it was found."""
        detail = "\n".join(filter(None, [*trouble, why.detail]))
        refusal = RewriteRefused(purpose="apply", reason=why.reason, detail=detail)
        return lambda unread: [] if why.reason == "conflict" else [refusal]

    async def _end(self, ending: TaskState, why: Decision, trace: str, trouble: list[str]) -> Conclude:
        """With what really differs in the tree."""
        log = self.log
        is_proposing = self.task.dry_run and log.state[Proposed].trees is None
        changes = Changes() if is_proposing else await self._changes()

        def summarise(unread: tuple[str, ...] = ()) -> str:
            summary = write_summary(
                log.state,
                ending,
                why.reason,
                why.detail,
                changes.files,
                changes.after_review,
                changes.not_in_diff,
                unread,
                changes.shared,
            )
            return "\n".join(filter(None, [*trouble, summary]))

        ended = TaskEnded(
            state=ending,
            verified=ending == "SUCCESS" and bool(log.state[VerifyRuns].passing_run),
            reason=why.reason,
            summary=summarise(),
            files_changed=changes.files,
            tree=changes.tree,
            whole=changes.whole,
            shared=changes.shared,
            diffstat=changes.diffstat,
            traceback=trace,
            after_review=changes.after_review,
            not_in_diff=changes.not_in_diff,
        )
        closing, not_committed = await self._close_worktree(ended, changes)

        def conclude(unread: tuple[str, ...]) -> list[Body]:
            told = "\n".join(filter(None, [summarise(unread), not_committed]))
            last = ended.model_copy(update={"summary": told, "unread": unread})
            return [*report_events(log.state, last, self.now()), *closing, last]

        return conclude

    def _clean_up(self, report: Report, runs: AbstractSet[str], *, keep_conversation: bool) -> None:
        """Deletes what only a task that goes on needs, and other runs, and writes the report. Blocks."""
        if not keep_conversation:
            self.folder.forget_outputs(self.task.id)
        self.folder.forget_context()  # of a task that a crash cut short, too
        self.folder.forget_sandbox(self.task.id)
        self._write(report)
        prune_runs(self.folder.runs, runs, self.now())

    async def _close_worktree(
        self, ended: TaskEnded, changes: Changes
    ) -> tuple[list[WorktreeCommitted | WorktreeRemoved], str]:
        """Commits in the task's worktree if that was asked for, and removes one without any change.

        Returns the events for that, and a sentence if it could not be committed.
        """
        state = self.log.state
        if not state[Workplace].base:
            return [], ""
        if not changes.files:
            if await asyncio.to_thread(has_commits, self.folder, self.task.id, state[Workplace].base):
                return [], ""
            await asyncio.to_thread(remove_worktree, self.folder, self.task.id)
            return [WorktreeRemoved()], ""
        if not self.task.commit or ended.state != "SUCCESS":
            return [], ""
        after = state.after(Event(state.last_seq, state.task, "", 0, self.now(), ended))
        steps = [step.name for step in state[VerifyRuns].last_steps]
        files = [path for path in changes.files if path not in changes.not_in_diff]
        try:
            commit = await asyncio.to_thread(commit_changes, self.folder, build_report(after), steps, files)
        except (HeadgateError, OSError) as error:
            return [], f"Not committed: {str(error).rstrip('.')}."
        return [WorktreeCommitted(commit=commit)], ""

    async def _changes(self) -> Changes:
        state = self.log.state
        may_change = any(stage.may_change for stage in state.nodes.values())
        if state.nodes and not may_change and not state[VerifyRuns].run_ids:
            # Nothing could write or run: what differs was changed by somebody else meanwhile.
            return Changes(tree=state.baseline)
        if is_running_something(state):  # what it has changed until it was ended is its doing
            await self.tree.settle()
        changes = await self.tree.final_changes(state[Proposed].applied_tree)
        if changes.noticed:
            await self._commit([changes.noticed], "RUNNING")
        if stripped := self.tree.stripped:
            names = ", ".join(stripped[:_MOST_NAMED])
            more = f" and {len(stripped) - _MOST_NAMED} more files" if len(stripped) > _MOST_NAMED else ""
            sentence = f"{names}{more} had a setuid or setgid bit, which was removed."
            await self._commit([PrivilegesRemoved(sentence=sentence)], "RUNNING")
        return changes

    async def _release(self) -> list[str]:
        """Restores protected files for the last time; returns lines about those where that failed."""
        place = self.folder.protected(self.task.id)
        known = self.protected
        try:
            if known is None and place.is_dir():
                known = await asyncio.to_thread(logged_protection, self.folder, self.task, self.log.state)
            restored = await asyncio.to_thread(release_protected, known) if known else ()
        except (HeadgateError, OSError) as error:
            reason = str(error).rstrip(".")
            return [f"Protected files could not be checked ({reason}): compare them with {place}."]
        for event in restored_events(() if self.protected else restored):  # otherwise they are recorded
            self.log.record("", 0, event)
        lost = [f"{one.path} ({one.reason}; {one.problem})" for one in restored if one.problem]
        if not lost:
            return []
        more = f" and {len(lost) - MOST_LOST} more" if len(lost) > MOST_LOST else ""
        listed = ", ".join(lost[:MOST_LOST]) + more
        return [
            f"Protected files were changed and could not be restored: {listed}.",
            f"Restore them by hand, with git. What was replaced is in {place}.",
        ]

    async def _settle(
        self,
        conclude: Conclude,
        state: TaskState,
        *,
        keep_bodies: bool = True,
    ) -> None:
        """Commits the events that settle the task, which tell of every line that nobody has read.

        A line that comes at the last moment is looked at: it is said to a task that has not ended.
        """
        while True:
            lines = self.store.lines(self.task.id)
            redact = self.redact or redact_unread(self.folder.repo, self.log.state)
            bodies = conclude(tuple(redact(clean_text(line.text)) for line in lines))
            last = lines[-1].number if lines else 0
            try:
                return await self._commit(bodies, state, keep_bodies=keep_bodies, last_line=last)
            except LineWaits:
                continue

    async def _commit(
        self,
        bodies: list[Body],
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

"""Recording what came of a task: it is a proposal, or still one, or it has ended with a report."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headgate.checks import prune_runs
from headgate.core import (
    AnyBody,
    ApplyRefused,
    Decision,
    ProposalMade,
    Report,
    Task,
    TaskEnded,
    TaskState,
    build_report,
    report_events,
    write_summary,
)
from headgate.engine.interrupted import release_protected
from headgate.engine.own_files import commit_events
from headgate.engine.tree import Changes, TaskTree
from headgate.errors import HeadgateError, StoreError
from headgate.store import Folder, Store, TaskLog


@dataclass
class OutcomeRecorder:
    """Records what came of a task, even on a full disk."""

    task: Task
    folder: Folder
    store: Store
    log: TaskLog
    tree: TaskTree
    now: Callable[[], float]

    async def propose(self, why: Decision) -> Report:
        """A dry run waits for `apply` or `abort`."""
        made = await self.tree.record_proposal()
        summary = write_summary(self.log.state, "PROPOSED", why.reason, why.detail, made.files)
        proposal = ProposalMade(
            before=made.before, after=made.after, summary=summary, files_changed=made.files
        )
        await self._release()
        await self._commit([proposal], "PROPOSED")
        return build_report(self.log.state)

    async def keep_proposal(self, why: Decision) -> Report:
        """A proposal that could not be applied stays one. A conflict has been recorded where it was found."""
        refusal: list[AnyBody] = []
        if why.reason != "conflict":
            refusal.append(ApplyRefused(reason=why.reason, detail=why.detail))
        await self._release()
        await self._commit(refusal, "PROPOSED")
        return build_report(self.log.state)

    async def end(
        self, ending: TaskState, why: Decision, trace: str, *, is_proposing: bool, keep_conversation: bool
    ) -> Report:
        """Records how it ended, with what really differs in the tree, and writes the report."""
        log = self.log
        trouble = await self._release()
        changes = Changes() if is_proposing else await self._changes()
        summary = write_summary(
            log.state,
            ending,
            why.reason,
            why.detail,
            changes.files,
            changes.after_review,
            changes.not_in_diff,
        )
        ended = TaskEnded(
            state=ending,
            verified=ending == "SUCCESS" and bool(log.state.passing_run),
            reason=why.reason,
            summary="\n".join([summary, *trouble]) if summary else "",
            files_changed=changes.files,
            tree=changes.tree,
            diffstat=changes.diffstat,
            traceback=trace,
            after_review=changes.after_review,
            not_in_diff=changes.not_in_diff,
        )
        told = report_events(log.state, ended, self.now())
        await self._commit([*told, ended], ending, keep_bodies=keep_conversation)
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
        return await self.tree.final_changes(state.proposal.applied_tree)

    async def _release(self) -> list[str]:
        """Deletes the copies of protected files; returns sentences about files that could not be restored."""
        kept = f"their original content is kept in {self.folder.protected(self.task.id)}"
        try:
            restored = await asyncio.to_thread(release_protected, self.folder, self.task, self.log.state)
        except (HeadgateError, OSError) as error:
            return [f"Protected files could not be checked ({error}); {kept}."]
        for event in commit_events(restored):
            self.log.record("", 0, event)
        lost = [one.sentence() for one in restored if one.problem]
        return [*lost, f"For these files, {kept}."] if lost else []

    async def _commit(self, bodies: list[AnyBody], state: TaskState | None, keep_bodies: bool = True) -> None:
        try:
            await self._try_commit(bodies, state, keep_bodies)
        except StoreError:
            if not self.folder.drop_ballast():
                raise
            await self._try_commit(bodies, state, keep_bodies)

    async def _try_commit(self, bodies: list[AnyBody], state: TaskState | None, keep_bodies: bool) -> None:
        for body in bodies:
            self.log.record("", 0, body)
        await self.log.commit_state(state, keep_bodies=keep_bodies)

    def _write(self, report: Report) -> None:
        try:
            self.folder.write_report(report, self.log.state)
        except OSError:
            if not self.folder.drop_ballast():
                raise
            self.folder.write_report(report, self.log.state)

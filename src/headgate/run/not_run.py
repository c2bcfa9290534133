"""The stages of a round that do not run: each is recorded, with the reason."""

from collections.abc import Iterator, Mapping, Sequence

from headgate.core import (
    SKIP_JOIN,
    Decision,
    NeedEnding,
    Note,
    Stage,
    StageEnded,
    StageSkipped,
    blocking_need,
    join_path,
    split_path,
)
from headgate.run.job import Job
from headgate.run.round_record import RoundRecord


class SkippingRound(RoundRecord):
    """A round that records what does not run in it."""

    async def tell_absent(self) -> None:
        """Records the stages of which it is known now that they do not run in this round."""
        told, absent = self.job.state.tree.skipped.get(self.path, {}), self.absent(self.endings())
        for stage in self.stages if absent else ():
            reason = absent.get(stage.id, "")
            if reason and stage.id not in told:
                self.record_skip(stage, reason)
        await self.job.log.commit()

    async def tell_not_reached(self, why: Decision) -> None:
        """Records the stages that do not run because the flow ends here."""
        await self.tell_absent()
        ended, failed = self.endings(), self.fatal()
        absent, told = self.absent(ended), self.job.state.tree.skipped.get(self.path, {})
        for stage in self.stages:
            place = join_path(self.path, stage.id)
            known = stage.id in ended or stage.id in absent or stage.id in told or self.has_begun(stage)
            if not known and any(_announced(self.job, stage, place)):
                self.record_skip(stage, f"failed: {failed.id}" if failed else why.reason)
            elif (open_attempt := self.latest(stage.id)) and stage.id not in ended and not stage.is_group:
                self._record_cancelled(stage, open_attempt.path, "cancelled", _CANCELLED)
        await self.job.log.commit()

    def _record_cancelled(self, stage: Stage, path: str, reason: str, said: str) -> None:
        """Records the end of an attempt that ran beside others, and that nobody waits for any more."""
        skipped = StageEnded(stage=stage.id, ending="skipped", reason=reason, note=Note(summary=said))
        self.job.log.record(path, 0, skipped)

    def has_begun(self, stage: Stage) -> bool:
        place = join_path(self.path, stage.id)
        return bool(self.latest(stage.id)) or place in self.job.state.tree.rounds

    def record_skip(self, stage: Stage, reason: str) -> None:
        """Records why a stage does not run; for a group, also for each stage in it that people know of."""
        place = join_path(self.path, stage.id)
        inner = [item for item in _announced(self.job, stage, place) if item[0] != place]
        for where, each in ((place, stage), *inner):
            self.job.log.record(where, 0, StageSkipped(stage=each.id, reason=reason))

    async def skip_rest(self) -> Decision | None:
        """Records the stages that cannot run any more; returns what ends the flow if one was required."""
        ended = self.endings()
        if self.sent_back():
            return None
        absent = self.absent(ended)
        not_run = [stage for stage in self.stages if stage.id not in ended and stage.id not in absent]
        won = self.is_won(ended)
        reason, said = (SKIP_JOIN, "Not run: another stage of its group completed.") if won else _NEEDS
        unmet = self._unmet(not_run, self.need_endings(ended, absent))
        told = self.job.state.tree.skipped.get(self.path, {})
        for stage in not_run:
            if begun := self.latest(stage.id):
                self._record_cancelled(stage, begun.path, SKIP_JOIN, _CANCELLED)
                continue
            for place, leaf in _announced(self.job, stage, join_path(self.path, stage.id)):
                if leaf.id in self.job.state.tree.endings.get(split_path(place).parent, {}):
                    continue  # recorded before a crash
                note = Note(summary=said)
                skipped = StageEnded(stage=leaf.id, ending="skipped", reason=reason, note=note)
                self.job.log.record(place, 0, skipped)
            if stage.id not in told:
                self.record_skip(stage, SKIP_JOIN if won else unmet[stage.id])
        await self.job.log.commit()
        attempted = self.job.state.tree.attempts
        earlier = [
            stage for stage in self.stages if ended.get(stage.id) == "skipped" and stage.id not in attempted
        ]
        missing = next((stage for stage in (*not_run, *earlier) if stage.required), None)
        if missing is None or self.group.join == "any":
            return None
        named = [leaf for _, leaf in _announced(self.job, missing, "")]
        first = next(iter(named), None) or next(missing.leaves())
        lacks = "there is no plan" if any(leaf.foreach for leaf in missing.leaves()) else _LACKS
        return Decision("stuck", "stage_failed", f'Stage "{first.id}" could not run: {lacks}.')

    def _unmet(self, stages: Sequence[Stage], known: Mapping[str, NeedEnding]) -> dict[str, str]:
        """Why each of these stages cannot run: the stage that it needs, and how that one ended."""
        reasons: dict[str, str] = {}
        ended = dict(known)
        while len(reasons) < len(stages):
            found = {
                stage.id: why
                for stage in stages
                if stage.id not in reasons and (why := blocking_need(stage, ended))
            }
            if not found:  # there is no plan, or a condition names a stage that cannot run
                rest = next(stage for stage in stages if stage.id not in reasons)
                found = {rest.id: "needs: a plan" if rest.foreach else f"needs: {rest.when or '*'} unknown"}
            reasons |= found
            ended |= dict.fromkeys(found, "unmet")
        return reasons


_CANCELLED = "Cancelled: its result is not needed any more."
_LACKS = "a stage it needs did not complete"
_NEEDS = ("needs_not_met", "Not run: a stage it needs did not complete.")


def _announced(job: Job, stage: Stage, place: str) -> Iterator[tuple[str, Stage]]:
    """A stage, or those of a group, that people are told of, each with its place."""
    for child in stage.stages:
        yield from _announced(job, child, join_path(place, child.id))
    if not stage.is_group and stage.when not in ("again", "replan") and job.kinds[stage.kind].is_announced:
        yield place, stage

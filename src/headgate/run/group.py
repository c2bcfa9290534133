"""A group of stages: which one runs next, and whether the group goes round again.

The flow itself is the outermost group. What comes next follows from the state alone, so an interrupted task
continues where it was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from headgate.config import fill
from headgate.core import (
    CONCLUDED,
    REST,
    Decision,
    Ending,
    Note,
    ReplanStarted,
    Stage,
    StageEnded,
    StageState,
    condense_failures,
    cut_text,
    join_path,
    next_stage,
    split_path,
    stage_ids,
    times,
)
from headgate.run.job import Job
from headgate.run.stage import Entrance, FailedRounds, complete_stage, stage_failure

_MET = ("completed", "exhausted")


@dataclass
class RoundRecord:
    """What is known about one round. Everything here follows from the state."""

    job: Job
    group: Stage
    path: str
    number: int
    told: Entrance | None = None
    """What the group was entered with."""
    ended_groups: dict[str, Ending] = field(default_factory=dict)
    """The inner groups that have ended. The log does not tell: it follows from their stages."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        key = "/".join(stage_ids(self.path)) if self.path else ""
        return self.job.children(key, self.group.stages)

    def endings(self) -> Mapping[str, Ending]:
        """How stages have ended. A step of the plan that was completed in an earlier round stays so."""
        state = self.job.state
        ended = {**state.tree.endings.get(self.path, {}), **self.ended_groups}
        for stage in self.stages if self.number > 1 else ():
            done = stage.item and state.tree.attempts.get(stage.id)
            if done and done[-1].ending == "completed":
                ended[stage.id] = "completed"
        return ended

    def sent_back(self) -> Stage | None:
        """The stage that failed and sends the work back, so that another round is due."""
        if self.group.repeat is None:
            return None
        ended = self.endings()
        failed = [stage for stage in self.stages if ended.get(stage.id) == "failed"]
        return next((stage for stage in failed if self._sends_back(stage)), None)

    def _sends_back(self, stage: Stage) -> bool:
        if self.group.repeat is None:
            return False
        return stage.required if self._is_awaited(stage.id) else self.is_review(stage)

    def is_review(self, stage: Stage) -> bool:
        """Whether a stage sends the work back because of what it found, and not because it failed."""
        kind = self.job.kinds[stage.kind]
        if stage.stages or self.group.repeat is None or kind.send_back is None:
            return False
        return kind.finds_once or not self._is_awaited(stage.id)

    def _is_awaited(self, name: str) -> bool:
        """Whether the group repeats until this stage passes; steps of the plan stand for their template."""
        if self.group.repeat is None:
            return False
        awaited = self.group.repeat.until.rpartition(".")[0]
        template = any(stage.id == awaited and stage.foreach for stage in self.group.stages)
        return name == awaited or (template and name.startswith(f"{awaited}-"))

    def fatal(self) -> Stage | None:
        """The required stage because of which the flow fails."""
        ended = self.endings()
        if "failed" not in ended.values() or self.group.join == "any" or self.has_passed:
            return None
        failed = [stage for stage in self.stages if stage.required and ended.get(stage.id) == "failed"]
        return next((stage for stage in failed if not self._sends_back(stage)), None)

    def lost(self) -> Decision | None:
        """What ends the flow if one stage of the group was to complete, and none did."""
        if self.group.join == "all" or self.is_won(self.endings()):
            return None
        return Decision("stuck", "stage_failed", f'No stage of the group "{self.group.id}" completed.')

    @property
    def has_passed(self) -> bool:
        """Whether the round is there although the stage that the group waits for has passed: for a review."""
        before = self.number - 1
        passed = before > 0 and self.awaited_ended(before, "completed")
        return passed and not self.awaited_ended(before, "failed")

    def awaited_ended(self, number: int, ending: Ending) -> bool:
        """Whether the stage that the group waits for ended so in a round."""
        ended = self.job.state.tree.endings.get(self.round_path(number), {})
        return any(how == ending and self._is_awaited(name) for name, how in ended.items())

    def round_path(self, number: int) -> str:
        parent, _, _ = self.path.rpartition("/")
        return join_path(parent, self.group.id, number)

    def previous(self) -> Self:
        return type(self)(self.job, self.group, self.round_path(self.number - 1), self.number - 1)

    def latest(self, name: str) -> StageState | None:
        """The latest attempt at a stage in this round."""
        return self.job.state.tree.latest_at(join_path(self.path, name))

    def told_stage(self) -> str:
        """The stage that is told what failed: the first one that is a conversation, or has one in it."""
        for stage in self.group.stages:
            if stage.when != "replan" and any(self.job.kinds[leaf.kind].is_told for leaf in stage.leaves()):
                return stage.id
        return ""

    def failures(self) -> int:
        """How often the stage that the group waits for has failed in the task, also in outer rounds."""
        own = stage_ids(self.path)
        rounds = [ended for path, ended in self.job.state.tree.endings.items() if stage_ids(path) == own]
        failed = ((name, how) for ended in rounds for name, how in ended.items())
        return sum(how == "failed" and self._is_awaited(name) for name, how in failed)

    # Which stage is next.

    def next(self) -> Stage | None:
        """The stage to run now; None if the round is over."""
        ended = self.endings()
        if self.sent_back() or self.is_won(ended):
            return None
        absent = self.absent(ended)
        waiting = [stage for stage in self.stages if stage.id not in ended and stage.id not in absent]
        if begun := next((stage for stage in waiting if self.latest(stage.id)), None):
            return begun  # interrupted, or to be attempted again
        # What is absent stands in nobody's way.
        met: dict[str, Ending] = {**ended, **dict.fromkeys(absent, "completed")}
        ready = [stage for stage in waiting if not stage.foreach and self._is_decided(stage, met)]
        return next_stage(ready, met) or next_stage(ready, {**met, REST: "completed"})

    def is_won(self, ended: Mapping[str, Ending]) -> bool:
        return self.group.join == "any" and "completed" in ended.values()

    def absent(self, ended: Mapping[str, Ending]) -> set[str]:
        """The stages that do not run in this round. One that depends on such a stage may be one, too."""
        waiting = [stage for stage in self.stages if stage.id not in ended]
        absent: set[str] = set()
        while True:
            known: dict[str, Ending] = {**dict.fromkeys(absent, "skipped"), **ended}
            more = {stage.id for stage in waiting if not self._may_apply(stage, known)}
            if more <= absent:
                return absent
            absent |= more

    def _may_apply(self, stage: Stage, ended: Mapping[str, Ending]) -> bool:
        """Whether a stage is to run in this round, as far as that is known."""
        if self.latest(stage.id):
            return True
        match stage.when:
            case None:
                pass
            case "again":
                return self.number > 1
            case "replan":
                return self.path in self.job.state.tree.replanned
            case condition:
                name, wanted = _read_condition(condition)
                if name in ended and (_outcome(ended[name]) == wanted) == condition.startswith("not "):
                    return False
        return bool(stage.stages) or self.job.kinds[stage.kind].adapt(self.job, stage) is not None

    def _is_decided(self, stage: Stage, met: Mapping[str, Ending]) -> bool:
        """Whether it is known that the stage's condition holds: the stage that it names has ended."""
        if stage.when in (None, "again", "replan"):
            return True
        return _read_condition(stage.when or "")[0] in met


def _read_condition(condition: str) -> tuple[str, str]:
    """The stage that a condition names, and how it must have ended."""
    name, _, wanted = condition.removeprefix("not ").rpartition(".")
    return name, wanted


def _outcome(ending: Ending) -> str:
    return "passed" if ending in _MET else ending


REASON_CHARS = 1_000
MOST_REVIEWS = 10
_GIVES_WAY = ("stage_failed", "verify_loops", "no_progress")
"""Why a group fails that is not required, so that the flow goes on."""


async def run_group(
    job: Job, group: Stage, parent: str = "", place: str = "", told: Entrance | None = None
) -> Decision | None:
    """Runs the stages of a group, round by round; returns what ends the flow, None when the group is done.

    `told`: what the first round is told, in a group that is itself entered again.
    """
    number = job.state.tree.rounds.get(place, 1)
    while True:
        this = Round(job, group, join_path(parent, group.id, number) if place else "", number, told)
        if ended := await this.run():
            return ended
        failed = this.sent_back()
        if failed is None or group.repeat is None:
            return this.lost()
        following = Round(job, group, join_path(parent, group.id, number + 1), number + 1)
        if ended := await this.prepare(following, failed):
            return ended
        number += 1


class Round(RoundRecord):
    """One round of a group: runs its stages, and records what follows from how they ended."""

    async def run(self) -> Decision | None:
        """Runs one stage after the other; returns what ends the flow, None when no stage can run."""
        while True:
            await self._settle_told()
            await self._settle_pressure()
            if failed := self.fatal():
                return stage_failure(self.job, failed)
            stage = self.next()
            if stage is None:
                return await self._skip_rest()
            if ended := await self._run_stage(stage):
                await self._settle_told()
                return ended

    async def _run_stage(self, stage: Stage) -> Decision | None:
        if stage.stages:
            place, told = join_path(self.path, stage.id), self._entrance(stage)
            ended = await run_group(self.job, stage, self.path, place, told)
            gives_way = not stage.required and ended is not None and ended.reason in _GIVES_WAY
            self.ended_groups[stage.id] = "failed" if gives_way else "completed"
            return None if gives_way else ended
        decision = await complete_stage(self.job, stage, self.path, self._entrance(stage))
        if decision.action == "propose":
            return decision
        # Work that has passed is not given up because nothing came of what a review asked for.
        gives_way = self.has_passed and stage.id == self.told_stage()
        return decision if decision.action in ("infra", "stuck") and not gives_way else None

    def _entrance(self, stage: Stage) -> Entrance:
        state = self.job.state
        if stage.when == "replan":
            return Entrance("replan", self._replan_message(state.tree.replanned[self.path]))
        if stage.id != self.told_stage():
            return Entrance()
        failed = self.previous().sent_back() if self.number > 1 else None
        send_back = self.job.kinds[failed.kind].send_back if failed else None
        if failed is None or send_back is None:
            return (self.told if self.number == 1 else None) or Entrance()
        told = send_back(self.job, failed)
        return Entrance(told.reason, told.message, cut=self.path in state.tree.replanned)

    def _replan_message(self, item: str) -> str:
        state = self.job.state
        if not item:
            return fill("replan", count=times(state.verify_loops), failures=condense_failures(state.failures))
        failed = next((stage for stage in self.previous().stages if stage.item == item), None)
        note = state.notes.get(failed.id) if failed else None
        reason = cut_text(note.summary, REASON_CHARS, "the note") if note else "it was not finished"
        return fill("replan_step", item=item, reason=reason)

    async def _settle_pressure(self) -> None:
        """Records that what a review found is ignored if the task is to end: nothing can be revised then.

        It is recorded because it must hold later, too: a dry run that is concluded can still be applied.
        """
        if not self.job.is_pressed or self.group.repeat is None:
            return
        ended = self.endings()
        found = [stage for stage in self.stages if ended.get(stage.id) == "failed" and self.is_review(stage)]
        for stage in found:
            self._record_end(stage, "completed")
        before = self.previous().endings() if self.number > 1 else {}
        revises = any(before.get(stage.id) == "failed" and self.is_review(stage) for stage in self.stages)
        for stage in self.stages if revises else ():
            told = any(self.job.kinds[leaf.kind].is_told for leaf in stage.leaves())
            if told and stage.id not in ended and not self.latest(stage.id) and not stage.stages:
                self._record_end(stage, "skipped")
        await self.job.log.commit()

    def _record_end(self, stage: Stage, ending: Ending) -> None:
        body = StageEnded(stage=stage.id, ending=ending, reason=CONCLUDED, note=Note())
        self.job.log.record(join_path(self.path, stage.id), 0, body)

    async def _settle_told(self) -> None:
        """Lets the kind that sent the work back record the result, after the stage that it told has ended."""
        failed = self.previous().sent_back() if self.number > 1 else None
        after_told = self.job.kinds[failed.kind].after_told if failed else None
        if failed is None or after_told is None or self.latest(failed.id):
            return
        name = self.told_stage()
        told = self.latest(name)
        is_over = (
            told and told.ending is not None and join_path(self.path, name) not in self.job.state.tree.retries
        )
        if name in self.ended_groups or is_over:
            await after_told(self.job, told.path if told else join_path(self.path, name))

    async def prepare(self, following: "Round", failed: Stage) -> Decision | None:
        """Decides what follows this round; returns what ends the flow, None if the next round may begin."""
        repeat, job = self.group.repeat, self.job
        assert repeat is not None
        if self.is_review(failed):
            # Each check of a review sends the work back once; what goes on longer is no review.
            return stage_failure(job, failed) if self.number > 2 * repeat.max + MOST_REVIEWS else None
        numbers = range(1, self.number + 1)
        replans = [number for number in numbers if self.round_path(number) in job.state.tree.replanned]
        rounds = [number for number in numbers if self.awaited_ended(number, "failed")]
        since = [number for number in rounds if number >= max(replans, default=1)]
        counted = FailedRounds(self.failures(), len(since))
        kind = job.kinds[failed.kind]
        decision = kind.after_failure(job, failed, counted, repeat) if kind.after_failure else None
        if decision is None and counted.failures >= repeat.max:
            return stage_failure(job, failed)
        if decision and decision.action not in ("retry", "replan"):
            return decision
        due = decision.action == "replan" if decision else 0 < repeat.replan_every <= counted.since_replan
        replans_here = any(stage.when == "replan" for stage in self.group.stages)
        if due and replans_here and following.path not in job.state.tree.replanned:
            job.log.record(following.path, 0, ReplanStarted(loop=job.state.verify_loops, item=failed.item))
            await job.log.commit()
        return None

    async def _skip_rest(self) -> Decision | None:
        """Records the stages that cannot run any more; returns what ends the flow if one was required."""
        ended = self.endings()
        if self.sent_back():
            return None
        absent = self.absent(ended)
        not_run = [stage for stage in self.stages if stage.id not in ended and stage.id not in absent]
        won = self.is_won(ended)
        reason, said = ("join_any", "Not run: another stage of its group completed.") if won else _NEEDS
        for stage in not_run:
            for place, leaf in _announced(self.job, stage, join_path(self.path, stage.id)):
                if leaf.id in self.job.state.tree.endings.get(split_path(place).parent, {}):
                    continue  # recorded before a crash
                note = Note(summary=said)
                skipped = StageEnded(stage=leaf.id, ending="skipped", reason=reason, note=note)
                self.job.log.record(place, 0, skipped)
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


_LACKS = "a stage it needs did not complete"
_NEEDS = ("needs_not_met", "Not run: a stage it needs did not complete.")


def _announced(job: Job, stage: Stage, place: str) -> Iterator[tuple[str, Stage]]:
    """A stage, or those of a group, that people are told of, each with its place."""
    for child in stage.stages:
        yield from _announced(job, child, join_path(place, child.id))
    if not stage.stages and stage.when not in ("again", "replan") and job.kinds[stage.kind].is_announced:
        yield place, stage

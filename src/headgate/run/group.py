"""A group of stages: which one runs next, and whether the group goes round again.

The flow itself is the outermost group. What comes next follows from the state alone, so an interrupted task
continues where it was.
"""

from collections.abc import Sequence

from headgate.config import fill, prompt
from headgate.core import (
    CODE,
    CONCLUDED,
    SKIP_CONDITION,
    Decision,
    Ending,
    Note,
    ReplanStarted,
    Stage,
    StageEnded,
    condense_failures,
    cut_text,
    join_path,
    times,
)
from headgate.run.at_once import StagesAtOnce, may_run_beside
from headgate.run.attempts import complete_stage, stage_failure
from headgate.run.job import Job
from headgate.run.not_run import SkippingRound
from headgate.run.program_code import ProgramFailed, call_program
from headgate.run.stage import Entrance, FailedRounds

REASON_CHARS = 1_000
MOST_REVIEWS = 10
_NO_MODEL = ("model_unavailable", "model_refused")
_GIVES_WAY = ("stage_failed", "verify_loops", "no_progress")
"""Why a group fails that is not required, so that the flow goes on."""
_HANDED_BACK = ("stage_failed", "rounds_spent")
"""Why an execution of a recipe ends so that its planner goes on. What ends the debug loop ends the task."""


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
            await this.tell_not_reached(ended)
            return ended
        number += 1


def _gives_way(group: Stage) -> tuple[str, ...]:
    return _HANDED_BACK if group.execution else _GIVES_WAY


class Round(SkippingRound):
    """One round of a group: runs its stages, and records what follows from how they ended."""

    async def run(self) -> Decision | None:
        """Runs the stages; returns what ends the flow, None when no stage can run."""
        ended = await self._run_stages()
        if ended and ended.action == "stuck":
            await self.tell_not_reached(ended)
        return ended

    async def _run_stages(self) -> Decision | None:
        """Runs one stage after the other, or several at once where the group allows that."""
        beside = StagesAtOnce(self.job)
        try:
            while True:
                if not beside.stages:
                    await self._settle_told()
                    await self._settle_pressure()
                if failed := self.fatal():
                    return stage_failure(self.job, failed)
                if self.is_won(self.endings()):
                    await beside.cancel()
                async with beside.lock:
                    await self.tell_absent()
                ready = self.ready()
                if ready and self.is_spent() and not any(self.latest(stage.id) for stage in ready):
                    return Decision(
                        "stuck", "stage_failed", "The recipe has taken all the steps that it may."
                    )
                if not ready and not beside.stages:
                    return await self.skip_rest()
                ended = await self._run_ready(ready, beside) or await beside.wait()
                if ended and not await self._is_won_beside(beside):
                    return ended
        finally:
            await beside.cancel()

    async def _is_won_beside(self, beside: StagesAtOnce) -> bool:
        """Whether a stage completes that runs beside one that ends the flow, where one of them is enough."""
        while self.group.join == "any" and not self.is_won(self.endings()) and beside.stages:
            await beside.wait()
        return self.is_won(self.endings())

    async def _run_ready(self, ready: Sequence[Stage], beside: StagesAtOnce) -> Decision | None:
        """Starts what may run beside what runs already, or runs one stage; returns what ends the flow."""
        for stage in ready:
            at_once = self.group.max_parallel > 1 and may_run_beside(self.job, stage, self.path)
            if stage.id in beside.stages:
                continue
            if beside.stages and (not at_once or len(beside.stages) >= self.group.max_parallel):
                return None
            refused = await self.ask_code(stage)
            if refused == SKIP_CONDITION:
                async with beside.lock:
                    self.record_skip(stage, SKIP_CONDITION)
                    await self.job.log.commit()
                continue
            if refused:
                return Decision("stuck", "condition_failed", refused)
            if not at_once:
                ended = await self.run_stage(self.job, stage)
                if ended:
                    await self._settle_told()
                return ended
            beside.start(stage, self.run_stage)
        return None

    async def ask_code(self, stage: Stage) -> str:
        """Asks the function that decides whether a stage runs.

        Returns nothing if the stage runs, `condition` if not, and a sentence if the function failed.
        """
        if not (stage.when or "").startswith(CODE) or self.has_begun(stage):
            return ""
        name = (stage.when or "").removeprefix(CODE).strip()
        decides = self.job.code.get(name)
        if decides is None:
            return f'The condition of the stage "{stage.id}" cannot be asked: there is no function "{name}".'
        try:
            answer = await call_program(decides, self.situation(stage))
        except ProgramFailed as error:
            said = cut_text(str(error), REASON_CHARS, "it")
            return f'The condition of the stage "{stage.id}" failed: {said}'
        return "" if answer else SKIP_CONDITION

    async def run_stage(self, job: Job, stage: Stage) -> Decision | None:
        """Runs a stage, or a group, to its end; returns what ends the flow."""
        if stage.is_group:
            place, told = join_path(self.path, stage.id), self._entrance(stage)
            ended = await run_group(job, stage, self.path, place, told)
            gives_way = ended is not None and not stage.required and ended.reason in _gives_way(stage)
            self.ended_groups[stage.id] = "failed" if gives_way else "completed"
            return None if gives_way else ended
        decision = await complete_stage(job, stage, self.path, self._entrance(stage))
        if decision.action == "propose":
            return decision
        # Work that has passed is not given up because nothing came of what a review asked for, and no task
        # is because nothing came of a model that only looks around: it may not be the one that works.
        gives_way = self.has_passed and stage.id == self.told_stage()
        gives_way |= stage.id in job.scouting and decision.reason in _NO_MODEL
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
        told, kind = send_back(self.job, failed), self.job.kinds[stage.kind]
        replanned = self.path in state.tree.replanned
        order = kind.orders.get(told.order or told.reason, told.order)
        said = [told.message, prompt(order) if order else ""]
        said += [kind.tell_replan(self.job)] if kind.tell_replan and replanned else []
        return Entrance(told.reason, "\n\n".join(filter(None, said)), cut=replanned)

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
            if told and stage.id not in ended and not self.latest(stage.id) and not stage.is_group:
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
        told = next((stage for stage in self.group.stages if stage.id == self.told_stage()), None)
        replans_here = bool(told and job.kinds[told.kind].tell_replan)
        replans_here |= any(stage.when == "replan" for stage in self.group.stages)
        if due and replans_here and following.path not in job.state.tree.replanned:
            job.log.record(following.path, 0, ReplanStarted(loop=job.state.verify_loops, item=failed.item))
            await job.log.commit()
        return None

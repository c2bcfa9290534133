"""Runs a group of stages, round by round. What comes next is decided by the pure `decide_next`.

The flow itself is the outermost group.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field

from headgate.config import fill
from headgate.core import (
    CODE,
    SKIP_CONDITION,
    Decision,
    Ending,
    GroupRound,
    Next,
    Records,
    ReplanStarted,
    RoundEnd,
    Situation,
    Stage,
    VerifyRuns,
    all_stages,
    condense_failures,
    cut_text,
    decide_next,
    join_path,
    skip_stage,
    stage_ids,
    stages_concluded,
    stages_not_reached,
    times,
)
from headgate.first_use import dataclass
from headgate.run.at_once import StagesAtOnce, may_run_beside
from headgate.run.attempts import complete_stage, stage_failure
from headgate.run.job import Job
from headgate.run.program_code import ProgramFailed, call_program
from headgate.run.stage import (
    Conversation,
    Entrance,
    Judge,
    explain_failure,
    fact_stages,
    leader_of,
    say_failure,
)

REASON_CHARS = 1_000
MOST_FINDINGS = 10
_NO_MODEL = ("model_unavailable", "model_refused")
_MAY_FAIL = ("stage_failed", "verify_loops", "no_progress")
"""Why a group fails that is not required, so that the flow goes on."""
_HANDED_BACK = ("stage_failed", "rounds_spent")
"""Why a part of the work ends so that its leader goes on. What ends the debug loop ends the task."""


async def run_group(
    job: Job, group: Stage, parent: str = "", place: str = "", told: Entrance | None = None
) -> Decision | None:
    """Runs the stages of a group, round by round; returns what ends the flow, None when the group is done.

    `told`: what the first round is told, in a group that is itself entered again.
    """
    number = job.state.tree.rounds.get(place, 1)
    while True:
        this = GroupRun(job, group, join_path(parent, group.id, number) if place else "", number, told)
        if ended := await this.run():
            return ended
        now = this.now()
        if now.failed_stage is None:
            return this.none_completed()
        if ended := await this.begin_next_round(now, now.failed_stage):
            await this.record_not_reached(ended)
            return ended
        number += 1


@dataclass
class GroupRun:
    """One round of a group: runs its stages, and records those that do not run."""

    job: Job
    group: Stage
    path: str
    number: int = 1
    told: Entrance | None = None
    """What the group was entered with."""
    ended_groups: dict[str, Ending] = field(default_factory=dict)

    def now(self) -> GroupRound:
        """The round as the log tells it."""
        job, place = self.job, "/".join(stage_ids(self.path)) if self.path else ""
        return GroupRound(
            job.state.tree,
            self.group,
            job.children(place, self.group),
            self.path,
            self.number,
            roles=job.roles,
            ended_groups=self.ended_groups,
            applies=lambda stage: job.parts.kinds[stage.kind].adapt(job, stage) is not None,
            situation=lambda stage: situation_of(job, stage, self.ended_groups),
        )

    async def run(self) -> Decision | None:
        """Runs the stages; returns what ends the flow, None when no stage can run."""
        ended = await self._run_stages()
        if ended and ended.action == "stuck":
            await self.record_not_reached(ended)
        return ended

    async def _run_stages(self) -> Decision | None:
        """Runs one stage after the other, or several at once where the group allows that."""
        beside = StagesAtOnce(self.job)
        try:
            while True:
                if not beside.stages:
                    await self._record_fix()
                    await self._conclude_if_pressed()
                if self.now().one_completed:
                    await beside.cancel()
                following = await self.next(beside)
                if following.end and (following.end.how in ("failed", "spent") or not beside.stages):
                    return await self.finish(following.end)
                ended = await self._run_ready(following.ready, beside) or await beside.wait()
                if ended and not await self._completes_meanwhile(beside):
                    return ended
        finally:
            await beside.cancel()

    async def next(self, beside: StagesAtOnce | None = None) -> Next:
        """What follows. The stages of which it is known now that they do not run are recorded."""
        async with beside.lock if beside else nullcontext():
            following = decide_next(self.now(), is_spent=self._is_spent())
            await self.record(following.records)
        return following

    async def record(self, records: Records) -> None:
        """Records the stages that do not run."""
        for path, body in records:
            self.job.log.record(path, 0, body)
        await self.job.log.commit()

    async def _completes_meanwhile(self, beside: StagesAtOnce) -> bool:
        """Whether a stage completes that runs beside one that ends the flow, where one of them is enough."""
        while self.group.join == "any" and not self.now().one_completed and beside.stages:
            await beside.wait()
        return self.now().one_completed

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
                    await self.record(skip_stage(self.now(), stage, SKIP_CONDITION))
                continue
            if refused:
                return Decision("stuck", "condition_failed", refused)
            if not at_once:
                ended = await self.run_stage(self.job, stage)
                if ended:
                    await self._record_fix()
                return ended
            beside.start(stage, self.run_stage)
        return None

    async def ask_code(self, stage: Stage) -> str:
        """Asks the function that decides whether a stage runs.

        Returns nothing if the stage runs, `condition` if not, and a sentence if the function failed.
        """
        if not (stage.when or "").startswith(CODE) or self.now().has_begun(stage):
            return ""
        name = (stage.when or "").removeprefix(CODE).strip()
        decides = self.job.parts.code.get(name)
        if decides is None:
            return f'The condition of the stage "{stage.id}" cannot be asked: there is no function "{name}".'
        try:
            answer = await call_program(decides, situation_of(self.job, stage, self.ended_groups))
        except ProgramFailed as error:
            said = cut_text(str(error), REASON_CHARS, "it")
            return f'The condition of the stage "{stage.id}" failed: {said}'
        return "" if answer else SKIP_CONDITION

    async def run_stage(self, job: Job, stage: Stage) -> Decision | None:
        """Runs a stage, or a group, to its end; returns what ends the flow."""
        now, place = self.now(), join_path(self.path, stage.id)
        told = self._entrance(now, stage)
        if stage.is_group:
            ended = await run_group(job, stage, self.path, place, told)
            reasons = _HANDED_BACK if stage.execution else _MAY_FAIL
            may_fail = ended is not None and not stage.required and ended.reason in reasons
            self.ended_groups[stage.id] = "failed" if may_fail else "completed"
            return None if may_fail else ended
        decision = await complete_stage(job, stage, self.path, told)
        if decision.action == "propose":
            return decision
        # Work that has passed is not given up because nothing came of what a finding asked for, and no task
        # is because nothing came of a model that only looks around: it may not be the one that works.
        may_fail = now.has_passed and now.fixes(stage)
        may_fail |= stage.id in fact_stages(job) and decision.reason in _NO_MODEL
        return decision if decision.action in ("infra", "stuck") and not may_fail else None

    # What a stage is told when it is entered.

    def _entrance(self, now: GroupRound, stage: Stage) -> Entrance:
        if stage.when == "replan":
            return Entrance("replan", self._replan_message(now))
        if not now.fixes(stage):
            return Entrance()
        failed, judge = self._judge(now)
        if failed is None or judge is None:
            return (self.told if self.number == 1 else None) or Entrance()
        told, kind = judge.send_back(self.job, failed), self.job.parts.kinds[stage.kind]
        replanned = self.path in now.tree.replanned
        say = kind.say_failure if isinstance(kind, Conversation) else say_failure
        return Entrance(told.reason, say(self.job, told, replanned), cuts_view=replanned)

    def _judge(self, now: GroupRound) -> tuple[Stage | None, Judge | None]:
        """The stage that sent the work back in the round before, and its kind."""
        failed = now.previous.failed_stage if now.previous else None
        kind = self.job.parts.kinds[failed.kind] if failed else None
        return failed, kind if isinstance(kind, Judge) else None

    def _replan_message(self, now: GroupRound) -> str:
        state, item = self.job.state, now.tree.replanned[self.path]
        if not item:
            return fill(
                "replan",
                count=times(state[VerifyRuns].loops),
                failures=condense_failures(state[VerifyRuns].failures),
            )
        failed = next((stage for stage in now.stages if stage.item == item), None)
        note = state.notes.get(failed.id) if failed else None
        reason = cut_text(note.summary, REASON_CHARS, "the note") if note else "it was not finished"
        return fill("replan_step", item=item, reason=reason)

    # How the round ends.

    async def record_not_reached(self, why: Decision) -> None:
        """Records the stages that do not run because the flow ends here."""
        await self.next()
        await self.record(stages_not_reached(self.now(), why.reason))

    async def finish(self, end: RoundEnd) -> Decision | None:
        """Ends the round; returns what ends the flow. The stages that cannot run any more are recorded."""
        await self.record(end.records)
        if end.how == "spent":
            return Decision("stuck", "stage_failed", "All the steps that may be taken were taken.")
        if end.stage is None or end.how == "sent_back":
            return None
        if end.how == "failed":
            return stage_failure(self.job, end.stage)
        first = next((leaf for _, leaf in self.now().announced(end.stage)), None) or next(end.stage.leaves())
        has_no_plan = any(leaf.foreach for leaf in end.stage.leaves())
        lacks = "there is no plan" if has_no_plan else "a stage it needs did not complete"
        return Decision("stuck", "stage_failed", f'Stage "{first.id}" could not run: {lacks}.')

    def none_completed(self) -> Decision | None:
        """What ends the flow if one stage of the group was to complete, and none did."""
        now = self.now()
        if self.group.join == "all" or now.one_completed:
            return None
        tried = [one for one in reversed(now.stages) if not one.is_group and now.latest(one.id)]
        told = (explain_failure(self.job, stage) for stage in tried)
        why = next(filter(None, told), f'No stage of the group "{self.group.id}" completed.')
        return Decision("stuck", "stage_failed", why)

    async def _record_fix(self) -> None:
        """Lets the kind that sent the work back record the fix, once the stage that fixes has ended."""
        now = self.now()
        failed, judge = self._judge(now)
        if failed is None or judge is None or now.latest(failed.id) or now.fixing_stage is None:
            return
        name = now.fixing_stage.id
        place, fixed = join_path(self.path, name), now.latest(name)
        is_over = fixed and fixed.ending is not None and place not in now.tree.retries
        if name in self.ended_groups or is_over:
            await judge.record_fix(self.job, fixed.path if fixed else place)

    async def _conclude_if_pressed(self) -> None:
        """Records what is left out because the task is to end; see `stages_concluded`.

        It is recorded because it must hold later, too: a dry run that is concluded can still be applied.
        """
        if self.job.must_end:
            await self.record(stages_concluded(self.now()))

    async def begin_next_round(self, now: GroupRound, failed: Stage) -> Decision | None:
        """Decides what follows this round; returns what ends the flow, None if the next round may begin."""
        repeat, job = self.group.repeat, self.job
        assert repeat is not None
        if now.reports_finding(failed):
            # Each finding sends the work back once; what goes on longer is none.
            return stage_failure(job, failed) if self.number > 2 * repeat.max + MOST_FINDINGS else None
        counted, kind = now.count_failures(), job.parts.kinds[failed.kind]
        decision = kind.after_failure(job, failed, counted, repeat) if isinstance(kind, Judge) else None
        if decision is None and counted.failures >= repeat.max:
            return stage_failure(job, failed)
        if decision and decision.action not in ("retry", "replan"):
            return decision
        due = decision.action == "replan" if decision else 0 < repeat.replan_every <= counted.since_replan
        following = now.path_of(self.number + 1)
        if due and now.can_replan and following not in now.tree.replanned:
            job.log.record(following, 0, ReplanStarted(loop=job.state[VerifyRuns].loops, item=failed.item))
            await job.log.commit()
        return None

    def _is_spent(self) -> bool:
        """Whether the part of the work that the group belongs to has taken all the steps that it may."""
        leader, number = leader_of(self.job), self.group.execution
        return leader is not None and number > 0 and leader.is_spent(self.job, number)


def situation_of(job: Job, stage: Stage, ended_groups: Mapping[str, Ending]) -> Situation:
    """What the condition of a stage can look at."""
    state, tree = job.state, job.state.tree
    ids = list(dict.fromkeys((*(one.id for one in all_stages(job.flow.stages)), *tree.attempts)))
    notes = {name: state.notes.get(name) for name in ids}
    results = {name: note.output if note and note.accepted else None for name, note in notes.items()}
    skipped = {name for stages in tree.skipped.values() for name in stages}

    def status(name: str) -> str:
        if entered := tree.attempts.get(name):
            return entered[-1].ending or "running"
        return ended_groups.get(name) or ("skipped" if name in skipped else "pending")

    # Flows and stages have variables where the library gives them some.
    leader = leader_of(job) if stage.execution else None
    made = leader.variables(job) if leader else {}
    variables = {**job.flow.variables, **made, **stage.variables}
    return Situation(results, variables, {name: status(name) for name in ids})

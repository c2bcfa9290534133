"""What runs next in a group of stages, what is left out, and how a round of it ends.

Pure: it follows from the attempts on record and from what the kinds of the stages declare. So a task that was
interrupted goes on where it was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from headgate.core.attempt import CONCLUDED, StageState
from headgate.core.conditions import CODE, Situation, holds, read_ending
from headgate.core.flow import REST, Ending, Stage
from headgate.core.flow_check import awaited_by
from headgate.core.needs import (
    SKIP_CONDITION,
    SKIP_JOIN,
    SKIP_ON_SKIP,
    NeedEnding,
    blocking_need,
    ready_stages,
    skips_with,
)
from headgate.core.notes import Note
from headgate.core.stage_events import StageEnded, StageSkipped
from headgate.core.tree import TreeState, join_path, split_path, stage_ids
from headgate.first_use import dataclass

Role = Literal[
    "quiet",
    "conversation",
    "receives_failures",
    "rewrites_plan",
    "sends_back",
    "reports_once",
    "may_not_apply",
    "skips_quietly",
    "runs_beside",
]
"""What a kind of stage declares about itself.

quiet: people are not told that such a stage starts or does not run; its events say enough.
conversation: the model calls tools in it, and can be made to conclude.
receives_failures: it can be told what failed in the round before, and fix it.
rewrites_plan: it rewrites the plan itself when that is due.
sends_back: if it fails, the stages of its group run again.
reports_once: what it sends back is a finding, not a failure. Each is told once, and is then a warning.
may_not_apply: there may be nothing to do for it.
skips_quietly: stages that do not run because of how it ended are no news to people.
runs_beside: it may run while others do, unless it has tools that write or run commands.
"""

_MET = ("completed", "exhausted")
_RUNTIME = ("again", "replan")
"""Conditions about the rounds themselves: what they leave out is no news."""


Record = tuple[str, StageSkipped | StageEnded]
Records = Sequence[Record]
"""What is to be recorded of stages that do not run, each with its path."""


class RoundEnd(NamedTuple):
    """How a round of a group ended."""

    how: Literal["failed", "spent", "sent_back", "one_completed", "over"]
    """failed: a required stage failed. spent: the group has taken all the steps that it may. sent_back: a
    stage failed and sends the work back. one_completed: one stage was enough. over: nothing can run."""
    stage: Stage | None = None
    """The stage that failed or sends the work back; or one that is required and could not run."""
    records: Records = ()
    """The stages that cannot run any more."""


class Next(NamedTuple):
    """What follows in a group."""

    ready: tuple[Stage, ...]
    """The stages that may run now, the first one first."""
    records: Records
    """The stages of which it is known now that they do not run."""
    end: RoundEnd | None
    """How the round ended, once none of its stages runs; None while there is something to run."""


class FailedRounds(NamedTuple):
    """How often the stage that a group repeats for has failed."""

    failures: int
    since_replan: int
    """Of these, those since the plan was last rewritten."""


@dataclass(frozen=True)
class GroupRound:
    """One round of a group as it stands. It holds for as long as nothing is added to the tree."""

    tree: TreeState
    group: Stage
    stages: tuple[Stage, ...]
    """The stages of the group, with those made for the plan as it stands."""
    path: str = ""
    number: int = 1
    roles: Mapping[str, frozenset[Role]] = field(default_factory=dict)
    """What each kind of stage declares, by its name."""
    ended_groups: Mapping[str, Ending] = field(default_factory=dict)
    """The inner groups that have ended. The tree does not tell: it follows from their stages."""
    applies: Callable[[Stage], bool] = lambda stage: True
    """Whether there is something to do for a stage that may not apply."""
    situation: Callable[[Stage], Situation] = lambda stage: Situation()
    """What the condition of a stage can look at."""

    def has(self, stage: Stage, role: Role) -> bool:
        """Whether the kind of a stage has a role; a group has none."""
        return not stage.is_group and role in self.roles.get(stage.kind, ())

    def latest(self, name: str) -> StageState | None:
        """The latest attempt at a stage in this round."""
        return self.tree.latest_at(join_path(self.path, name))

    def has_begun(self, stage: Stage) -> bool:
        """Whether a stage, or a group, was begun in this round."""
        return bool(self.latest(stage.id)) or join_path(self.path, stage.id) in self.tree.rounds

    @cached_property
    def recorded(self) -> Mapping[str, str]:
        """The stages that are on record as not run in this round, with why."""
        return self.tree.skipped.get(self.path, {})

    def announced(self, stage: Stage, place: str = "") -> Iterator[tuple[str, Stage]]:
        """A stage, or those of a group, that people are told of, each with its place."""
        place = place or join_path(self.path, stage.id)
        for child in stage.stages:
            yield from self.announced(child, join_path(place, child.id))
        if not stage.is_group and stage.when not in _RUNTIME and not self.has(stage, "quiet"):
            yield place, stage

    # How the stages ended.

    @cached_property
    def endings(self) -> Mapping[str, Ending]:
        """How stages have ended. A step of the plan that was completed in an earlier round stays so."""
        ended = {**self.tree.endings.get(self.path, {}), **self.ended_groups}
        for stage in self.stages if self.number > 1 else ():
            done = stage.item and self.tree.attempts.get(stage.id)
            if (done and done[-1].ending == "completed") or self._is_done_step(stage):
                ended[stage.id] = "completed"
        return ended

    def _is_done_step(self, stage: Stage) -> bool:
        """Whether a step in a part of the work that is carried out again has completed before."""
        if not self.group.execution or "." in self.group.id:
            return False
        attempts = [self.tree.attempts.get(leaf.id) for leaf in stage.leaves()]
        return all(tried and tried[-1].ending in _MET for tried in attempts)

    @property
    def one_completed(self) -> bool:
        """Whether one stage is enough for the group, and one has completed."""
        return self.group.join == "any" and "completed" in self.endings.values()

    @cached_property
    def failed_stage(self) -> Stage | None:
        """The stage that failed and sends the work back, so that another round is due."""
        return next(filter(self._sends_back, self.failed), None)

    @cached_property
    def fatal_stage(self) -> Stage | None:
        """The required stage because of which the group fails."""
        if self.group.join == "any" or self.has_passed:
            return None
        return next((one for one in self.failed if one.required and not self._sends_back(one)), None)

    @property
    def failed(self) -> list[Stage]:
        """The stages that failed."""
        if "failed" not in self.endings.values():
            return []
        return [stage for stage in self.stages if self.endings.get(stage.id) == "failed"]

    def _sends_back(self, stage: Stage) -> bool:
        if self.group.repeat is None:
            return False
        return stage.required if self._is_awaited(stage.id) else self.reports_finding(stage)

    def reports_finding(self, stage: Stage) -> bool:
        """Whether a stage sends the work back because of what it found, and not because it failed."""
        if self.group.repeat is None or not self.has(stage, "sends_back"):
            return False
        return self.has(stage, "reports_once") or not self._is_awaited(stage.id)

    def _is_awaited(self, name: str) -> bool:
        """Whether the group repeats until this stage passes; steps of the plan stand for their template."""
        if self.group.repeat is None:
            return False
        awaited = self.group.repeat.until.rpartition(".")[0]
        template = any(stage.id == awaited and stage.foreach for stage in self.group.stages)
        return name == awaited or (template and name.startswith(f"{awaited}-"))

    # The rounds before.

    def path_of(self, number: int) -> str:
        """The path of another round of the group."""
        return join_path(self.path.rpartition("/")[0], self.group.id, number)

    @cached_property
    def previous(self) -> "GroupRound | None":
        """The round before this one."""
        if self.number == 1:
            return None
        number = self.number - 1
        return replace(self, path=self.path_of(number), number=number, ended_groups={})

    @property
    def has_passed(self) -> bool:
        """Whether the stage that the group waits for has passed, so that this round is for a finding."""
        before = self.number - 1
        return self._has_ended(before, "completed") and not self._has_ended(before, "failed")

    def _has_ended(self, number: int, ending: Ending) -> bool:
        """Whether the stage that the group waits for ended so in a round."""
        ended = self.tree.endings.get(self.path_of(number), {}) if number else {}
        return any(how == ending and self._is_awaited(name) for name, how in ended.items())

    def count_failures(self) -> FailedRounds:
        """How often the stage that the group waits for has failed, in this and in earlier rounds.

        All failures of the task count, also those in other rounds of the groups around this one.
        """
        own = stage_ids(self.path)
        every = [ended for path, ended in self.tree.endings.items() if stage_ids(path) == own]
        failed = sum(
            how == "failed" and self._is_awaited(name) for ended in every for name, how in ended.items()
        )
        numbers = range(1, self.number + 1)
        begins = max((one for one in numbers if self.path_of(one) in self.tree.replanned), default=1)
        return FailedRounds(failed, sum(self._has_ended(one, "failed") for one in numbers if one >= begins))

    @property
    def fixing_stage(self) -> Stage | None:
        """The stage that is told what failed: the first one that can be told, or has one in it that can."""
        stages = (stage for stage in self.group.stages if stage.when != "replan")
        return next(filter(self.receives_failures, stages), None)

    def fixes(self, stage: Stage) -> bool:
        """Whether it is this stage that is told what failed."""
        return self.fixing_stage is not None and self.fixing_stage.id == stage.id

    def receives_failures(self, stage: Stage) -> bool:
        """Whether a stage, or one in it, can be told what failed."""
        return any(self.has(leaf, "receives_failures") for leaf in stage.leaves())

    @property
    def can_replan(self) -> bool:
        """Whether a stage of the group rewrites the plan when that is due."""
        told = self.fixing_stage
        own = bool(told and "rewrites_plan" in self.roles.get(told.kind, ()))
        return own or any(stage.when == "replan" for stage in self.group.stages)

    # What does not run.

    @cached_property
    def absent(self) -> Mapping[str, str]:
        """The stages that do not run in this round, each with why; it is empty if nobody is told.

        A stage that depends on such a stage may be one, too.
        """
        waiting = [
            stage for stage in self.stages if stage.id not in self.endings and self._is_optional(stage)
        ]
        absent: dict[str, str] = {}
        while True:
            known: dict[str, Ending] = {**dict.fromkeys(absent, "skipped"), **self.endings}
            found = {stage.id: self._why_absent(stage, known, absent) for stage in waiting}
            more = {name: why for name, why in found.items() if why is not None}
            if more.keys() <= absent.keys():
                return absent
            absent |= more

    def _is_optional(self, stage: Stage) -> bool:
        return stage.when is not None or stage.on_skip == "skip" or self.has(stage, "may_not_apply")

    def _why_absent(self, stage: Stage, known: Mapping[str, Ending], absent: Mapping[str, str]) -> str | None:
        """Why a stage does not run in this round, as far as that is known; None if it may run."""
        if stage.id in absent:
            return absent[stage.id]
        if not self._may_apply(stage, known):
            return SKIP_CONDITION if self._is_news(stage) else ""
        if stage.on_skip != "skip" or self.latest(stage.id):
            return None
        ended = {name: known[name] for name in stage.needs if name in known and name not in absent}
        return SKIP_ON_SKIP if skips_with(stage, self._as_needed(ended, absent)) else None

    def _is_news(self, stage: Stage) -> bool:
        """Whether people are told that a stage's condition does not hold."""
        if stage.when is None or stage.when in _RUNTIME:
            return False
        named = awaited_by(stage, self.group.stages)
        return not any(one.id in named and self.has(one, "skips_quietly") for one in self.group.stages)

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
                return self.path in self.tree.replanned
            case condition if self._fails(stage, condition, ended):
                return False
        return not self.has(stage, "may_not_apply") or self.applies(stage)

    def _fails(self, stage: Stage, condition: str, ended: Mapping[str, Ending]) -> bool:
        """Whether it is known that a condition does not hold."""
        if condition.startswith(CODE):  # it was asked when the stage was about to run
            return self.recorded.get(stage.id) == SKIP_CONDITION
        if not all(name in ended for name in awaited_by(stage, self.group.stages)):
            return False
        if named := read_ending(condition):
            name, wanted = named
            outcome = "passed" if ended[name] in _MET else ended[name]
            return (outcome == wanted) == condition.startswith("not ")
        return not holds(condition, self.situation(stage))

    # What runs.

    @cached_property
    def ready(self) -> tuple[Stage, ...]:
        """The stages that may run now, the first one first; none if the round is over."""
        if self.failed_stage or self.one_completed:
            return ()
        waiting = [one for one in self.stages if one.id not in self.endings and one.id not in self.absent]
        # Interrupted, or to be attempted again.
        begun = [one for one in waiting if one.id in self.tree.attempts and self.latest(one.id)]
        known = self._as_needed(self.endings, self.absent)
        rest: Mapping[str, NeedEnding] = {**known, REST: "completed"}
        free = [
            stage
            for stage in waiting
            # The first look is cheap: where many stages wait, most of them wait for one that has not ended.
            if (not stage.needs or stage.needs[0] in rest)
            and stage not in begun
            and not stage.foreach
            # A function of the program is asked when its stage is about to run.
            and all(name in known for name in awaited_by(stage, self.group.stages))
        ]
        ready = ready_stages(free, known)
        if not begun and not ready:
            ready = ready_stages(free, rest)[:1]
        return (*begun, *ready)

    def _as_needed(self, ended: Mapping[str, Ending], absent: Mapping[str, str]) -> dict[str, NeedEnding]:
        """How the stages that have ended, or do not run, look to the stages that need them."""
        known: dict[str, NeedEnding] = {**dict.fromkeys(absent, "absent"), **ended}
        for name in [name for name, how in ended.items() if how == "skipped"]:
            if not self.latest(name) and self.recorded.get(name, "").startswith("needs:"):
                known[name] = "unmet"
        return known

    def why_not(self, stages: Sequence[Stage]) -> dict[str, str]:
        """Why each of these stages cannot run: the stage that it needs, and how that one ended."""
        reasons: dict[str, str] = {}
        ended = self._as_needed(self.endings, self.absent)
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


def decide_next(this: GroupRound, *, is_spent: bool = False) -> Next:
    """What runs next in a round, what is to be recorded as skipped, and how the round ended.

    `is_spent`: the group has taken all the steps that it may, so that nothing new begins.
    """
    known = [(stage, this.absent[stage.id]) for stage in this.stages if stage.id in this.absent]
    news = [(stage, why) for stage, why in known if why and stage.id not in this.recorded]
    records = [record for stage, why in news for record in skip_stage(this, stage, why)]
    return Next(this.ready, records, _round_end(this, is_spent))


def _round_end(this: GroupRound, is_spent: bool) -> RoundEnd | None:
    if this.fatal_stage:
        return RoundEnd("failed", this.fatal_stage)
    if this.ready:
        nothing_begun = not any(this.latest(stage.id) for stage in this.ready)
        return RoundEnd("spent") if is_spent and nothing_begun else None
    if this.failed_stage:
        return RoundEnd("sent_back", this.failed_stage)
    left = [one for one in this.stages if one.id not in this.endings and one.id not in this.absent]
    if this.one_completed:
        reasons = {one.id: SKIP_JOIN for one in left}
        return RoundEnd("one_completed", None, _leave_out(this, left, reasons, _NOT_NEEDED))
    never = [one for one in this.stages if this.endings.get(one.id) == "skipped"]
    earlier = [one for one in never if one.id not in this.tree.attempts]
    missing = next((stage for stage in (*left, *earlier) if stage.required), None)
    records = _leave_out(this, left, this.why_not(left), _UNMET)
    return RoundEnd("over", None if this.group.join == "any" else missing, records)


_CANCELLED = "Cancelled: its result is not needed any more."
_NOT_NEEDED = (SKIP_JOIN, "Not run: another stage of its group completed.")
_UNMET = ("needs_not_met", "Not run: a stage it needs did not complete.")


def skip_stage(this: GroupRound, stage: Stage, reason: str) -> Records:
    """The record of a stage that does not run; for a group, also of each stage in it that people know of."""
    place = join_path(this.path, stage.id)
    inner = [item for item in this.announced(stage) if item[0] != place]
    return [(where, StageSkipped(stage=one.id, reason=reason)) for where, one in ((place, stage), *inner)]


def _end(path: str, stage: Stage, ending: Ending, reason: str, said: str = "") -> tuple[str, StageEnded]:
    """The record of a stage that ends although nobody has carried it out to its end."""
    return path, StageEnded(stage=stage.id, ending=ending, reason=reason, note=Note(summary=said))


def _leave_out(
    this: GroupRound, stages: Sequence[Stage], reasons: Mapping[str, str], words: tuple[str, str]
) -> Records:
    """The records of stages that do not run any more when a round is over."""
    records: list[Record] = []
    for stage in stages:
        if begun := this.latest(stage.id):  # it ran beside others
            records.append(_end(begun.path, stage, "skipped", SKIP_JOIN, _CANCELLED))
            continue
        for place, leaf in this.announced(stage):
            if leaf.id not in this.tree.endings.get(split_path(place).parent, {}):  # before a crash
                records.append(_end(place, leaf, "skipped", *words))
        if stage.id not in this.recorded:
            records += skip_stage(this, stage, reasons[stage.id])
    return records


def stages_not_reached(this: GroupRound, why: str) -> Records:
    """The records of stages that do not run because the flow ends here.

    `why` is the reason where no stage of this group has failed.
    """
    records: list[Record] = []
    known = {*this.endings, *this.absent, *this.recorded}
    reason = f"failed: {this.fatal_stage.id}" if this.fatal_stage else why
    for stage in this.stages:
        begun = this.latest(stage.id)
        if stage.id not in known and not this.has_begun(stage) and any(this.announced(stage)):
            records += skip_stage(this, stage, reason)
        elif begun and stage.id not in this.endings and not stage.is_group:
            records.append(_end(begun.path, stage, "skipped", "cancelled", _CANCELLED))
    return records


def stages_concluded(this: GroupRound) -> Records:
    """The records of stages that end at once because the task is to end now.

    Nothing can be revised any more. So what was found in the diff is ignored, and so is the stage that would
    have dealt with it.
    """
    if this.group.repeat is None:
        return []
    path, ended = this.path, this.endings
    found = [stage for stage in this.failed if this.reports_finding(stage)]
    records = [_end(join_path(path, stage.id), stage, "completed", CONCLUDED) for stage in found]
    before = this.previous.failed if this.previous else []
    for stage in this.stages if any(map(this.reports_finding, before)) else ():
        waits = stage.id not in ended and not this.latest(stage.id) and not stage.is_group
        if waits and this.receives_failures(stage):
            records.append(_end(join_path(path, stage.id), stage, "skipped", CONCLUDED))
    return records

"""What is known about one round of a group: how its stages ended, and which one is next.

Everything here follows from the state, so an interrupted task continues where it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from headgate.core import (
    CODE,
    RESEARCH_TOOL,
    REST,
    SKIP_CONDITION,
    SKIP_ON_SKIP,
    Decision,
    Ending,
    NeedEnding,
    Situation,
    Stage,
    StageState,
    all_stages,
    awaited_by,
    gives_research,
    holds,
    is_spent,
    join_path,
    read_ending,
    ready_stages,
    skips_with,
    stage_ids,
)
from headgate.run.job import Job
from headgate.run.stage import Entrance, as_it_is

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
    _looked_at: tuple[Stage, ...] = field(default=(), init=False, repr=False)
    _found_optional: tuple[Stage, ...] = field(default=(), init=False, repr=False)

    @property
    def stages(self) -> tuple[Stage, ...]:
        key = "/".join(stage_ids(self.path)) if self.path else ""
        return self.job.children(key, self.group.stages)

    @property
    def _optional(self) -> tuple[Stage, ...]:
        """The stages that might not run in a round: those with a condition, and those that may be skipped."""
        stages = self.stages
        if self._looked_at is not stages:
            self._looked_at = stages
            self._found_optional = tuple(stage for stage in stages if self._is_optional(stage))
        return self._found_optional

    def _is_optional(self, stage: Stage) -> bool:
        adapts = not stage.is_group and self.job.kinds[stage.kind].adapt is not as_it_is
        return stage.when is not None or stage.on_skip == "skip" or adapts

    def endings(self) -> Mapping[str, Ending]:
        """How stages have ended. A step of the plan that was completed in an earlier round stays so."""
        state = self.job.state
        ended = {**state.tree.endings.get(self.path, {}), **self.ended_groups}
        for stage in self.stages if self.number > 1 else ():
            done = stage.item and state.tree.attempts.get(stage.id)
            if (done and done[-1].ending == "completed") or self._is_done_step(stage):
                ended[stage.id] = "completed"
        return ended

    def _is_done_step(self, stage: Stage) -> bool:
        """Whether a step of a recipe that is carried out again has completed before, or all that is in it."""
        if not self.group.execution or "." in self.group.id:
            return False
        attempts = [self.job.state.tree.attempts.get(leaf.id) for leaf in stage.leaves()]
        return all(tried and tried[-1].ending in _MET for tried in attempts)

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
        if stage.is_group or self.group.repeat is None or kind.send_back is None:
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
        tried = [stage for stage in reversed(self.stages) if not stage.is_group and self.latest(stage.id)]
        told = (self.job.kinds[stage.kind].explain_failure(self.job, stage) for stage in tried)
        why = next(filter(None, told), f'No stage of the group "{self.group.id}" completed.')
        return Decision("stuck", "stage_failed", why)

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

    def ready(self) -> list[Stage]:
        """The stages that may run now, the first one first; none if the round is over."""
        ended = self.endings()
        if self.sent_back() or self.is_won(ended):
            return []
        absent, entered = self.absent(ended), self.job.state.tree.attempts
        waiting = [stage for stage in self.stages if stage.id not in ended and stage.id not in absent]
        # Interrupted, or to be attempted again.
        begun = [stage for stage in waiting if stage.id in entered and self.latest(stage.id)]
        known: Mapping[str, NeedEnding] = self.need_endings(ended, absent)
        rest: Mapping[str, NeedEnding] = {**known, REST: "completed"}
        free = [
            stage
            for stage in waiting
            # The first look is cheap: where many stages wait, most of them wait for one that has not ended.
            if (not stage.needs or stage.needs[0] in rest)
            and stage not in begun
            and not stage.foreach
            and self._is_decided(stage, known)
        ]
        ready = ready_stages(free, known)
        if not begun and not ready:
            ready = ready_stages(free, rest)[:1]
        return [*begun, *ready]

    def need_endings(self, ended: Mapping[str, Ending], absent: Mapping[str, str]) -> dict[str, NeedEnding]:
        """How the stages that have ended, or do not run, look to the stages that need them."""
        reasons = self.job.state.tree.skipped.get(self.path, {})
        known: dict[str, NeedEnding] = {**dict.fromkeys(absent, "absent"), **ended}
        for name in [name for name, how in ended.items() if how == "skipped"]:
            if not self.latest(name) and reasons.get(name, "").startswith("needs:"):
                known[name] = "unmet"
        return known

    def is_won(self, ended: Mapping[str, Ending]) -> bool:
        return self.group.join == "any" and "completed" in ended.values()

    def absent(self, ended: Mapping[str, Ending]) -> dict[str, str]:
        """The stages that do not run in this round, each with the reason; it is empty if nobody is told.

        A stage that depends on such a stage may be one, too.
        """
        waiting = [stage for stage in self._optional if stage.id not in ended]
        absent: dict[str, str] = {}
        while True:
            known: dict[str, Ending] = {**dict.fromkeys(absent, "skipped"), **ended}
            found = {stage.id: self._why_absent(stage, known, absent) for stage in waiting}
            more = {name: why for name, why in found.items() if why is not None}
            if more.keys() <= absent.keys():
                return absent
            absent |= more

    def _why_absent(self, stage: Stage, known: Mapping[str, Ending], absent: Mapping[str, str]) -> str | None:
        """Why a stage does not run in this round, as far as that is known; None if it may run."""
        if stage.id in absent:
            return absent[stage.id]
        if not self._may_apply(stage, known):
            return SKIP_CONDITION if self._is_told_of(stage) else ""
        if stage.on_skip != "skip" or self.latest(stage.id):
            return None
        ended = {name: known[name] for name in stage.needs if name in known and name not in absent}
        return SKIP_ON_SKIP if skips_with(stage, self.need_endings(ended, absent)) else None

    def _is_told_of(self, stage: Stage) -> bool:
        """Whether the log says that a stage's condition does not hold.

        What the runtime's own rounds and its search for suspects leave out is no news.
        """
        if stage.when is None or stage.when in ("again", "replan"):
            return False
        named = awaited_by(stage, self.group.stages)
        return not any(other.id in named and other.kind == "suspects" for other in self.group.stages)

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
            case condition if self._fails(stage, condition, ended):
                return False
        return stage.is_group or self.job.kinds[stage.kind].adapt(self.job, stage) is not None

    def _fails(self, stage: Stage, condition: str, ended: Mapping[str, Ending]) -> bool:
        """Whether it is known that a condition does not hold."""
        if condition.startswith(CODE):  # it was asked when the stage was about to run
            reasons = self.job.state.tree.skipped.get(self.path, {})
            return reasons.get(stage.id) == SKIP_CONDITION
        if not all(name in ended for name in awaited_by(stage, self.group.stages)):
            return False
        if named := read_ending(condition):
            name, wanted = named
            return (_outcome(ended[name]) == wanted) == condition.startswith("not ")
        return not holds(condition, self.situation(stage))

    def situation(self, stage: Stage) -> Situation:
        """What the condition of a stage can look at."""
        flow, state = self.job.flow, self.job.state
        ids = list(dict.fromkeys((*(other.id for other in all_stages(flow.stages)), *state.tree.attempts)))
        notes = {name: state.notes.get(name) for name in ids}
        results = {name: note.output if note and note.accepted else None for name, note in notes.items()}
        # Flows and stages have variables where the library gives them some.
        gathered = {"gathered": self._gathered()} if stage.execution else {}
        variables = {**flow.variables, **gathered, **stage.variables}
        return Situation(results, variables, {name: self._status(name) for name in ids})

    def _gathered(self) -> list[str]:
        """The tools that have returned something in this task."""
        called, failed = self.job.state.tool_calls, self.job.state.tool_errors
        given = [RESEARCH_TOOL] if self.job.task.attached or gives_research(self.job.request) else []
        return [*given, *(name for name, count in called.items() if count > failed[name])]

    def is_spent(self) -> bool:
        """Whether the execution of a recipe that the group belongs to has taken all the steps that it may."""
        if not self.group.execution:
            return False
        one = self.job.state.executed.all[self.group.execution - 1]
        return is_spent(self.job.state, self.job.flow.recipes[one.task_type], one)

    def _status(self, name: str) -> str:
        """How a stage ended, anywhere in the flow, or whether it runs."""
        tree = self.job.state.tree
        if entered := tree.attempts.get(name):
            return entered[-1].ending or "running"
        return self.ended_groups.get(name) or ("skipped" if self._is_skipped(name) else "pending")

    def _is_skipped(self, name: str) -> bool:
        tree = self.job.state.tree
        return any(name in stages for stages in tree.skipped.values())

    def _is_decided(self, stage: Stage, known: Mapping[str, NeedEnding]) -> bool:
        """Whether it is known that the stage's condition holds: the stages that it names have ended.

        A function of the program is asked when its stage is about to run.
        """
        return all(name in known for name in awaited_by(stage, self.group.stages))


def _outcome(ending: Ending) -> str:
    return "passed" if ending in _MET else ending

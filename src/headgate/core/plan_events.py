"""What happens to the plan: it is written, its steps are begun and ended, and it is written anew."""

from typing import ClassVar

from headgate.core.attempt import is_announced_end
from headgate.core.event import Body, Line, Moment, follows
from headgate.core.plan import Plan, PlanItem
from headgate.core.progress import Executions
from headgate.core.stage_events import StageEnded, StageStarted
from headgate.core.state import State
from headgate.core.text import count, times
from headgate.core.verification import VerifyRuns


class PlanWritten(Body):
    """The model wrote or changed its plan."""

    kind: ClassVar[str] = "plan_written"
    version: int
    items: tuple[PlanItem, ...]

    def apply(self, state: State, now: Moment) -> None:
        state[Plan].write(self.items, self.version)
        if attempt := state.nodes.get(now.path):
            attempt.take_plan()

    def line(self, state: State, now: Moment) -> Line | None:
        return Line(f"Plan: {count(len(self.items), 'step')}")


class ReplanStarted(Body):
    """Fixing has failed several times in a row, or a step of the plan has failed: the plan is rewritten."""

    kind: ClassVar[str] = "replan_started"
    loop: int
    item: str = ""
    """The step that failed, if that is why."""

    def apply(self, state: State, now: Moment) -> None:
        state[Plan].replans += 1
        state.tree.replan(now.path, self.item)
        state[VerifyRuns].failed_in_a_row = 0

    def line(self, state: State, now: Moment) -> Line | None:
        if state[Executions].all:
            return Line(f"Replanning: verification has failed {times(state[VerifyRuns].loops)}...")
        return Line("Replanning...")


@follows(StageStarted)
def _begin_step(state: State, body: StageStarted, now: Moment) -> None:
    if body.item:
        state[Plan].mark(body.item, "in_progress")


@follows(StageEnded)
def _end_step(state: State, body: StageEnded, now: Moment) -> None:
    attempt = state.nodes.get(now.path)
    if attempt and attempt.item and is_announced_end(body.reason, attempt):
        state[Plan].mark(attempt.item, "completed" if body.ending == "completed" else "failed")

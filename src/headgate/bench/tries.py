"""Tries: the rounds of a flow that end with the tests, and what the log of a task says about each."""

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any

from headgate.bench.results import TryResult
from headgate.checks import RUN_ID
from headgate.core import PLANNER, CheckSpec, DecisionMade, Event, Flow, Stage, VerifyFinished
from headgate.errors import ConfigError
from headgate.first_use import dataclass, regex
from headgate.log import Report

_RUN_ID = regex(rf" ?\(?{RUN_ID}\)?")
_VARYING = regex(r"\b0x[0-9a-fA-F]{4,}|(?:/[\w.-]+)*/pytest-of-[\w.-]+/pytest-\d+")
"""What the error of a test may name: where an object was in memory, and pytest's own temporary folder."""


def with_tries(flow: Flow, tries: int, checks: Iterable[CheckSpec]) -> Flow:
    """The flow with so many rounds that end with the tests, and with nothing that cuts them short.

    A check that looks at work which has passed would add a round, so there is none. ConfigError if the flow
    does not have exactly one place where the tests run.
    """
    late = {spec.name for spec in checks if spec.after_verification}
    kept = {name: value for name, value in flow.checks.items() if name not in late}
    stages = tuple(_in_rounds(stage, tries) for stage in flow.stages)
    leaves = list(flow.leaves())
    places = sum(leaf.kind == "verify" for leaf in leaves) + bool(flow.checks.get("verify"))
    if places != 1 or any(leaf.kind == PLANNER for leaf in leaves):  # recipes may run the tests as well
        where = "nowhere" if not places else "in several places"
        raise ConfigError(
            f"The flow {flow.name} runs the tests {where}, so its tries cannot be counted: choose a flow with"
            " one verification."
        )
    return flow.model_copy(update={"checks": kept, "stages": stages})


def _in_rounds(stage: Stage, tries: int) -> Stage:
    changed: dict[str, Any] = {}
    if stage.stages:
        changed["stages"] = tuple(_in_rounds(child, tries) for child in stage.stages)
    if stage.repeat and _waits_for_tests(stage, stage.repeat.until):
        endless = {"max": tries, "replan_every": 0, "no_progress": 0, "idle_attempts": 0}
        changed["repeat"] = stage.repeat.model_copy(update=endless)
    if not stage.is_group:
        rounds = {"verify_loops": tries, "replan_every": 0, "idle_rounds": 0, "idle_attempts": 0}
        changed["budget"] = stage.budget.model_copy(update=rounds)
    return stage.model_copy(update=changed)


def _waits_for_tests(group: Stage, until: str) -> bool:
    awaited = until.rpartition(".")[0]
    return any(stage.id == awaited and stage.kind == "verify" for stage in group.stages)


@dataclass(frozen=True, slots=True)
class Try:
    """One try: the work up to a run of the tests, and that run."""

    result: TryResult
    seconds: float = 0.0
    """How long the tests took."""
    run_id: str = ""
    """The run of the tests; empty if the task ended before they could run."""


@dataclass
class TryRecorder:
    """Listens to a task, and tells its tries apart."""

    place: str
    """Where the task works: what is said about failures must not depend on that."""
    commands: tuple[str, ...] = ()
    """The commands of the steps. They may name programs of this machine, so they are not said either."""
    tries: list[Try] = field(default_factory=list)
    _forced: list[str] = field(default_factory=list)

    def hear(self, event: Event) -> None:
        """Takes an event of the task."""
        match event.body:
            case DecisionMade(action="final_turn", reason=reason):
                self._forced.append(reason)
            case VerifyFinished(asked=False, rewritten=()) as body:
                seconds = sum(step.seconds for step in body.steps)
                why = None if body.passed else self._explain(body)
                self._add(why, len(body.failing), seconds, body.run_id)
            case _:
                pass

    @property
    def passed(self) -> int | None:
        """The number of the try that passed."""
        numbers = (number for number, one in enumerate(self.tries, 1) if one.result.reason is None)
        return next(numbers, None)

    def refuse(self, reason: str) -> None:
        """The try that passed does not count."""
        passed = self.passed
        assert passed is not None
        refused = self.tries[passed - 1]
        result = refused.result.model_copy(update={"reason": self._say(reason)})
        self.tries[passed - 1] = replace(refused, result=result)

    def end(self, report: Report, most: int) -> None:
        """Adds the try in which a task ended before the tests could run."""
        del self.tries[most:]
        del self.tries[self.passed or most :]
        if self.passed is None and len(self.tries) < most and report.state != "SUCCESS":
            said = next(iter(report.summary.splitlines()), "") or report.reason
            self._add(self._say(said))

    def _add(self, why: str | None, failing: int = 0, seconds: float = 0.0, run_id: str = "") -> None:
        forced = tuple(dict.fromkeys(self._forced))
        result = TryResult(reason=why, failing=failing, final_turns=forced)
        self.tries.append(Try(result, seconds, run_id))
        self._forced.clear()

    def _explain(self, failed: VerifyFinished) -> str:
        """The first failing test by name, or the step that failed."""
        failing = tuple(map(self._say, failed.failing))
        cleaned = failed.model_copy(update={"failing": failing, "reason": self._say(failed.reason)})
        return cleaned.sentence or "the tests failed"

    def _say(self, reason: str) -> str:
        """A reason without what differs from run to run, or from machine to machine."""
        for command in self.commands:
            reason = reason.replace(f" ({command})", "")
        return _VARYING.sub("...", _RUN_ID.sub("", reason.replace(self.place, "."))).strip()

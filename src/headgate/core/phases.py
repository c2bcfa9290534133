"""Phase control: a side channel that adds one hint to what the model sees, and decides nothing else.

A task is in one phase at a time. The rules move it forward only, in the order in which the states are listed,
by what the runtime saw happen. The classifier may move it anywhere. After that, what the rules count starts
from zero, so that they do not at once undo what it said.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from headgate.core.event import Body, Moment, Slice, follows
from headgate.core.progress import PlanWritten
from headgate.core.settings import Settings
from headgate.core.spending import Spending
from headgate.core.stage_events import StageStarted
from headgate.core.state import State
from headgate.core.text import nearest
from headgate.core.turn_events import ToolFinished
from headgate.patterns import regex

CONTEXT, PLAN, IMPLEMENT = "context", "plan", "implement"
ANSWER_CHARS = 400
"""What is read of a classifier's answer: one word is enough."""
SILENCES = 3
"""Probes in a row without a usable answer, after which no more are sent in this phase and stage."""

PhaseMode = Literal["off", "rules", "llm", "hybrid"]
PhaseLog = Literal["off", "stdout", "log", "both"]
PromptPlace = Literal["tail", "system"]
Mover = Literal["rules", "llm"]

_NAME = regex(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_JSON_PHASE = regex(r"""["']phase["']\s*:\s*["']([^"']*)["']""", re.IGNORECASE)


class PhaseRules(Settings):
    """Which signals move the phase. A rule applies only if `states` lists the phases it moves between."""

    min_files_read_for_plan: int = Field(1, ge=1)
    """With `auto_plan_after_read`: how many different files must have been read."""
    auto_plan_after_read: bool = True
    """Reading files moves the phase from `context` to `plan`."""
    write_to_implement: bool = True
    """Writing a file moves the phase to `implement`; from `plan`, so does writing a plan."""


class PhaseProbe(Settings):
    """The classifier's request: two messages, no tools, no history."""

    temperature: float = Field(0, ge=0, allow_inf_nan=False)
    """Sampling temperature."""
    max_tokens: int = Field(64, gt=0)
    """The longest answer, in tokens; a model that thinks first needs more."""
    system_prompt: str | None = None
    """The system message; absent: a built-in one."""
    user_prompt: str | None = None
    """The question, with {phase}, {states}, {tools}, {files_read}, {files_changed} and {text} filled in;
    absent: a built-in one."""


class PhaseControl(Settings):
    """A hint that depends on how far the work has come. It blocks nothing and stays out of the transcript."""

    mode: PhaseMode = "off"
    """`rules` makes no requests; `llm` asks the model after each turn; `hybrid` only if no rule applies."""
    states: tuple[str, ...] = Field((CONTEXT, PLAN, IMPLEMENT), min_length=1)
    """The phases, in order. Rules never move backwards."""
    default: str = CONTEXT
    """The phase in which a task starts."""
    rules: PhaseRules = PhaseRules()
    """What moves the phase in the modes `rules` and `hybrid`."""
    probe: PhaseProbe = PhaseProbe()
    """What the model is asked in the modes `llm` and `hybrid`."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """The hint for each phase; an empty text sends no hint. The default states have built-in hints."""

    @field_validator("states")
    @classmethod
    def _check_states(cls, states: tuple[str, ...]) -> tuple[str, ...]:
        seen: set[str] = set()
        for name in states:
            if not _NAME.fullmatch(name):
                raise ValueError(f'must contain names such as "context" or "code-review", not "{name[:40]}"')
            # An answer is read without regard to case, so two such names could not be told apart.
            if name.lower() in seen:
                raise ValueError(f'names the state "{name}" twice')
            seen.add(name.lower())
        return states

    @field_validator("default")
    @classmethod
    def _check_default(cls, default: str, info: ValidationInfo) -> str:
        states = info.data.get("states")
        if states is not None and default not in states:
            raise ValueError(f'must be one of the states ({", ".join(states)}), not "{default[:40]}"')
        return default

    @field_validator("prompts")
    @classmethod
    def _check_prompts(cls, prompts: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        states = info.data.get("states")
        for name in prompts:
            if states is not None and name not in states:
                close = nearest(name, states)
                meant = f'did you mean "{close}"?' if close else f"the states are {', '.join(states)}"
                raise ValueError(f'has a hint for "{name[:40]}", which is not a state: {meant}')
        return prompts

    @model_validator(mode="after")
    def _check_own_states(self) -> Self:
        if self.default not in self.states:
            raise ValueError(f'needs a "default": one of its states ({", ".join(self.states)})')
        return self

    @property
    def uses_rules(self) -> bool:
        return self.mode in ("rules", "hybrid")

    @property
    def uses_probe(self) -> bool:
        return self.mode in ("llm", "hybrid") and len(self.states) > 1


@dataclass(frozen=True, slots=True)
class Signals:
    """What happened that the rules look at. Only what succeeded counts."""

    read: tuple[str, ...] = ()
    """Files that were read."""
    changed: tuple[str, ...] = ()
    """Files that tools wrote; what a shell command writes is not seen."""
    plan_written: bool = False


NO_SIGNALS = Signals()


@dataclass(frozen=True, slots=True)
class PhaseState:
    """Where a task is, and what was counted there: over all its stages, since a later one goes on with it."""

    phase: str = ""
    """Empty until it changes for the first time: the default."""
    files_read: frozenset[str] = frozenset()
    wrote: bool = False
    plan_written: bool = False
    silences: int = 0
    """Probes in a row that returned no usable answer."""

    def count(self, signals: Signals) -> "PhaseState":
        """With these signals counted. Counting the same ones twice changes nothing."""
        return replace(
            self,
            files_read=self.files_read | set(signals.read),
            wrote=self.wrote or bool(signals.changed),
            plan_written=self.plan_written or signals.plan_written,
        )

    def move(self, phase: str, by: Mover) -> "PhaseState":
        """In another phase. Rules only go forward, so what they have counted still holds."""
        return PhaseState(phase) if by == "llm" else replace(self, phase=phase, silences=0)

    def hear(self, answered: bool) -> "PhaseState":
        """After a probe. Entering a stage counts as an answer: a model that fell silent is asked again."""
        return replace(self, silences=0 if answered else self.silences + 1)


def current_phase(control: PhaseControl, state: PhaseState) -> str:
    """The phase of a task: always one of the states."""
    return state.phase if state.phase in control.states else control.default


def advance(
    control: PhaseControl, state: PhaseState, signals: Signals = NO_SIGNALS
) -> tuple[PhaseState, str]:
    """The state after these signals by the rules, and why it moved; no reason where it did not."""
    state = state.count(signals)
    moved_because = ""
    while control.uses_rules and (step := _next_step(control, state)):
        target, moved_because = step
        state = state.move(target, "rules")
    return state, moved_because


def _next_step(control: PhaseControl, state: PhaseState) -> tuple[str, str] | None:
    """The first rule that moves the phase forward."""
    rules, phase, read = control.rules, current_phase(control, state), len(state.files_read)
    planned = phase == PLAN and state.plan_written
    ahead = control.states[control.states.index(phase) + 1 :]
    for target, holds, reason in (
        (IMPLEMENT, rules.write_to_implement and state.wrote, "a file was written"),
        (IMPLEMENT, rules.write_to_implement and planned, "a plan was written"),
        (
            PLAN,
            phase == CONTEXT and rules.auto_plan_after_read and read >= rules.min_files_read_for_plan,
            "1 file was read" if read == 1 else f"{read} files were read",
        ),
    ):
        if holds and target in ahead:
            return target, reason
    return None


def fill_question(template: str, values: Mapping[str, str]) -> str:
    """A template with its `{names}` replaced; braces elsewhere, also in the values, stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


def read_answer(control: PhaseControl, text: str) -> str | None:
    """The state that a classifier names, as JSON `{"phase": ...}` or as the first that occurs as a word."""
    answer = text.rpartition("</think>")[2][:ANSWER_CHARS]
    if "<think>" in answer:
        return None
    found = _JSON_PHASE.search(answer)
    if found:
        answer = found[1]
    by_lower = {name.lower(): name for name in control.states}
    names = "|".join(sorted(map(re.escape, by_lower), key=len, reverse=True))
    word = re.search(rf"(?<![\w-])(?:{names})(?![\w-])", answer.lower())
    return by_lower[word[0]] if word else None


def phase_line(before: str, phase: str, by: Mover, reason: str) -> str:
    """A change of phase as people read it: `phase: context -> plan (rules: 1 file was read)`."""
    return f"phase: {before} -> {phase} ({by}: {reason})"


# What events do to the phase of the work, or to what its rules count.


@dataclass
class Phases(Slice):
    """How far the work has come, as phase control sees it."""

    now: PhaseState = field(default_factory=PhaseState)


class PhaseProbed(Spending):
    """A classifier was asked which phase the work is in. Its tokens count, also when its answer does not."""

    kind: ClassVar[str] = "phase_probed"
    answer: str = ""
    fault: str = ""
    """Why there is no answer: `unavailable`, `refused`, `invalid`, `overflow`, `timeout`, `unreadable`."""
    detail: str = ""

    def apply(self, state: State, now: Moment) -> None:
        state.accounts.take(now.path, self)
        phases = state[Phases]
        phases.now = phases.now.hear(answered=not self.fault)


class PhaseChanged(Body):
    """Another hint goes to the model from here on. Nothing else depends on it."""

    kind: ClassVar[str] = "phase_changed"
    before: str
    phase: str
    by: Mover
    reason: str

    def apply(self, state: State, now: Moment) -> None:
        state[Phases].now = state[Phases].now.move(self.phase, self.by)


@follows(ToolFinished)
def _count_call(state: State, body: ToolFinished, now: Moment) -> None:
    if body.ok:
        state[Phases].now = state[Phases].now.count(Signals(body.read, body.changed))


@follows(PlanWritten)
def _count_plan(state: State, body: PlanWritten, now: Moment) -> None:
    state[Phases].now = state[Phases].now.count(Signals(plan_written=True))


@follows(StageStarted)
def _begin_stage(state: State, body: StageStarted, now: Moment) -> None:
    if body.announced:
        state[Phases].now = state[Phases].now.hear(answered=True)

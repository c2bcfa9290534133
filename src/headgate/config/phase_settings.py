"""The keys of phase control: a hint that depends on how far the work has come."""

from typing import Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from headgate.core import Settings, nearest
from headgate.first_use import regex

PhaseMode = Literal["off", "rules", "llm", "hybrid"]
PhaseLog = Literal["off", "stdout", "log", "both"]
PromptPlace = Literal["tail", "system"]

_NAME = regex(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


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
    states: tuple[str, ...] = Field(("context", "plan", "implement"), min_length=1)
    """The phases, in order. Rules never move backwards."""
    default: str = "context"
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

"""The keys of scouts: what finds out about a task before a model is asked."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from headgate.core import SCOUTS, Settings

ScoutMode = Literal["rules", "llm", "off"]


class ScoutSettings(Settings):
    """What finds out where to look and how the project is tested, before the model is asked."""

    code: ScoutMode = "rules"
    """Scout A maps the code that the task is about: `rules` without a model, `llm` has a model read further,
    `off` not at all."""
    build: ScoutMode = "rules"
    """Scout B finds out how the project is built and tested, and what fails: `rules`, `llm` or `off`."""
    model: str | None = None
    """The model that `llm` asks; absent: the default model."""
    seconds: float = Field(120, gt=0, allow_inf_nan=False)
    """How long a model may read for one scout, and how long the verification may take that is run first."""
    tokens: int = Field(1200, ge=100)
    """The most that each scout adds to the first message, in tokens. A tenth of the context window if that
    is less."""
    asks: int = Field(3, ge=0)
    """How often a stage may call `ask_scout`; 0: not at all."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        """`scouts: off` is meant for both; `a` and `b` are other names for them."""
        if value is False:  # YAML reads a bare `off` as this
            value = "off"
        if isinstance(value, str):
            return {"code": value, "build": value}
        if not isinstance(value, Mapping):
            return value
        names = {"a": "code", "b": "build"}
        return {
            names.get(key, key): "off" if item is False and names.get(key, key) in SCOUTS else item
            for key, item in value.items()
        }

    def mode(self, scout: str) -> ScoutMode:
        return self.code if scout == "code" else self.build

"""Recipes as data: how a type of task is carried out, step by step. They are pinned in the flow."""

from typing import Any

from pydantic import Field, field_validator, model_validator

from headgate.core.flow import Flow, InputDoc, Stage
from headgate.core.settings import Data

RECIPE_NAME = r"^[a-z][a-z0-9_]{0,23}$"


class TokenBudget(Data):
    """How many tokens a request of a step may have, and how they are shared."""

    total: int = Field(3500, ge=256)
    """All of them. The conversation of a step is cut before it reaches this."""
    prompt: int = Field(800, ge=0)
    """For the instructions of the recipe."""
    input_docs: int = Field(1500, ge=0)
    """For the documents that a step is given. Each is trimmed to its share."""
    output: int = Field(500, ge=16)
    """For a reply."""
    buffer: int = Field(700, ge=0)
    """For what is said in the step."""

    @model_validator(mode="after")
    def _check_parts(self) -> "TokenBudget":
        parts = {name: size for name, size in self if name != "total"}
        if (needed := sum(parts.values())) > self.total:
            listed = ", ".join(f"{name} {size}" for name, size in parts.items())
            raise ValueError(
                f"must have a `total` of at least {needed}, or smaller parts: they are {listed}, and"
                f" `total` is {self.total}"
            )
        return self


class Recipe(Data):
    """How tasks of one type are carried out."""

    name: str = Field(pattern=RECIPE_NAME)
    """The type of task, as the planner names it."""
    description: str = Field(min_length=1, max_length=300)
    """When to choose it, in a sentence: all that the planner knows of it."""
    role: str = "executor"
    """Who carries the steps out; for people."""
    phase: str = "execution"
    """The phase of the work that it belongs to; for people."""
    prompt_fragments: tuple[str, ...] = ()
    """Files with instructions for every step, beside the recipe. ` (800 tokens)` may follow a name, and then
    limits it."""
    instructions: tuple[str, ...] = ()
    """The texts of these files; not for recipe files."""
    source: str = ""
    """The file of the repository that the recipe is in; not for recipe files."""
    unavailable: str = ""
    """Why it cannot be carried out here, in a sentence; not for recipe files."""
    input_docs: tuple[InputDoc, ...] = (InputDoc(path="context.md"),)
    """Documents that each step is given, trimmed to their share of the budget."""
    token_budget: TokenBudget = TokenBudget()
    max_steps: int = Field(5, ge=1, le=50)
    """The most attempts at steps in one execution; after that, it is handed back to the planner."""
    model: str | None = None
    """The model of the steps; absent: that of the task."""
    temperature: float | None = Field(0.3, ge=0)
    """The temperature of the steps."""
    calls: int = Field(3, ge=0)
    """The most calls of one tool in a step; 0: no limit."""
    repeats: int = Field(2, ge=0)
    """How often this type may be executed, whatever the goals, before a file has changed. The answer to the
    last time names `leads_to`, and another one is refused; 0: no limit."""
    leads_to: tuple[str, ...] = ()
    """The types of tasks that usually follow this one."""
    stages: tuple[Stage, ...] = Field(min_length=1)
    """The steps. They are stages, and may be groups that repeat."""

    @field_validator("description", mode="before")
    @classmethod
    def _one_line(cls, value: Any) -> Any:
        return " ".join(value.split()) if isinstance(value, str) else value

    def model_of(self, step: str) -> str | None:
        """The model of a step; None is that of the task."""
        leaves = [leaf for stage in self.stages for leaf in stage.leaves()]
        return next((leaf.model for leaf in leaves if leaf.id == step and leaf.model), self.model)

    @property
    def models(self) -> set[str | None]:
        """The models that its steps name."""
        leaves = [leaf for stage in self.stages for leaf in stage.leaves()]
        return {self.model, *(leaf.model for leaf in leaves)} - {None}

    @property
    def steps(self) -> tuple[str, ...]:
        """The ids of the steps, as the recipe has them."""
        return tuple(leaf.id for stage in self.stages for leaf in stage.leaves())


Flow.model_rebuild(_types_namespace={"Recipe": Recipe})

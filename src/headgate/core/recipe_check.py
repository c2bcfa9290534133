"""What is wrong with a recipe besides what is wrong with a flow, and where."""

from collections.abc import Iterator, Sequence

from headgate.core.flow import DRIVE, PLANNER, Stage
from headgate.core.flow_check import Problem, Where
from headgate.core.knobs import EXECUTE_TOOL
from headgate.core.recipes import Recipe

STEP_CHARS = 12
_NO_STEPS = (PLANNER, DRIVE)
"""Kinds that lead stages of their own: a planner in a recipe could choose the recipe that it is in."""


def recipe_problems(recipe: Recipe) -> Iterator[Problem]:
    """Everything that is wrong with the steps."""
    yield from _step_problems(recipe.stages, ("stages",))
    if len(recipe.steps) > recipe.max_steps:
        message = f"there are {len(recipe.steps)} steps, and `max_steps` is {recipe.max_steps}"
        yield Problem(("max_steps",) if "max_steps" in recipe.model_fields_set else ("stages",), message)


def _step_problems(stages: Sequence[Stage], where: Where) -> Iterator[Problem]:
    for index, stage in enumerate(stages):
        here = (*where, index)
        if stage.kind in _NO_STEPS:
            yield Problem((*here, "kind"), f"a step of a recipe cannot be of the kind {stage.kind}")
        elif stage.foreach:
            message = f"a step of a recipe cannot be repeated for each {stage.foreach}: leave `foreach` out"
            yield Problem((*here, "foreach"), message)
        elif not stage.stages and len(stage.id) > STEP_CHARS:
            message = (
                f"the id of a step has at most {STEP_CHARS} characters, and {stage.id} has {len(stage.id)}"
            )
            yield Problem((*here, "id"), message)
        for key, names in (("allow", stage.tools.allow or ()), ("add", stage.tools.add)):
            for position, name in enumerate(names):
                if name == EXECUTE_TOOL:
                    message = "a step of a recipe cannot have execute: only a planner has it"
                    yield Problem((*here, "tools", key, position), message)
        yield from _step_problems(stage.stages, (*here, "stages"))

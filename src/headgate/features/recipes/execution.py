"""A recipe that is carried out: its stages become a group in the planner's stage.

Ids are made unique, so that two executions of one type do not collide.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headgate.core import (
    CATEGORIES,
    ESCALATE_TOOL,
    Agent,
    AgentOptions,
    InputDoc,
    Recipe,
    Stage,
    SystemPart,
    rename_stages,
    shorten,
)
from headgate.first_use import dataclass

GENERIC = "generic"
"""The type of a task for which none is named."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A recipe that the planner had carried out, with the goals that it gave."""

    number: int
    task_type: str
    goals: tuple[str, ...]

    @property
    def id(self) -> str:
        """The id of the group that carries it out."""
        return f"{self.task_type}-{self.number}"

    @property
    def told_goals(self) -> str:
        """The goals in one line, as a quotation that nothing in them can end."""
        return f'"{" ".join("; ".join(self.goals).split()).replace(chr(34), chr(39))}"'

    @property
    def title(self) -> str:
        """What it is, in one line."""
        return f"{self.task_type}: {shorten(self.told_goals, 300)}"

    def is_same(self, task_type: str, goals: Sequence[str]) -> bool:
        """Whether a decision means this execution: the same type and the same goals, however spelt."""
        return (task_type, _plain(goals)) == (self.task_type, _plain(self.goals))

    def step_id(self, step: str) -> str:
        """The id of the stage that carries a step out."""
        return f"{self.id}.{step}"


def _plain(goals: Iterable[str]) -> list[str]:
    """Goals without what models change when they repeat them: spaces, the first letter, the full stop.

    Nothing else: `n > 1` and `n < 1` are different goals, and so are two names that differ in their case.
    """
    texts = (" ".join(goal.split()).rstrip(" .!;,") for goal in goals)
    return sorted(text[:1].lower() + text[1:] for text in texts)


def expand_recipe(recipe: Recipe, execution: Execution) -> Stage:
    """The group of stages that carries a recipe out once."""
    ids = {stage.id for stage in _inside(recipe.stages)}
    stages = tuple(_renamed(stage, ids, recipe, execution) for stage in recipe.stages)
    return Stage(
        id=execution.id,
        label=f"{recipe.name} {execution.number}",
        stages=stages,
        required=False,
        execution=execution.number,
        metadata={"task_type": recipe.name, "goals": list(execution.goals)},
    )


def _inside(stages: Iterable[Stage]) -> Iterable[Stage]:
    for stage in stages:
        yield stage
        yield from _inside(stage.stages)


def _renamed(stage: Stage, ids: set[str], recipe: Recipe, execution: Execution) -> Stage:
    """A stage of the recipe as one of the execution: with ids of its own, instructions and a budget."""
    changed: dict[str, Any] = {
        "id": execution.step_id(stage.id),
        "label": stage.label or stage.id,
        "needs": tuple(execution.step_id(need) if need in ids else need for need in stage.needs),
        "execution": execution.number,
    }
    if stage.view.transcript in ids:
        view = stage.view.model_copy(update={"transcript": execution.step_id(stage.view.transcript)})
        stage = stage.model_copy(update={"view": view})
    if stage.when:
        changed["when"] = rename_stages(stage.when, {name: execution.step_id(name) for name in ids})
    if stage.repeat:
        name, _, how = stage.repeat.until.rpartition(".")
        until = f"{execution.step_id(name)}.{how}"
        changed["repeat"] = stage.repeat.model_copy(update={"until": until})
    if stage.stages:
        changed["stages"] = tuple(_renamed(child, ids, recipe, execution) for child in stage.stages)
    elif stage.kind == "talk":
        goals = "\n".join(f"- {goal}" for goal in execution.goals)
        changed |= {"prompt": f"{stage.prompt.rstrip()}\n\nGoals:\n{goals}", **_equipment(stage, recipe)}
    return stage.model_copy(update=changed)


def _equipment(stage: Stage, recipe: Recipe) -> dict[str, Any]:
    """What every step that is a conversation has: a model, instructions, documents, limits."""
    shares = recipe.token_budget
    room = shares.total
    options = AgentOptions(temperature=recipe.temperature, max_tokens=shares.output)
    agent = stage.agent or Agent(model=recipe.model, options=options, context_transfer="minimal")
    longest = min(agent.options.max_tokens or shares.output, shares.output)
    agent = agent.model_copy(update={"options": agent.options.model_copy(update={"max_tokens": longest})})
    allow = sorted(CATEGORIES) if stage.tools.allow is None else stage.tools.allow
    scope = stage.tools.model_copy(update={"allow": (*allow, ESCALATE_TOOL)})
    budget = stage.budget
    limits: dict[str, Any] = {"turns": 6, "failed_calls": 3, "retries": 0, "calls": recipe.calls}
    lacking = {name: value for name, value in limits.items() if name not in budget.model_fields_set}
    parts = tuple(SystemPart(value=text) for text in recipe.instructions if text.strip())
    return {
        "model": stage.model or recipe.model,
        "agent": agent,
        "tools": scope,
        "system": (*parts, *stage.system),
        "budget": budget.model_copy(update=lacking),
        "view": stage.view.model_copy(update={"max_tokens": min(stage.view.max_tokens or room, room)}),
        "input_docs": share_docs(stage.input_docs or recipe.input_docs, shares.input_docs),
    }


def share_docs(docs: Sequence[InputDoc], room: int) -> tuple[InputDoc, ...]:
    """Documents with the tokens that each may have, so that all of them fit into the room."""
    wanted = sum(doc.max_tokens for doc in docs)
    if wanted <= room:
        return tuple(docs)
    return tuple(
        doc.model_copy(update={"max_tokens": max(doc.max_tokens * room // wanted, 1)}) for doc in docs
    )


def without_tool(recipe: Recipe, tool: str, why: str) -> Recipe:
    """The recipe where a tool cannot be used: without the steps that may be skipped and have nothing else.

    Where another step has nothing else, the recipe cannot be carried out.
    """
    lacking = [stage for stage in recipe.stages if not stage.stages and stage.tools.allow == (tool,)]
    if any(stage.required and stage.budget.exhausted != "skip" for stage in lacking):
        return recipe.model_copy(update={"unavailable": why})
    gone = {stage.id for stage in lacking}
    stages = tuple(
        stage.model_copy(update={"needs": tuple(need for need in stage.needs if need not in gone)})
        for stage in recipe.stages
        if stage.id not in gone
    )
    return recipe.model_copy(update={"stages": stages}) if gone and stages else recipe


def expand_executions(
    stages: Sequence[Stage], executions: Sequence[Execution], recipes: Mapping[str, Recipe]
) -> tuple[Stage, ...]:
    """The stages of one level, with one group for each execution in the place of `foreach: recipe`."""
    expanded: list[Stage] = []
    for stage in stages:
        if stage.foreach != "recipe":
            expanded.append(stage)
            continue
        expanded += [expand_recipe(recipes[one.task_type], one) for one in executions]
    return tuple(expanded)

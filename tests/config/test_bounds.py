"""What a task may cost at most, by nothing but the budgets of the built-in flows; docs/runtime.md says so."""

from pathlib import Path

import pytest

from headgate.config import FlowNames, load_flow
from headgate.core import Flow, Limits, Recipe, Stage, fix_stage
from headgate.engine import CHECK_SPECS, SPECS
from headgate.features.recipes.feature import load_recipes
from headgate.tools import write_file

DESIGN = Path(__file__).parents[2] / "docs" / "runtime.md"
FINAL_TURNS = 2
"""The final turn, and one more if nothing in it could be used."""


def most_replies(stage: Stage) -> int:
    """Of one entrance into a stage, its retries included."""
    turns = stage.budget.turns + (0 if stage.candidates else FINAL_TURNS)
    return turns * (1 + stage.budget.retries)


def most_rounds(flow: Flow, fix: Stage) -> int:
    """Of the debug loop: the stage that fixes, the replans, and the hypotheses."""
    budget = fix.budget
    reviews = sum(flow.checks.get(name, False) for name in ("diff_scope", "tests_touched", "tests_weakened"))
    failures = budget.verify_loops - 1
    replans = failures // budget.replan_every * most_replies(flow.replan)
    return (reviews + failures) * most_replies(fix) + replans + 1


@pytest.mark.parametrize("name", ["flat", "repair", "staged", "staged3"])
def test_the_budgets_bound_a_task(name: str, tmp_path: Path) -> None:
    flow = load_flow(name, tmp_path)
    fix = fix_stage(flow, [write_file.spec])
    assert fix is not None
    most = sum(map(most_replies, flow.leaves())) + most_rounds(flow, fix)
    assert f"| `{name}` | {most:,} |" in DESIGN.read_text(encoding="utf-8")


def most_in_execution(recipe: Recipe) -> int:
    """Of the steps of a recipe, carried out once."""
    return sum(
        most_replies(leaf.model_copy(update={"budget": leaf.budget.model_copy(update={"retries": 0})}))
        * (group.repeat.max if group.repeat else 1)
        for group in recipe.stages
        for leaf in group.leaves()
        if leaf.kind == "talk"
    )


def test_the_budgets_bound_a_planned_task(tmp_path: Path) -> None:
    flow = load_flow("planned", tmp_path)
    (planner,) = flow.leaves()
    recipes = load_recipes(tmp_path, [], FlowNames(SPECS, CHECK_SPECS))
    reviews = sum(flow.checks.get(name, False) for name in ("diff_scope", "tests_touched", "tests_weakened"))
    entrances = 1 + reviews + planner.budget.verify_loops - 1
    # Its turns are looked at between two executions: one of them may go past their limit.
    past = planner.settings["max_iterations"] * max(map(most_in_execution, recipes.values()))
    most = entrances * most_replies(planner) + past + 1
    assert f"| `planned` | {most:,} |" in DESIGN.read_text(encoding="utf-8")


def test_no_other_cap_is_set_by_default() -> None:
    assert Limits() == Limits(turns=None, tokens=None, seconds=None, cost=None)

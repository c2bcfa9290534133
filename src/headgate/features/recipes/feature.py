"""What recipes add to a program that runs tasks."""

from headgate.features.recipes.check import RECIPE_COMPLETE
from headgate.features.recipes.document import describe_task
from headgate.features.recipes.execution import Execution, expand_recipe, without_tool
from headgate.features.recipes.planner import PlannerKind
from headgate.features.recipes.recipe_files import load_recipes
from headgate.features.recipes.tools import escalate, execute_tool
from headgate.run import Feature

FEATURE = Feature(kinds=(PlannerKind(),), checks=(RECIPE_COMPLETE,))

"""Recipes: a planner decides what is done next, and recipes say step by step how.

What runs tasks finds the rest in `feature`.
"""

from headgate.features.recipes.events import EscalationRaised, Executions, RecipeEnded, RecipeStarted

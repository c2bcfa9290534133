"""Which built-in flow suits a task, where the configuration leaves that open."""

import re

from headgate.config.schema import Config
from headgate.core.words import is_question, without_politeness

SMALL = 4.0
"""Models up to so many billion parameters do better with one short question at a time than with tools."""
SMALLEST = 0.05
"""`1m` in a name is a context of a million tokens: no model that people run has so few parameters."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?) ?([bm])(?![a-z0-9])", re.IGNORECASE)
_THINKING = re.compile(
    r"(?<![a-z0-9])(r1|qwq|o1)(?![a-z0-9])|think|reason|gpt-?oss|magistral|smollm3|exaone-?deep|deepcoder"
    r"|deepscaler|qwen-?3(?![0-9b]|.*(coder|instruct|2507))",
    re.IGNORECASE,
)
"""Models that think before they answer: a short answer is over before it has begun."""
_NEW = re.compile(
    r"\W*(please\s+)?(accept|add|allow|build|bump|change|clean|convert|cover|create|define|delete|deprecate|describe"
    r"|document|drop|enable|explain|expose|extend|extract|format|generate|hide|implement|improve|introduce|list|log"
    r"|merge|migrate|move|name|open|port|print|provide|raise|refactor|remove|rename|replace|rewrite|show|simplify"
    r"|sort|split|summari[sz]e|support|switch|test|translate|update|upgrade|use|write"
    r"|make(?!.*\b(pass|passes|green|work|works|succeed)\b))\s+"
    r"(?!(is|are|was|does|fail(s|ed)?|crash(es|ed)?|gives|returns|\w+s instead|(an? )?(bug)?fix)\b)",
    re.IGNORECASE,
)
"""Verbs with which a goal begins that asks for something new. In `add returns` it is the name of a thing."""
_WISH = re.compile(r"\b(need|want|wants|would like|['\u2019]d like|wish|there should be)\b", re.IGNORECASE)
"""Words of somebody who wants something that is not there yet."""


def suited_flow(config: Config, goal: str) -> str:
    """`repair` for a small model and steps that can tell, unless the goal asks for something new.

    Whether there is something to repair is a fact: the flow runs the check first, and where that passes,
    or nothing says where to look, its stages are those of `staged`.
    """
    is_open = bool(goal.strip()) and not asks_for_something_new(goal)
    return "repair" if is_open and _can_repair(config) else "staged"


def depends_on_goal(config: Config) -> bool:
    """Whether tasks get `repair` or something else, by what they are about."""
    return (config.flow or config.mode) == "auto" and _can_repair(config)


def _can_repair(config: Config) -> bool:
    model = config.models.get(config.model or "")
    name = model.model if model else config.model or ""
    return bool(config.verification.steps) and answers_shortly(name)


def asks_for_something_new(goal: str) -> bool:
    """Whether a goal clearly asks for more than a repair, or is a question; in doubt it does not."""
    return bool(_NEW.match(without_politeness(goal)) or _WISH.search(goal)) or is_question(goal)


def answers_shortly(model: str) -> bool:
    """Whether a model is small by its name, and answers without thinking first."""
    size = billions(model)
    return size is not None and size <= SMALL and not _THINKING.search(model)


def billions(model: str) -> float | None:
    """How many billion parameters a model has by its name; of several numbers the largest counts."""
    sizes = [float(number) / (1 if unit in "bB" else 1000) for number, unit in _SIZE.findall(model)]
    return max((size for size in sizes if size >= SMALLEST), default=None)

"""Which built-in flow suits a task, where the configuration leaves that open."""

import re

from headgate.config.schema import Config

SMALL = 4.0
"""Models up to so many billion parameters do better with one short question at a time than with tools."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?) ?([bm])(?![a-z0-9])", re.IGNORECASE)
_MENDING = re.compile(
    r"\b(fix(es|ed)?|fail(s|ed|ing|ure)?|bugs?|broken|breaks?|wrong(ly)?|incorrect(ly)?|errors?|crash(es|ed)?"
    r"|traceback|exceptions?|raises?|regression|repair|mend|debug|does(n't| not) work)\b",
    re.IGNORECASE,
)


def suited_flow(config: Config, goal: str) -> str:
    """`repair` for a small model, a goal that speaks of something broken, and steps that can tell."""
    model = config.models.get(config.model or "")
    size = billions(model.model if model else config.model or "")
    is_small = size is not None and size <= SMALL
    return "repair" if is_small and config.verification.steps and _MENDING.search(goal) else "staged"


def billions(model: str) -> float | None:
    """How many billion parameters a model has by its name; of several numbers the largest counts."""
    sizes = [float(number) / (1 if unit in "bB" else 1000) for number, unit in _SIZE.findall(model)]
    return max(sizes, default=None)

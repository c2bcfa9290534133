"""Hard caps on a whole task, sub-runs included. At one, the model may conclude, and the task ends."""

from pydantic import Field

from headgate.core.messages import Usage
from headgate.core.settings import Settings


class Limits(Settings):
    """What a task may use. None: no cap."""

    turns: int | None = Field(None, ge=1)
    """The model's replies, across all stages. The budgets of the stages limit them in any case."""
    tokens: int | None = Field(None, ge=1)
    """Tokens read and written."""
    seconds: float | None = Field(None, gt=0)
    """Time since the task started, without the time it waited for `apply` or was interrupted. When the time
    is up, the current reply is cut off, and the model gets a minute to conclude."""
    cost: float | None = Field(None, gt=0)
    """Cost, by the prices in `models`."""


def over_limit(limits: Limits, requests: int, usage: Usage, seconds: float, cost: float) -> str:
    """The cap that is reached, by its slug; empty if none is."""
    if limits.turns is not None and requests >= limits.turns:
        return "limit_turns"
    if limits.tokens is not None and usage.prompt + usage.completion >= limits.tokens:
        return "limit_tokens"
    if limits.seconds is not None and seconds >= limits.seconds:
        return "limit_seconds"
    if limits.cost is not None and cost >= limits.cost:
        return "limit_cost"
    return ""

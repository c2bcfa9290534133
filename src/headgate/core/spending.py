"""What a task has used: tokens and money, by the stage that asked and the model that was asked."""

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from headgate.core.event import Body
from headgate.core.messages import Usage
from headgate.core.settings import Data, ModelSettings
from headgate.core.tree import stage_ids
from headgate.first_use import dataclass


class Spending(Body):
    """What an event says of the requests that it tells of: who was asked, and what that took."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    """By the model's price."""
    model: str = ""
    """Who was asked, such as `openai/qwen3-coder`. Logs of earlier versions do not tell."""
    priced: bool = False
    """Whether the model has a price. Without one, `cost` says nothing."""
    estimated: bool = False
    """Whether some of the tokens were estimated, because the server did not count them."""


def spent(usage: Usage, asked: ModelSettings, *, estimated: bool = False) -> dict[str, Any]:
    """What requests took, as the fields of an event."""
    price = asked.known_price
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
        "cost": price.of(usage.prompt, usage.cached, usage.completion) if price else 0.0,
        "model": asked.model,
        "priced": price is not None,
        "estimated": estimated,
    }


@dataclass(slots=True)
class _Spent:
    """What one stage has used of one model."""

    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    priced: bool = False
    """Whether the model has a price."""
    estimated: bool = False
    """Whether some of the tokens were estimated."""


class UsageLine(Data):
    """What one stage has used of one model."""

    stage: str
    """Empty for what was asked when the stages were over: the hypotheses of a stuck task."""
    model: str
    """Empty where a log of an earlier version does not tell."""
    requests: int
    sent: int
    """Tokens that the model read."""
    cached: int
    """The part of `sent` that the server had in its cache."""
    generated: int
    """Tokens that the model wrote."""
    cost: float | None
    """By the model's price; null where it has none."""
    estimated: bool = False
    """Whether some of the tokens were estimated, because the server did not count them."""


@dataclass
class Accounts:
    """Adds up what the events of a task say. One event costs the same however many came before."""

    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    requests: int = 0
    """What the model was asked, classifiers and last words included."""
    replies: int = 0
    """What it answered in stages."""
    estimated: bool = False
    """Whether some of the tokens were estimated."""
    _lines: dict[tuple[str, str], _Spent] = field(default_factory=dict)

    def take(self, path: str, body: Spending, requests: int = 1) -> None:
        """Adds what an event with this path says."""
        spent = Usage(body.prompt_tokens, body.completion_tokens, body.cached_tokens)
        self.requests += requests
        self.cost += body.cost
        self.usage += spent
        if not requests:
            return
        line = self._lines.setdefault((stage_ids(path)[-1] if path else "", body.model), _Spent())
        line.requests += requests
        line.usage += spent
        line.cost += body.cost
        # What a log of an earlier version says of a price is that something was to be paid.
        line.priced = line.priced or body.priced or body.cost > 0
        line.estimated = line.estimated or body.estimated
        self.estimated = self.estimated or body.estimated

    @property
    def models(self) -> set[str]:
        """The models that have answered."""
        return {model for _, model in self._lines}

    @property
    def lines(self) -> tuple[UsageLine, ...]:
        """One for each stage and model, in the order in which they were first asked."""
        return tuple(
            UsageLine(
                stage=stage,
                model=model,
                requests=spent.requests,
                sent=spent.usage.prompt,
                cached=spent.usage.cached,
                generated=spent.usage.completion,
                cost=round(spent.cost, 6) if spent.priced else None,
                estimated=spent.estimated,
            )
            for (stage, model), spent in self._lines.items()
        )


AFTERWARDS = "(after the stages)"
NOT_RECORDED = "(not recorded)"


def priced_models(lines: Iterable[UsageLine]) -> tuple[int, int]:
    """How many of the models that were asked have a price, and how many there are."""
    has_price: dict[str, bool] = {}
    for line in lines:
        has_price[line.model] = has_price.get(line.model, True) and line.cost is not None
    return sum(has_price.values()), len(has_price)


def say_cost(cost: float, lines: Sequence[UsageLine]) -> str:
    """`0.0123`, and for how many models that is known; empty where no model has a price."""
    known, models = priced_models(lines)
    if not known:
        return ""
    amount = say_money(cost)
    return amount if known == models else f"{amount} (known for {known} of {models} models)"


def say_money(cost: float) -> str:
    """An amount in the money of the prices in the configuration, with as many digits as it takes."""
    return f"{cost:.2f}" if cost >= 1 else f"{cost:.4f}"


def say_usage(usage: Usage, cost: str, *, estimated: bool = False) -> str:
    """`~1,200 tokens sent (800 cached), ~90 generated, cost 0.0123`."""
    about = "~" if estimated else ""
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    said = f"{about}{usage.prompt:,} tokens sent{cached}, {about}{usage.completion:,} generated"
    return f"{said}, cost {about}{cost}" if cost else said


def usage_table(lines: Sequence[UsageLine]) -> list[tuple[str, ...]]:
    """The lines as cells for people, with a row of titles first; no costs where no model has a price."""
    with_cost = bool(priced_models(lines)[0])
    titles = ("stage", "model", "requests", "sent", "cached", "generated", "cost")
    rows = [titles, *(_cells(line) for line in lines)]
    return rows if with_cost else [row[:-1] for row in rows]


def _cells(line: UsageLine) -> tuple[str, ...]:
    about = "~" if line.estimated else ""
    return (
        line.stage or AFTERWARDS,
        line.model or NOT_RECORDED,
        f"{line.requests:,}",
        f"{about}{line.sent:,}",
        f"{line.cached:,}",
        f"{about}{line.generated:,}",
        "no price" if line.cost is None else f"{about}{say_money(line.cost)}",
    )

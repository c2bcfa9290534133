"""Weighted means."""

from collections.abc import Iterable, Sequence


class WeightError(ValueError):
    """Weights cannot be used."""


def normalise(weights: Iterable[float]) -> list[float]:
    """Return the weights scaled so that their sum is 1."""
    total = sum(weights)
    if total <= 0:
        raise WeightError("the sum of the weights must be positive")
    return [weight / total for weight in weights]


def weighted_mean(values: Sequence[float], weights: Iterable[float]) -> float:
    """Return the mean of the values, each counted as much as its weight says."""
    shares = normalise(weights)
    if len(shares) != len(values):
        raise WeightError(f"{len(values)} values but {len(shares)} weights")
    return sum(value * share for value, share in zip(values, shares, strict=True))


def fading_weights(count: int, factor: float = 0.5) -> Iterable[float]:
    """Yield weights that get smaller by a factor, beginning with 1."""
    weight = 1.0
    for _ in range(count):
        yield weight
        weight *= factor


def recent_mean(values: Sequence[float]) -> float:
    """Return the mean of the values, newest first, in which older ones count less."""
    return weighted_mean(values, fading_weights(len(values)))

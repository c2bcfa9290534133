"""The few formulas that results need."""

from collections.abc import Sequence
from math import comb, sqrt

_Z = 1.959964
"""For intervals that hold the truth in 95 of 100 cases."""


def wilson_interval(passed: int, total: int) -> tuple[float, float]:
    """Where a pass rate lies, with 95 % confidence, by Wilson's score; everywhere if nothing was tried."""
    if not total:
        return 0.0, 1.0
    rate, square = passed / total, _Z * _Z
    middle = (rate + square / (2 * total)) / (1 + square / total)
    half = _Z * sqrt(rate * (1 - rate) / total + square / (4 * total * total)) / (1 + square / total)
    return max(0.0, middle - half), min(1.0, middle + half)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """The two-sided p value of McNemar's exact test: how likely so lopsided a split is by chance alone."""
    total, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(comb(total, count) for count in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << total))


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of all lies, between neighbours in proportion; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

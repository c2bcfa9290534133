"""The few formulas that results need."""

from collections.abc import Sequence
from math import comb, sqrt

_Z = 1.959964
"""For intervals that hold the truth in 95 of 100 cases."""


def wilson_interval(passed: int, total: int) -> tuple[float, float]:
    """Where a pass rate lies, with 95% confidence, by Wilson's score; everywhere if nothing was tried."""
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


def newcombe_interval(both: int, only_first: int, only_second: int, neither: int) -> tuple[float, float]:
    """Where the difference of two paired pass rates lies, first less second, with 95% confidence.

    Newcombe's interval for paired proportions (1998, method 10), from the Wilson intervals of both rates.
    """
    total = both + only_first + only_second + neither
    if not total:
        return -1.0, 1.0
    first, second = (both + only_first) / total, (both + only_second) / total
    low_first, high_first = wilson_interval(both + only_first, total)
    low_second, high_second = wilson_interval(both + only_second, total)
    phi = _correlation(both, only_first, only_second, neither)
    below = _join(first - low_first, high_second - second, phi)
    above = _join(high_first - first, second - low_second, phi)
    return first - second - below, first - second + above


def _correlation(both: int, only_first: int, only_second: int, neither: int) -> float:
    """How far the two runs agree on which exercises are easy, corrected for continuity."""
    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    if not margins:
        return 0.0
    product: float = both * neither - only_first * only_second
    if product > 0:
        product = max(0.0, product - (both + only_first + only_second + neither) / 2)
    return product / sqrt(margins)


def _join(one: float, other: float, phi: float) -> float:
    return sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))

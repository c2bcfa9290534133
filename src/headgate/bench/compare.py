"""Two runs over the same exercises: who solved what, and whether the difference may be chance."""

from collections.abc import Iterator, Sequence
from math import comb

from headgate.bench.results import ExerciseResult
from headgate.first_use import dataclass

SIGNIFICANT = 0.05
FEWEST_DIFFERENT = 6
"""With fewer exercises that only one run solved, no split of them could be significant."""
MOST_NAMED = 40


@dataclass(frozen=True)
class Comparison:
    """The exercises that both runs have judged, by who solved them."""

    both: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    neither: tuple[str, ...]
    left_out: int
    """Exercises that only one of the runs has judged."""

    @property
    def total(self) -> int:
        return len(self.both) + len(self.only_first) + len(self.only_second) + len(self.neither)

    @property
    def p(self) -> float:
        return mcnemar_exact(len(self.only_first), len(self.only_second))


def compare_results(first: Sequence[ExerciseResult], second: Sequence[ExerciseResult]) -> Comparison:
    """Pairs the results of two runs by the names of the exercises."""
    solved_first = {result.name: result.passed is not None for result in first if result.judged}
    solved_second = {result.name: result.passed is not None for result in second if result.judged}
    groups: dict[tuple[bool, bool], list[str]] = {}
    for name in sorted(solved_first.keys() & solved_second.keys()):
        groups.setdefault((solved_first[name], solved_second[name]), []).append(name)
    return Comparison(
        both=tuple(groups.get((True, True), ())),
        only_first=tuple(groups.get((True, False), ())),
        only_second=tuple(groups.get((False, True), ())),
        neither=tuple(groups.get((False, False), ())),
        left_out=len(solved_first.keys() ^ solved_second.keys()),
    )


def render_comparison(found: Comparison, first: str, second: str) -> Iterator[str]:
    """The comparison as lines, with the names of the two runs."""
    if not found.total:
        yield "The two runs have no exercise in common that both have judged."
        return
    solved = len(found.both)
    exercises = "exercise" if found.total == 1 else "exercises"
    yield (
        f"{found.total} {exercises} in both: {first} solved {solved + len(found.only_first)},"
        f" {second} solved {solved + len(found.only_second)}."
    )
    yield f"Solved by both: {len(found.both)}. By neither: {len(found.neither)}."
    yield from _named(f"Only by {first}", found.only_first)
    yield from _named(f"Only by {second}", found.only_second)
    if found.left_out:
        yield f"Left out, because only one run has judged them: {found.left_out}."
    yield _conclude(found, first, second)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """The two-sided p value of McNemar's exact test: how likely so lopsided a split is by chance alone."""
    total, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(comb(total, count) for count in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << total))


def _named(words: str, names: Sequence[str]) -> Iterator[str]:
    more = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    listed = ", ".join(names[:MOST_NAMED])
    yield f"{words}: {len(names)}{f' ({listed}{more})' if names else ''}."


def _conclude(found: Comparison, first: str, second: str) -> str:
    """Whether one of the two is better, in a sentence or two."""
    different = len(found.only_first) + len(found.only_second)
    if not different:
        return "Both solved the same exercises."
    split = f"{different} that only one run solved"
    tested = f"McNemar's exact test on the {split} gives p = {found.p:.3g}"
    if different < FEWEST_DIFFERENT:
        return f"{tested}. These are too few to tell: fewer than {FEWEST_DIFFERENT} are never significant."
    if found.p >= SIGNIFICANT:
        return f"{tested}: the difference may be chance."
    better = first if len(found.only_first) > len(found.only_second) else second
    return f"{tested}: {better} is better, and chance is an unlikely reason."

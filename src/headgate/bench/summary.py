"""What results add up to: pass rates by try and language, how runs ended, tokens, time, cost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import median

from headgate.bench.results import ExerciseResult, Tokens
from headgate.core import say_reason
from headgate.first_use import dataclass

MOST_NAMED = 10
_Z = 1.959964
"""For intervals that hold the truth in 95 of 100 cases."""


@dataclass(frozen=True, slots=True)
class PassRate:
    """How many of some exercises passed within a number of tries."""

    passed: int
    total: int

    @property
    def share(self) -> float:
        return self.passed / self.total if self.total else 0.0

    def __str__(self) -> str:
        low, high = wilson_interval(self.passed, self.total)
        return f"{self.share:.1%} ({self.passed} of {self.total}; 95% interval {low:.1%} to {high:.1%})"


@dataclass(frozen=True)
class Summary:
    """Results, added up. What the environment did not let be judged counts nowhere but in `problems`."""

    results: tuple[ExerciseResult, ...]
    tries: int

    @property
    def judged(self) -> tuple[ExerciseResult, ...]:
        return tuple(result for result in self.results if result.judged)

    @property
    def problems(self) -> tuple[ExerciseResult, ...]:
        return tuple(result for result in self.results if not result.judged)

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(sorted({result.language for result in self.results}))

    def rate(self, within: int, language: str | None = None) -> PassRate:
        """How many passed within so many tries."""
        counted = [result for result in self.judged if language in (None, result.language)]
        passed = [result for result in counted if result.passed is not None and result.passed <= within]
        return PassRate(len(passed), len(counted))

    @property
    def endings(self) -> Counter[str]:
        """How runs ended, in words: the try that passed, or why there was none."""
        return Counter(map(_say_ending, self.judged))

    @property
    def final_turns(self) -> Counter[str]:
        """In how many exercises the model had to conclude, by slug."""
        return Counter(slug for result in self.judged for slug in set(result.final_turns))

    @property
    def tokens(self) -> Tokens:
        return Tokens(
            sent=sum(result.tokens.sent for result in self.results),
            cached=sum(result.tokens.cached for result in self.results),
            generated=sum(result.tokens.generated for result in self.results),
        )

    @property
    def seconds(self) -> tuple[float, ...]:
        """How long each exercise took."""
        return tuple(result.timing.seconds for result in self.judged)

    @property
    def requests(self) -> int:
        return sum(result.requests for result in self.results)

    @property
    def cost(self) -> float:
        return sum(result.cost for result in self.results)


def summarise(results: Sequence[ExerciseResult], tries: int | None = None) -> Summary:
    """The summary of results; without a number of tries, the most that an exercise had."""
    most = max((len(result.tries) for result in results), default=1)
    return Summary(tuple(results), tries or max(most, 1))


def wilson_interval(passed: int, total: int) -> tuple[float, float]:
    """Where a pass rate lies, with 95% confidence, by Wilson's score."""
    rate, square = passed / total, _Z * _Z
    middle = (rate + square / (2 * total)) / (1 + square / total)
    half = _Z * sqrt(rate * (1 - rate) / total + square / (4 * total * total)) / (1 + square / total)
    return max(0.0, middle - half), min(1.0, middle + half)


def _say_ending(result: ExerciseResult) -> str:
    if result.passed is not None:
        return f"passed in try {result.passed}"
    if result.reason == "verify_loops":
        return "the tests failed in every try"
    return say_reason(result.reason)


def render_summary(summary: Summary) -> Iterator[str]:
    """The summary as lines for a terminal."""
    for number in range(1, summary.tries + 1) if summary.judged else ():
        within = f"within {number} tries" if number > 1 else "in the first try"
        yield f"Passed {within}: {summary.rate(number)}"
    if len(summary.languages) > 1:
        width = max(map(len, summary.languages))
        for language in summary.languages:
            rates = [summary.rate(number, language) for number in range(1, summary.tries + 1)]
            shares = ", ".join(f"{rate.share:.1%}" for rate in rates) if rates[0].total else "not judged"
            yield f"  {language:<{width}}  {rates[-1].passed:>3} of {rates[-1].total:<3}  {shares}"
    if summary.judged:
        yield f"Ended: {_counted(summary.endings)}"
    if summary.final_turns:
        yield f"Final turns forced: {_counted(summary.final_turns)}"
    tokens = summary.tokens
    yield (
        f"Tokens: {tokens.sent:,} sent ({tokens.cached:,} cached), {tokens.generated:,} generated,"
        f" in {summary.requests:,} requests{f'; cost {summary.cost:.4f}' if summary.cost else ''}"
    )
    yield (
        f"Time: {_say_seconds(sum(summary.seconds))} in all exercises together; median"
        f" {_say_seconds(median(summary.seconds or (0.0,)))},"
        f" longest {_say_seconds(max(summary.seconds, default=0.0))}"
    )
    if problems := summary.problems:
        why = "because of the environment or of the exercise itself"
        yield f"Not judged, {why}: {len(problems)}. The same command runs them again."
        for result in problems[:MOST_NAMED]:
            yield f"  {result.name}: {result.problem}"
        if len(problems) > MOST_NAMED:
            yield f"  and {len(problems) - MOST_NAMED} more"


def _counted(counts: Counter[str]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{words} ({count})" for words, count in ordered)


def _say_seconds(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"

"""Two runs over the same exercises as one page: what differs, and whether that may be chance."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from headgate.bench.compare import Comparison, compare_results, conclude
from headgate.bench.evidence import Evidence
from headgate.bench.exercise_rows import (
    ReadEvidence,
    name_cell,
    opened_row,
    render_evidence,
    result_cell,
    say_why,
)
from headgate.bench.page_parts import document, number_cell, run_facts, table_head, tile
from headgate.bench.results import ExerciseResult
from headgate.bench.settings import RunSettings
from headgate.bench.statistics import newcombe_interval, quantile
from headgate.bench.summary import PassRate, say_seconds

_WHAT = ("Result", "Tokens", "Seconds")


@dataclass(frozen=True)
class ComparedRun:
    """One of the two runs."""

    name: str
    results: Sequence[ExerciseResult]
    settings: RunSettings | None = None
    evidence: ReadEvidence = lambda result: Evidence()

    def pick(self, names: Iterable[str]) -> list[ExerciseResult]:
        """Its results for some exercises, in this order."""
        known = {result.name: result for result in self.results}
        return [known[name] for name in names]


def render_comparison_page(first: ComparedRun, second: ComparedRun) -> str:
    """The page that compares two runs."""
    found = compare_results(first.results, second.results)
    parts = [*_head(first, second, found)]
    if found.total:
        differ = sorted((*found.only_first, *found.only_second))
        parts += _table(f"Solved by one run only: {len(differ)}", first, second, differ, "a")
        same = sorted((*found.both, *found.neither))
        parts += _table(f"Solved by both or by neither: {len(same)}", first, second, same, "b")
    return document(f"{first.name} and {second.name}", parts)


def _head(first: ComparedRun, second: ComparedRun, found: Comparison) -> Iterator[str]:
    if not found.total:
        yield "<p>The two runs have no exercise in common that both have judged.</p>"
    else:
        exercises = "1 exercise" if found.total == 1 else f"{found.total} exercises"
        yield f"<p>{exercises} judged in both. {escape(conclude(found, first.name, second.name))}</p>"
        if found.left_out:
            yield f'<p class="soft">Left out, because only one run has judged them: {found.left_out}.</p>'
        yield from _tiles(found)
    yield '<div class="pair">'
    for letter, run in (("A", first), ("B", second)):
        yield f"<section><h2>{letter}: {escape(run.name)}</h2>"
        yield from run_facts(run.settings, run.results)
        if found.total:
            yield from _spending(run.pick(found.names))
        yield "</section>"
    yield "</div>"


def _tiles(found: Comparison) -> Iterator[str]:
    yield '<div class="tiles">'
    for letter, alone in (("A", found.only_first), ("B", found.only_second)):
        rate = PassRate(len(found.both) + len(alone), found.total)
        low, high = rate.interval
        told = f"{rate.passed} of {rate.total}; 95% interval {low:.1%} to {high:.1%}"
        yield tile(f"{letter} passed", f"{rate.share:.1%}", told)
    counts = (len(found.both), len(found.only_first), len(found.only_second), len(found.neither))
    low, high = newcombe_interval(*counts)
    share = (counts[1] - counts[2]) / found.total
    told = f"percentage points; 95% interval {100 * low:+.1f} to {100 * high:+.1f} (Newcombe)"
    yield tile("A less B", f"{100 * share:+.1f}", told)
    split = f"solved by A only: {counts[1]}; by B only: {counts[2]}"
    yield tile("McNemar's exact test", f"p = {found.p:.3g}", split)
    yield "</div>"


def _spending(results: Sequence[ExerciseResult]) -> Iterator[str]:
    """Tokens and time on the exercises that both runs have judged."""
    sent, generated = (sum(each) for each in zip(*map(_tokens, results), strict=True))
    seconds = [result.timing.seconds for result in results]
    requests = sum(result.requests for result in results)
    yield f'<p class="soft">{sent:,} tokens sent, {generated:,} generated, in {requests:,} requests.</p>'
    median, most = (say_seconds(quantile(seconds, share)) for share in (0.5, 0.9))
    total = say_seconds(sum(seconds))
    yield f'<p class="soft">Total time {total}, median {median}, 90th percentile {most}.</p>'
    if cost := sum(result.cost for result in results):
        yield f'<p class="soft">Cost {cost:.2f} by the prices in the configuration.</p>'


def _tokens(result: ExerciseResult) -> tuple[int, int]:
    return result.tokens.sent, result.tokens.generated


def _table(
    title: str, first: ComparedRun, second: ComparedRun, names: Sequence[str], prefix: str
) -> Iterator[str]:
    yield f"<h2>{title}</h2>"
    if not names:
        return
    columns = ("Exercise", *(f"{what} {run}" for what in _WHAT for run in "AB"), "Why")
    yield '<div class="scroll" tabindex="0"><table>'
    yield f"{table_head(columns, frozenset(columns[3:-1]))}<tbody>"
    for number, (one, other) in enumerate(zip(first.pick(names), second.pick(names), strict=True)):
        place = f"{prefix}{number}"
        shown = render_evidence(one, first.evidence(one), ", A")
        shown += render_evidence(other, second.evidence(other), ", B")
        yield f'<tr><td class="name">{name_cell(one.name, place, shown)}</td>{_cells(one, other)}</tr>'
        yield from opened_row(place, shown, len(columns))
    yield "</tbody></table></div>"


def _cells(one: ExerciseResult, other: ExerciseResult) -> str:
    """What both runs made of an exercise, and why one of them failed."""
    pair = (one, other)
    cells = [*map(result_cell, pair)]
    cells += [number_cell(total, f"{total:,}") for total in map(sum, map(_tokens, pair))]
    cells += [number_cell(each.timing.seconds, f"{each.timing.seconds:.1f}") for each in pair]
    why = say_why(one if other.passed else other)
    return f'{"".join(cells)}<td class="reason">{escape(why)}</td>'

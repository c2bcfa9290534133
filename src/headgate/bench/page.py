"""The results as one HTML page that needs nothing else: no network, no other file. All text is escaped."""

from collections.abc import Iterator
from html import escape

from headgate.bench.evidence import Evidence
from headgate.bench.exercise_rows import ReadEvidence, exercise_table
from headgate.bench.page_parts import document, run_facts, short, tile
from headgate.bench.plots import axis_steps, histogram, rate_bar, share_bar
from headgate.bench.settings import RunSettings
from headgate.bench.statistics import quantile
from headgate.bench.summary import Summary, say_seconds


def render_page(
    summary: Summary,
    settings: RunSettings | None = None,
    evidence: ReadEvidence = lambda result: Evidence(),
) -> str:
    """The page. Without the settings of the run it does not say which model it was."""
    parts = [*_head(summary, settings)]
    if summary.judged:
        parts += [*_languages(summary), *_spread(summary), *_endings(summary)]
    if summary.problems:
        parts += _problems(summary)
    if summary.results:
        parts += exercise_table(summary.results, evidence)
    title = f"Benchmark: {settings.model}" if settings and settings.model else "Benchmark"
    return document(title, parts)


def _head(summary: Summary, settings: RunSettings | None) -> Iterator[str]:
    count, tries = len(summary.results), summary.tries
    facts = [f"{count} exercise{'' if count == 1 else 's'}", f"{tries} tr{'y' if tries == 1 else 'ies'} each"]
    facts += [f"flow {settings.flow}"] if settings else []
    yield f'<p class="soft">{escape(" · ".join(facts))}</p>'
    yield from run_facts(settings, summary.results)
    if not count:
        yield "<p>No exercise has a result yet.</p>"
    else:
        yield from _tiles(summary)


def _tiles(summary: Summary) -> Iterator[str]:
    yield '<div class="tiles">'
    for number in range(1, summary.tries + 1):
        rate = summary.rate(number)
        low, high = rate.interval
        title = f"Passed within {number} tries" if number > 1 else "Passed in the first try"
        shown = f"{rate.share:.1%}" if rate.total else "–"
        told = f"{rate.passed} of {rate.total}; 95% interval {low:.1%} to {high:.1%}"
        yield tile(title, shown, told if rate.total else "nothing was judged")
    tokens, seconds = summary.tokens, summary.seconds
    yield tile(
        "Tokens",
        f"{short(tokens.sent + tokens.generated)}",
        f"{tokens.sent:,} sent, {tokens.cached:,} of them cached; {tokens.generated:,} generated",
    )
    median, most = (say_seconds(quantile(seconds, share)) for share in (0.5, 0.9))
    yield tile("Total time", say_seconds(sum(seconds)), f"median {median}, 90th percentile {most}")
    if summary.cost:
        yield tile("Cost", f"{summary.cost:.2f}", "by the prices in the configuration")
    yield "</div>"


def _languages(summary: Summary) -> Iterator[str]:
    tries = range(1, summary.tries + 1)
    yield "<h2>Pass rates by language</h2>"
    keys = [f"try {number}" if number < 3 else "later tries" for number in tries[:3]]
    colours = "".join(
        f'<span><i style="background:var(--try{number})"></i>{key}</span>'
        for number, key in enumerate(keys, 1)
    )
    yield f'<p class="soft key">{colours}<span>line: 95% interval</span></p>'
    yield '<div class="rows">'
    named: list[str | None] = list(summary.languages) if len(summary.languages) > 1 else []
    for language in (*named, None):
        rates = [summary.rate(number, language) for number in tries]
        last = rates[-1]
        figure = f"{last.share:.1%} · {last.passed} of {last.total}" if last.total else "not judged"
        yield _bar_row(language or "all", rate_bar(rates), figure)
    yield "</div>"


def _bar_row(label: str, bar: str, figure: str) -> str:
    words = f'<span class="label">{escape(label)}</span>'
    return f'<div class="row">{words}{bar}<span class="number">{escape(figure)}</span></div>'


def _spread(summary: Summary) -> Iterator[str]:
    yield '<div class="pair">'
    tokens = [float(result.tokens.sent + result.tokens.generated) for result in summary.judged]
    for title, values, unit in (
        ("Tokens per exercise", tokens, ""),
        ("Seconds per exercise", list(summary.seconds), " s"),
    ):
        plot, most, highest = histogram(values)
        steps = "".join(f"<span>{short(step)}{unit}</span>" for step in axis_steps(most))
        told = (
            f"median {short(quantile(values, 0.5))}{unit}, most {short(max(values))}{unit};"
            f" tallest bar: {highest}"
        )
        yield f'<div><h2>{title}</h2>{plot}<div class="axis">{steps}</div><p class="soft">{told}</p></div>'
    yield "</div>"


def _endings(summary: Summary) -> Iterator[str]:
    total = len(summary.judged)
    for title, counts in (
        ("How the runs ended", summary.endings),
        ("Why the model had to conclude", summary.final_turns),
    ):
        if counts:
            yield f'<h2>{title}</h2><div class="rows">'
            for words, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
                yield _bar_row(words, share_bar(count / total), str(count))
            yield "</div>"


def _problems(summary: Summary) -> Iterator[str]:
    yield "<h2>Not judged, because of the environment or of the exercise itself</h2><ul>"
    grouped: dict[str, list[str]] = {}
    for result in summary.problems:
        grouped.setdefault(result.problem, []).append(result.name)
    for problem, names in grouped.items():
        named = escape(", ".join(names))
        yield f'<li><span class="problem">{escape(problem)}:</span> <span class="soft">{named}</span></li>'
    yield "</ul>"

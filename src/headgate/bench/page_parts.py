"""What the pages are made of: the frame, the facts about a run, tiles and numbers. All text is escaped."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from headgate.bench.results import ExerciseResult
from headgate.bench.settings import RunSettings


def document(title: str, parts: Iterable[str]) -> str:
    """A page that needs no network and no other file."""
    own = files("headgate.bench")
    style, script = (own.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + f"\n</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def run_facts(settings: RunSettings | None, results: Sequence[ExerciseResult]) -> Iterator[str]:
    """When, where and with what results were made, as far as that is known."""
    runs = settings.runs if settings else ()
    facts = {
        "Date": _span([run.started for run in runs] or [one.timing.started for one in results]),
        "Headgate": _each(_version(run.version, run.commit) for run in runs),
        "Exercises": _each(f"commit {run.exercises_commit}" for run in runs if run.exercises_commit),
        "Model server": settings.server if settings else "",
        "Machine": _each(run.machine for run in runs),
    }
    rows = (f"<dt>{name}</dt><dd>{escape(said)}</dd>" for name, said in facts.items() if said)
    yield f'<dl class="facts">{"".join(rows)}</dl>'


def _version(version: str, commit: str) -> str:
    return f"{version}, commit {commit}" if commit else version


def _each(said: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(said))


def _span(moments: Sequence[str]) -> str:
    """The first and the last of moments, to the minute."""
    known = sorted(moment[:16].replace("T", " ") for moment in moments if moment)
    return " to ".join(dict.fromkeys((known[0], known[-1]))) + " UTC" if known else ""


def tile(title: str, figure: str, told: str) -> str:
    told = f'<span class="soft">{escape(told)}</span>'
    return f'<div class="tile">{escape(title)}<b>{escape(figure)}</b>{told}</div>'


def table_head(columns: Iterable[str], numbers: frozenset[str]) -> str:
    """The head of a table that a click on a column sorts."""
    cells = (
        f'<th{" class=number" if column in numbers else ""} scope="col">'
        f'<button type="button">{escape(column)}</button></th>'
        for column in columns
    )
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def breakable(name: str) -> str:
    """An exercise's name; a long one is broken between folders."""
    return escape(name).replace("/", "/<wbr>")


def number_cell(value: float, shown: str) -> str:
    return f'<td class="number" data-key="{value}">{shown}</td>'


def short(value: float) -> str:
    """A number of a few characters: `950`, `1.2k`, `3.4M`."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"

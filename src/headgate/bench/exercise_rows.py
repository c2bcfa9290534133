"""The exercises on a page: a row for each, and what it opens to: the diff and what the tests printed."""

from collections.abc import Callable, Iterator, Sequence
from html import escape

from headgate.bench.evidence import Evidence
from headgate.bench.page_parts import breakable, number_cell, table_head
from headgate.bench.results import ExerciseResult

ReadEvidence = Callable[[ExerciseResult], Evidence]
_COLUMNS = ("Exercise", "Language", "Result", "Requests", "Sent", "Generated", "Seconds", "Why")
_NUMBERS = frozenset({"Requests", "Sent", "Generated", "Seconds"})
_NOT_JUDGED, _FAILED = 98, 99
"""What stands for the number of the try when a column is sorted."""


def exercise_table(results: Sequence[ExerciseResult], read: ReadEvidence) -> Iterator[str]:
    yield '<h2>Exercises</h2><div class="scroll" tabindex="0"><table>'
    yield f"{table_head(_COLUMNS, _NUMBERS)}<tbody>"
    for number, result in enumerate(results):
        yield from _rows(result, f"d{number}", render_evidence(result, read(result)))
    yield "</tbody></table></div>"


def _rows(result: ExerciseResult, place: str, shown: str) -> Iterator[str]:
    figures = (result.requests, result.tokens.sent, result.tokens.generated)
    numbers = "".join(number_cell(figure, f"{figure:,}") for figure in figures)
    yield (
        f'<tr><td class="name">{name_cell(result.name, place, shown)}</td><td>{escape(result.language)}</td>'
        f"{result_cell(result)}{numbers}{number_cell(result.timing.seconds, f'{result.timing.seconds:.1f}')}"
        f'<td class="reason">{escape(say_why(result))}</td></tr>'
    )
    yield from opened_row(place, shown, len(_COLUMNS))


def name_cell(name: str, place: str, shown: str) -> str:
    """The name; a button if there is something to open."""
    if not shown:
        return breakable(name)
    return f'<button type="button" aria-expanded="false" aria-controls="{place}">{breakable(name)}</button>'


def opened_row(place: str, shown: str, columns: int) -> Iterator[str]:
    """The row below, which the button opens."""
    if shown:
        yield (
            f'<tr class="more" id="{place}" hidden><td colspan="{columns}"><div class="evidence">{shown}'
            "</div></td></tr>"
        )


def result_cell(result: ExerciseResult | None) -> str:
    if result is None or not result.judged:
        return f'<td class="problem" data-key="{_NOT_JUDGED}">not judged</td>'
    if result.passed is None:
        return f'<td class="failed" data-key="{_FAILED}">failed</td>'
    return f'<td class="passed" data-key="{result.passed}">try {result.passed}</td>'


def say_why(result: ExerciseResult) -> str:
    """Why it failed, or why its first try did."""
    if not result.judged:
        return result.problem
    if result.passed is None:
        return next((one.reason for one in result.tries[::-1] if one.reason), result.reason)
    return result.tries[0].reason or ""


def render_evidence(result: ExerciseResult, evidence: Evidence, of: str = "") -> str:
    """The diff and the output of each try; empty if there is neither. `of` names the run."""
    blocks = [
        _block(f"Try {number}{of}: {_say_try(result, number)}", escape(output))
        for number, output in enumerate(evidence.outputs, 1)
        if output
    ]
    if evidence.diff:
        blocks.insert(0, _block(f"Diff{of}", "".join(map(_diff_line, evidence.diff.splitlines()))))
    return "".join(blocks)


def _say_try(result: ExerciseResult, number: int) -> str:
    reason = result.tries[number - 1].reason if number <= len(result.tries) else ""
    return "passed" if reason is None else reason or "failed"


def _block(title: str, text: str) -> str:
    return f'<h3>{escape(title)}</h3><pre tabindex="0">{text}</pre>'


def _diff_line(line: str) -> str:
    sign = "" if line.startswith(("+++", "---")) else line[:1]
    kind = {"+": "added", "-": "removed", "@": "soft"}.get(sign)
    text = f"{escape(line)}\n"
    return f'<span class="{kind}">{text}</span>' if kind else text

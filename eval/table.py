"""The tables of an evaluation in Markdown; `--write` puts them into docs/local-models.md, `--check` compares.

Both read eval/results.jsonl, which `python eval/run.py --results eval/results.jsonl` measures again, and
eval/by_turns.jsonl, in which an earlier version and a later one took turns.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evaltasks import Result, Results, all_tasks

PAGE = Path(__file__).parents[1] / "docs" / "local-models.md"
RESULTS = Path(__file__).parent / "results.jsonl"
BY_TURNS = Path(__file__).parent / "by_turns.jsonl"

_HEAD = [
    "run",
    "limit",
    "solved",
    "wall time",
    "requests",
    "prompt tokens",
    "of these read",
    "completion tokens",
]
_HOLDS = "of these hold"
"""A column for tasks with held-out tests: what passed with the tests that the run saw, judged by these."""
_VERDICTS = ("passed", "failed", "unchanged", "repeated", "unusable")
_CALLS = {
    "unusable_reply": "replies unusable",
    "no_call": "with no call",
    "not_carried_out": "calls not carried out",
    "carried_out": "carried out",
    "changes": "of these, changes",
    "first_replies": "replies after a change of stage",
    "read_for_these": "tokens read for these",
}


def print_tables(results: Sequence[Result]) -> None:
    """Totals of each run over the tasks that all of a table's runs have, then each task."""
    results = told_apart(results)
    for title, chosen in groups(results):
        print(f"\n{title}\n\n{totals(chosen)}")
    print(f"\n{per_task(results)}")


def told_apart(results: Sequence[Result]) -> Sequence[Result]:
    """Runs with different models are different runs; with one model, its name is not repeated."""
    if len({result.model for result in results}) < 2:
        return results
    return [replace(result, run=f"{result.run} ({result.model or 'unknown'})") for result in results]


def groups(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """Runs that did the same tasks belong into one table."""
    by_tasks: dict[frozenset[str], list[Result]] = {}
    for run in dict.fromkeys(result.run for result in results):
        own = [result for result in results if result.run == run]
        by_tasks.setdefault(frozenset(result.task for result in own), []).extend(own)
    return [(f"{len(tasks)} tasks", own) for tasks, own in by_tasks.items()]


def totals(results: Iterable[Result]) -> str:
    """One line for each run."""
    by_run: dict[str, list[Result]] = {}
    for result in results:
        by_run.setdefault(result.run, []).append(result)
    judged = any(result.holds is not None for own in by_run.values() for result in own)
    head = [*_HEAD[:3], _HOLDS, *_HEAD[3:]] if judged else _HEAD
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for run, own in by_run.items():
        solved = sum(result.solved for result in own)
        seconds = sum(result.seconds for result in own)
        counts = [
            sum(getattr(result, name) for result in own)
            for name in ("requests", "prompt", "evaluated", "completion")
        ]
        limit = ", ".join(dict.fromkeys(result.limit for result in own))
        cells = [
            run,
            limit,
            f"{solved} of {len(own)}",
            f"{seconds:,.0f} s",
            *(f"{count:,}" for count in counts),
        ]
        if judged:
            cells.insert(3, f"{sum(result.holds is True for result in own)} of {solved}")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def per_task(results: Sequence[Result]) -> str:
    """One line for each task, one column for each run: solved or not, and the seconds that it took."""
    runs = list(dict.fromkeys(result.run for result in results))
    rows = [f"| task | level | {' | '.join(runs)} |", f"|---|---|{'---|' * len(runs)}"]
    cells = {(result.task, result.run): result for result in results}
    for task, level in sorted({(result.task, result.level) for result in results}):
        shown = [cells.get((task, run)) for run in runs]
        marks = [f"{_mark(each)}, {each.seconds:.0f} s" if each else "" for each in shown]
        rows.append(f"| {task} | {level} | {' | '.join(marks)} |")
    return "\n".join(rows)


def _mark(result: Result) -> str:
    if not result.solved:
        return "no"
    how = ", by a mutation" if result.notes.get("mutation") else ""
    return f"yes{how}{', does not hold' if result.holds is False else ''}"


def answers(results: Sequence[Result]) -> str:
    """What came of the whole answers that were asked for, one line for each run that asks for such."""
    rows = [
        "| run | answers | passed | failed | unchanged | repeated | unusable |",
        "|---|---|---|---|---|---|---|",
    ]
    for run, counts in counted(results, _VERDICTS):
        rows.append(f"| {run} | {sum(counts)} | {' | '.join(map(str, counts))} |")
    return "\n".join(rows)


def calls(results: Sequence[Result]) -> str:
    """What came of replies and calls, one line for each run that gives the model tools."""
    rows = [f"| run | {' | '.join(_CALLS.values())} |", f"|---|{'---|' * len(_CALLS)}"]
    with_answers = {run for run, _ in counted(results, _VERDICTS)}
    for run, counts in counted(results, _CALLS):
        if run not in with_answers:
            rows.append(f"| {run} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join(rows)


def counted(results: Sequence[Result], names: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
    """For each run that has any of them: what its notes come to, over all of its tasks."""
    for run in dict.fromkeys(result.run for result in results):
        own = [result for result in results if result.run == run]
        counts = [sum(result.notes.get(name, 0) for result in own) for name in names]
        if any(counts):
            yield run, counts


def write_page(page: str, results: Sequence[Result], by_turns: Sequence[Result]) -> str:
    """The page with each table between its marks as the results are now."""
    results = told_apart(results)
    every, subset = ({task.name for task in all_tasks(chosen)} for chosen in ("all", "subset"))
    done = {run: {each.task for each in results if each.run == run} for run in {each.run for each in results}}
    on_all = [result for result in results if every <= done[result.run]]
    on_subset = [result for result in results if result.task in subset and subset <= done[result.run]]
    tables = {
        "all": totals(on_all),
        "answers": answers(on_all),
        "tasks": per_task(on_all),
        "subset": totals(on_subset),
        "subset calls": calls(on_subset),
        "subset tasks": per_task(on_subset),
        "by turns": totals(by_turns),
        "by turns answers": answers(by_turns),
        "by turns tasks": per_task(by_turns),
    }
    for name, table in tables.items():
        mark = f"<!-- table: {name} -->"
        if mark in page:
            start = page.index(mark)
            page = f"{page[:start]}{mark}\n\n{table}\n\n{page[page.index('<!-- end -->', start) :]}"
    return page


def main() -> None:
    """Writes the page, or says that it is out of date."""
    page = PAGE.read_text("utf-8")
    written = write_page(page, Results(RESULTS).read(), Results(BY_TURNS).read())
    if "--write" in sys.argv:
        PAGE.write_text(written, encoding="utf-8")
    elif page != written:
        sys.exit(f"{PAGE.name} is out of date: run python eval/table.py --write")


if __name__ == "__main__":
    main()

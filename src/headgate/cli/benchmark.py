"""Benchmark mode: the one line on standard output, and what holds for a task that is a try."""

from collections.abc import Mapping

import click

from headgate.cli.exit_codes import EXIT_CANCELLED, EXIT_FAILED, EXIT_SUCCESS
from headgate.cli.show.live import printable
from headgate.core import Options, Report, State, TaskState, last_summary

BLOCK_TEST_EDITS = ("HEADGATE_BLOCK_TEST_EDITS", "LOCALCODE_BLOCK_TEST_EDITS")
"""The first of these that says anything decides; tests are protected unless it says no."""
_NO = frozenset({"0", "false", "no", "off"})
_REASON_CHARS = 300


def benchmark_options(options: Options, number: int, environ: Mapping[str, str]) -> Options:
    """The options of a task that is a try: tests are protected, unless the environment says no."""
    said = next((value for name in BLOCK_TEST_EDITS if (value := environ.get(name, "").strip())), "")
    protect = "off" if said.lower() in _NO else "all"
    return options.model_copy(update={"benchmark": number, "protect_tests": protect})


def check_options(benchmark: bool, number: int | None, as_json: bool, dry_run: bool) -> None:
    """UsageError for what does not go together: each of these wants standard output for itself."""
    if benchmark != (number is not None):
        raise click.UsageError("Use --benchmark and --try N together, such as --benchmark --try 1.")
    for given, option in ((as_json, "--json"), (dry_run, "--dry-run")):
        if benchmark and given:
            raise click.UsageError(f"--benchmark prints only one line: leave out {option}.")


def result_line(number: int, report: Report | None, state: State) -> str:
    """`Finished TryN`, or `Failed TryN: reason`; what the model said last, if the configuration wants that.

    Without a report Headgate itself has failed.
    """
    if state.config.get("benchmark_output_mode") == "model" and (said := last_summary(state)):
        return _one_line(said)
    if report is not None and report.state == "SUCCESS":
        return f"Finished Try{number}"
    forced = (
        f" [final turn: {', '.join(dict.fromkeys(report.final_turns))}]"
        if report and report.final_turns
        else ""
    )
    return f"Failed Try{number}: {_one_line(_reason(report))[:_REASON_CHARS].rstrip()}{forced}"


def try_exit_code(state: TaskState) -> int:
    """The exit code of a try: 1 for every failure, whatever the reason, and 130 if it was cancelled."""
    return {"SUCCESS": EXIT_SUCCESS, "CANCELLED": EXIT_CANCELLED}.get(state, EXIT_FAILED)


def _reason(report: Report | None) -> str:
    if report is None:
        return "Headgate itself failed"
    if report.state == "CANCELLED":
        return "cancelled"
    if report.state == "QUEUED":
        return "the queue is paused"
    return (report.summary.splitlines() or [report.reason])[0]


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())

"""`headgate bench`: runs many exercises and keeps the results; compares two runs; writes the page."""

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from headgate.bench import (
    FLOW,
    NOWHERE,
    RESULTS,
    SECONDS,
    BenchRun,
    ComparedRun,
    Evidence,
    ExerciseResult,
    Terms,
    canonical_language,
    compare_results,
    find_exercises,
    read_evidence,
    read_results,
    read_settings,
    render_comparison,
    render_comparison_page,
    render_page,
    render_summary,
    summarise,
    write_whole,
)
from headgate.cli.bench_view import BenchView, say_results
from headgate.cli.follow import on_interrupt
from headgate.cli.printing import say
from headgate.cli.shared import (
    EXIT_CANCELLED,
    EXIT_ENVIRONMENT,
    EXIT_SUCCESS,
    config_option,
    flow_argument,
    model_options,
)
from headgate.cli.terminal import fold_lines, terminal_width
from headgate.errors import ConfigError
from headgate.process import is_inside_command

PAGE, COMPARISON = "report.html", "compare.html"
OUT = Path("bench-results")
EPILOG = """\b
Examples:
  headgate bench exercises --model ollama/qwen3-coder
  headgate bench exercises --only 'python/*' --parallel 4
  headgate bench compare bench-results/one bench-results/two
  headgate bench page bench-results/one
"""


class BenchGroup(click.Group):
    """Takes a word that is no subcommand for the folder of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    "bench",
    cls=BenchGroup,
    subcommand_metavar="DIR [OPTIONS] | COMMAND ...",
    epilog=EPILOG,
    no_args_is_help=True,
)
def command() -> None:
    """Run many exercises with a model, and see how many it solves.

    headgate bench DIR is short for headgate bench run DIR.
    """


def _read_commands(ctx: click.Context, option: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    commands: dict[str, str] = {}
    for item in given:
        language, sign, text = item.partition("=")
        if not sign or not language.strip() or not text.strip():
            raise click.BadParameter("write LANGUAGE=COMMAND, such as python='pytest -q'.", ctx, option)
        commands[canonical_language(language)] = text.strip()
    return commands


@command.command("run")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--only", multiple=True, metavar="GLOB", help="Only exercises with such names. Repeatable.")
@click.option(
    "--tries",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    metavar="N",
    help="Tries for each exercise.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Exercises at once.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86_400, min_open=True),
    metavar="SECONDS",
    help=f"How long the tests may run in a try.  [default: {SECONDS:g}; what a plain exercise says]",
)
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="LANGUAGE=COMMAND",
    callback=_read_commands,
    help="The command that runs the tests of a language. Repeatable.",
)
@click.option("--flow", metavar="FLOW", help=f"The flow, by name or file.  [default: {FLOW}]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the results go.  [default: a folder in bench-results, named after DIR and the model]",
)
@click.option("--keep", is_flag=True, help="Keep the repositories of the exercises, beside the results.")
@model_options
@config_option
def run(
    folder: Path,
    only: tuple[str, ...],
    tries: int,
    parallel: int,
    timeout: float | None,
    commands: dict[str, str],
    flow: str | None,
    out: Path | None,
    keep: bool,
    model: str | None,
    base_url: str | None,
    config: Path | None,
) -> None:
    """Run the exercises in a folder, at any depth.

    An exercise is a folder with .docs and .meta/config.json, as in the polyglot benchmark, or a small
    repository with task.txt and agent.yaml. Each is carried out as one task in a throwaway repository. A try
    ends with the tests; the next one continues the same conversation with their output.

    Standard output has a line for each try: Finished TryN, or Failed TryN: and the reason, then a tab and
    the exercise's name. The results are lines of JSON in --out, where report.html shows them as well. After
    a crash or Ctrl-C, run the same command again: it skips what has a result, and retries what could not be
    judged.

    The exit code is 0 if the run got to its end, however many exercises passed. It is 3 if no exercise
    could be judged.
    """
    if any(is_inside_command(place) for place in (Path.cwd(), *Path.cwd().parents)):
        raise ConfigError("A command of a task cannot act for the user: run this yourself, in a terminal.")
    exercises = find_exercises(folder, only)
    terms = Terms(
        tries=tries,
        seconds=timeout,
        commands=commands,
        model=_model_argument(model),
        base_url=base_url,
        config=config.absolute() if config else None,
        flow=flow_argument(flow) or FLOW,
    )
    view = BenchView(tries)
    bench = BenchRun(folder, exercises, terms, Path(), parallel, keep, view)
    settings = bench.settings()
    bench.out = out or OUT / _file_name(folder.resolve().name, settings.model)
    for note in terms.load(NOWHERE).notes:
        click.echo(note, err=True)
    results = asyncio.run(_follow(bench, view))
    if results is None:
        found = read_results(bench.out) if (bench.out / RESULTS).exists() else []
        _write_results(bench.out / PAGE, found, bench.out)
        _tell(f"Stopped. {say_results(len(found))}; run the same command again to continue.")
        sys.exit(EXIT_CANCELLED)
    _write_results(bench.out / PAGE, results, bench.out)
    for line in render_summary(summarise(results, tries)):
        _tell(line)
    _tell(f"Results: {bench.out / RESULTS}; page: {bench.out / PAGE}")
    sys.exit(EXIT_SUCCESS if any(result.judged for result in results) else EXIT_ENVIRONMENT)


async def _follow(bench: BenchRun, view: BenchView) -> list[ExerciseResult] | None:
    """Runs the exercises; None if somebody stopped that."""
    work = asyncio.ensure_future(bench.run())

    def stop() -> None:
        view.tell("Stopping; unfinished exercises start over next time. Ctrl-C again quits at once")
        work.cancel()

    on_interrupt(
        stop, lambda: f"{view.wipe()}Quit at once. Run the same command again to continue.\n", view.__exit__
    )
    with view:
        await asyncio.wait({work})
    return None if work.cancelled() else work.result()


@command.command("compare")
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The page to write.  [default: compare.html, beside the results of B]",
)
def compare(first: Path, second: Path, to: Path | None) -> None:
    """Compare two runs over the same exercises.

    A and B are folders with results, or their results.jsonl. Only exercises that both have judged count. The
    p value is that of McNemar's exact test. A page shows which exercises differ, with tokens, times and
    intervals.
    """
    paths = (first, second)
    names = [_run_name(path) for path in paths]
    if names[0] == names[1]:
        names = [str(first), str(second)]
    runs = [
        ComparedRun(name, read_results(path), read_settings(_folder(path)), _evidence_in(_folder(path)))
        for name, path in zip(names, paths, strict=True)
    ]
    found = compare_results(runs[0].results, runs[1].results)
    for line in render_comparison(found, *names):
        say(line, hanging=2)
    target = to or _folder(second) / COMPARISON
    _write_page(target, render_comparison_page(*runs))
    say(f"Page: {target}")


@command.command("page")
@click.argument("results", metavar="RESULTS", type=click.Path(path_type=Path))
@click.option(
    "--to", type=click.Path(path_type=Path), metavar="FILE", help="The file to write.  [default: report.html]"
)
def page(results: Path, to: Path | None) -> None:
    """Write the page of a run again.

    RESULTS is a folder with results, or a results.jsonl. The page is written beside it.
    """
    folder = _folder(results)
    target = to or folder / PAGE
    _write_results(target, read_results(results), folder)
    say(str(target))


def _write_results(target: Path, results: Sequence[ExerciseResult], folder: Path) -> None:
    settings = read_settings(folder)
    summary = summarise(results, settings.tries if settings else None)
    _write_page(target, render_page(summary, settings, _evidence_in(folder)))


def _write_page(target: Path, page: str) -> None:
    try:
        write_whole(target, page.encode("utf-8", "replace"))
    except FileNotFoundError:
        raise ConfigError(f"{target} cannot be written: there is no folder {target.parent}.") from None
    except OSError as error:
        raise ConfigError(
            f"{target} cannot be written: {error.strerror}. Name another file with --to."
        ) from None


def _evidence_in(folder: Path) -> Callable[[ExerciseResult], Evidence]:
    """What a folder with results keeps of an exercise."""
    return lambda result: read_evidence(folder, result.name, len(result.tries))


def _folder(results: Path) -> Path:
    """The folder of results, which are named themselves or by their folder."""
    return results if results.is_dir() else results.parent


def _run_name(path: Path) -> str:
    settings = read_settings(_folder(path))
    return settings.model if settings and settings.model else str(path)


def _model_argument(value: str | None) -> str | None:
    """A `--model`: a script is named from the working directory."""
    if value and value.startswith("script:"):
        return f"script:{Path(value.removeprefix('script:')).absolute()}"
    return value


def _file_name(*words: str) -> str:
    return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9._-]+", "-", word).strip("-.") for word in words)))[
        :100
    ]


def _tell(line: str) -> None:
    click.echo(fold_lines(line, terminal_width(sys.stderr), 2), err=True)

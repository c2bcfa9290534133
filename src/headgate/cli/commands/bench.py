"""`headgate bench`: runs many exercises and keeps the results; compares two runs."""

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from headgate.bench import (
    FLOW,
    NOWHERE,
    RESULTS,
    SECONDS,
    BenchRun,
    ExerciseResult,
    Terms,
    canonical_language,
    compare_results,
    find_exercises,
    read_results,
    read_settings,
    render_comparison,
    render_summary,
    summarise,
)
from headgate.cli.bench_view import BenchView, say_results
from headgate.cli.printing import say, tell
from headgate.cli.shared import (
    EXIT_CANCELLED,
    EXIT_ENVIRONMENT,
    EXIT_SUCCESS,
    config_option,
    flow_argument,
    model_options,
)
from headgate.cli.worker import on_interrupt
from headgate.errors import ConfigError
from headgate.process import is_inside_command

OUT = Path("bench-results")
EPILOG = """\b
Examples:
  headgate bench exercises --model ollama/qwen3-coder
  headgate bench exercises --only 'python/*' --parallel 4
  headgate bench compare bench-results/one bench-results/two
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
    the exercise's name. The results are lines of JSON in --out. After a crash or Ctrl-C, run the
    same command again: it skips what has a result, and retries what could not be judged.

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
        tell(note)
    results = asyncio.run(_follow(bench, view))
    if results is None:
        found = read_results(bench.out) if (bench.out / RESULTS).exists() else []
        tell(f"Stopped. {say_results(len(found))}; run the same command again to continue.")
        sys.exit(EXIT_CANCELLED)
    for line in render_summary(summarise(results, tries)):
        tell(line)
    tell(f"Results: {bench.out / RESULTS}")
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
def compare(first: Path, second: Path) -> None:
    """Compare two runs over the same exercises.

    A and B are folders with results, or their results.jsonl. Only exercises that both have judged count. The
    p value is that of McNemar's exact test.
    """
    paths = (first, second)
    names = [_run_name(path) for path in paths]
    if names[0] == names[1]:
        names = [str(first), str(second)]
    found = compare_results(*map(read_results, paths))
    for line in render_comparison(found, *names):
        say(line, hanging=2)


def _run_name(path: Path) -> str:
    settings = read_settings(path if path.is_dir() else path.parent)
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

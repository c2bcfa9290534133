"""The `headgate` command: which subcommands there are, and what an error looks like to a person.

Only click is imported here; a command's module is imported when the command is used.
"""

import atexit
import gc
import os
import sys
from importlib import import_module
from types import TracebackType
from typing import Any, Literal, NamedTuple, NoReturn

import click

from headgate import __version__
from headgate.cli.failures import PROGRAM, describe_failure, find_leaf
from headgate.cli.shared import (
    EXIT_BROKEN_PIPE,
    EXIT_CODE_MEANINGS,
    HintingGroup,
    config_option,
    model_options,
    repo_option,
)
from headgate.cli.terminal import (
    fill_closed_streams,
    fold_lines,
    help_width,
    is_interactive,
    protect_terminal,
    terminal_width,
    typing_hidden,
)
from headgate.control_characters import escape_controls


class CommandEntry(NamedTuple):
    """A subcommand: where it is, and its line in the list of commands."""

    section: str
    module: str
    """In `headgate.cli.commands`."""
    summary: str
    function: str = "command"


COMMANDS = {
    "init": CommandEntry("Set up", "init", "Write agent.yaml for this repository."),
    "doctor": CommandEntry("Set up", "doctor", "Check git, the configuration and the model."),
    "demo": CommandEntry("Set up", "demo", "Watch a task run without a model, in a throwaway repository."),
    "trust": CommandEntry("Set up", "trust", "Allow what agent.yaml gives to commands."),
    "flows": CommandEntry("Set up", "flows", "List, show, check and draw flows."),
    "run": CommandEntry("Work", "start", "Run a task and wait for it to end.", "run_command"),
    "ask": CommandEntry(
        "Work", "start", "Ask a question about the code and print the answer.", "ask_command"
    ),
    "submit": CommandEntry("Work", "start", "Queue a task and return at once.", "submit_command"),
    "watch": CommandEntry("Work", "watch", "Follow a task while it runs.", "watch_command"),
    "say": CommandEntry("Work", "steer", "Tell a running or queued task something.", "say_command"),
    "cancel": CommandEntry("Work", "steer", "Cancel a queued or running task.", "cancel_command"),
    "apply": CommandEntry("Work", "settle", "Write a proposal or a worktree's changes.", "apply_command"),
    "abort": CommandEntry("Work", "settle", "Discard a proposal, or a task's worktree.", "abort_command"),
    "undo": CommandEntry("Work", "settle", "Undo a task's changes.", "undo_command"),
    "serve": CommandEntry("Work", "serve", "Serve a page and an API for this repository."),
    "bench": CommandEntry("Work", "bench", "Run many exercises with a model and count what it solves."),
    "verify": CommandEntry("Work", "verify", "Run the verification steps now, without a task."),
    "tasks": CommandEntry(
        "Look back",
        "look_back",
        "List the tasks with their states, queue positions and ages.",
        "tasks_command",
    ),
    "show": CommandEntry(
        "Look back", "look_back", "Show a task: its state, stages and changes.", "show_command"
    ),
    "diff": CommandEntry(
        "Look back", "look_back", "Print what a task proposes or has changed.", "diff_command"
    ),
    "report": CommandEntry("Look back", "look_back", "Print a task's report.", "report_command"),
    "memory": CommandEntry("Look back", "memory", "List, search and delete what models have saved."),
}

HIDDEN = {"work": CommandEntry("", "work", "Run the queued tasks, then exit.")}
"""Commands that Headgate gives itself; no list shows them."""

ENVIRONMENT = {
    "HEADGATE_MODEL": "The model, in the same form as for `--model`.",
    "HEADGATE_BASE_URL": "The model server's address, in the same form as for `--base-url`.",
    "HEADGATE_API_KEY": "The key for the model's server.",
    "OPENAI_BASE_URL": "The server's address for `openai/` models, if HEADGATE_BASE_URL is not set.",
    "OPENAI_API_KEY": "The key for `openai/` models, if HEADGATE_API_KEY is not set.",
    "ANTHROPIC_API_KEY": "The key for `anthropic/` models, if HEADGATE_API_KEY is not set.",
    "OLLAMA_HOST": "Ollama's address for `ollama/` models, if nothing else names one.",
    "OLLAMA_API_KEY": "The key for `ollama/` models, if HEADGATE_API_KEY is not set.",
    "HEADGATE_SERVERS": "Where `init` and `doctor` look for model servers: a comma-separated list of "
    "addresses. If empty, they look nowhere.",
    "HEADGATE_TOKEN": "The token that `serve` asks for. It is needed to listen for other machines.",
    "HEADGATE_BLOCK_TEST_EDITS": "`0` lets a benchmark's tasks change tests; otherwise they cannot.",
    "HEADGATE_DEBUG": "`1` shows the traceback of an error.",
}

_EXIT_CODE_LINES = "\n".join(f"  {code:<4}{meaning}" for code, meaning in EXIT_CODE_MEANINGS.items())

EPILOG = f"""\b
Examples:
  headgate init
  headgate doctor
  headgate run "Make parse_date accept ISO weeks"
  headgate run --dry-run --file task.md
  headgate ask "Where are dates parsed?"
  headgate submit --model ollama/qwen3-coder "Fix the typos in the README"

\b
Exit codes:
{_EXIT_CODE_LINES}
"""


class LazyGroup(HintingGroup):
    """Imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name) or HIDDEN.get(cmd_name)
        if entry is None:
            return None
        gc.disable()  # imports leave no garbage, and looking for some takes a tenth of the time
        try:
            command = getattr(import_module(f"headgate.cli.commands.{entry.module}"), entry.function)
        finally:
            gc.freeze()
            gc.enable()
        assert isinstance(command, click.Command)
        return command

    def meant(self) -> dict[str, str]:
        return {name: name for name in COMMANDS}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            rows = [
                (name.ljust(width), entry.summary)
                for name, entry in COMMANDS.items()
                if entry.section == section
            ]
            with formatter.section(section):
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name=PROGRAM, message="%(prog)s %(version)s")
@repo_option
@config_option
@model_options
@click.option("--flow", metavar="FLOW", help="The flow, by name or file.")
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> int | None:
    """Headgate runs coding tasks in a git repository with the model you have.

    The runtime, not the model, decides what is allowed, when work counts as done and when to stop.

    Without a command, on a terminal, Headgate is interactive: type a task, follow it, steer it. These
    options are for the interactive terminal. Options of a command follow its name.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if ctx.invoked_subcommand is not None:
        if given:
            command = f"{PROGRAM} {ctx.invoked_subcommand}"
            raise click.UsageError(f"Put {given[0]} after the command: {command} {given[0]} ...", ctx)
        return None
    if not is_interactive():
        if given:
            raise click.UsageError("Name a command: without one, Headgate needs a terminal.", ctx)
        raise click.exceptions.NoArgsIsHelpError(ctx)
    with typing_hidden() as show_typing:
        from headgate.cli.interactive.start import interact

        return interact(show_typing, **options)


def main(argv: list[str] | None = None) -> NoReturn:
    """Runs a command line and exits with its code. A command may return its exit code."""
    # What is left at the end goes with the process: it is not searched for garbage before.
    atexit.register(gc.freeze)
    fill_closed_streams()
    protect_terminal()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if instruction := os.environ.get("_HEADGATE_COMPLETE"):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, PROGRAM, "_HEADGATE_COMPLETE", instruction))
    with ErrorPolicy():
        result: Any = 0
        args = list(sys.argv[1:] if argv is None else argv)
        with cli.make_context(PROGRAM, args, terminal_width=help_width()) as ctx:
            result = cli.invoke(ctx)
        sys.stdout.flush()
        sys.exit(result if isinstance(result, int) else 0)
    raise AssertionError("the policy lets nothing through")


class ErrorPolicy:
    """Turns whatever leaves the block into one line on stderr and an exit code, never a traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if error is None or isinstance(error, SystemExit):
            return False
        if isinstance(error, click.exceptions.Exit):
            _exit_quietly(error.exit_code)
        if isinstance(error, BrokenPipeError):
            _exit_quietly(EXIT_BROKEN_PIPE)
        if isinstance(error, BaseExceptionGroup):
            error = find_leaf(error)
        line, code = describe_failure(error)
        if os.environ.get("HEADGATE_DEBUG") == "1":
            from traceback import print_exception

            print_exception(error)
        try:
            click.echo(fold_lines(escape_controls(line), terminal_width(sys.stderr), 2), err=True)
        except BrokenPipeError:
            _exit_quietly(code)
        sys.exit(code)


def _exit_quietly(code: int) -> NoReturn:
    """Exits when the reader of our output may be gone: nothing more can be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer goes nowhere, so that the interpreter's own flush does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)

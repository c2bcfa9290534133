"""What a person reads of an error: one line, never a traceback.

`main` imports this module, so it imports little.
"""

import os
import sys

import click

from headgate import __version__
from headgate.cli.shared import EXIT_CANCELLED, EXIT_ENVIRONMENT, EXIT_USAGE
from headgate.errors import ConfigError, HeadgateError, describe_system, is_of_system

PROGRAM = "headgate"


def describe_failure(error: BaseException) -> tuple[str, int]:
    """The line that a person reads, and the exit code."""
    match error:
        case ConfigError():
            return f"{PROGRAM}: {_one_line(error)}", EXIT_USAGE
        case HeadgateError():
            return f"{PROGRAM}: {_one_line(error)}", EXIT_ENVIRONMENT
        case click.exceptions.NoArgsIsHelpError():
            return error.format_message(), EXIT_USAGE
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else PROGRAM
            return f'{path}: {error.format_message()} (see "{path} --help")', error.exit_code
        case click.ClickException():
            return f"{PROGRAM}: {error.format_message()}", error.exit_code
        case KeyboardInterrupt() | click.exceptions.Abort():
            return f"{PROGRAM}: interrupted", EXIT_CANCELLED
        case OSError() if is_of_system(error):
            return f"{PROGRAM}: {describe_system(error)}", EXIT_ENVIRONMENT
        case _:
            what = f"{type(error).__name__}: {_one_line(error)}".removesuffix(": ")
            return f"{PROGRAM}: this is a bug in Headgate: {what}. {_save_trace(error)}", EXIT_ENVIRONMENT


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def find_leaf(error: BaseException) -> BaseException:
    """One error out of a group: one that Headgate raised on purpose, if there is one."""
    leaves: list[BaseException] = []
    open_groups: list[BaseException] = [error]
    while open_groups:
        item = open_groups.pop(0)
        if isinstance(item, BaseExceptionGroup):
            open_groups.extend(item.exceptions)
        else:
            leaves.append(item)
    return next((leaf for leaf in leaves if isinstance(leaf, HeadgateError)), leaves[0])


def _save_trace(error: BaseException) -> str:
    """Writes the traceback to a file and says where; without a place for it, says how to see it."""
    from tempfile import mkstemp
    from traceback import format_exception

    try:
        handle, path = mkstemp(prefix="headgate-bug-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"headgate {__version__}, Python {sys.version}\n\n{''.join(format_exception(error))}")
    except OSError:
        return "Set HEADGATE_DEBUG=1 to see where."
    return f"The traceback is in {path}."

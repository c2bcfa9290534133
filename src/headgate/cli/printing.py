"""Text for people, and what goes to standard output as it is."""

import os
import sys
from typing import Any

import click
import orjson

from headgate.cli.terminal import fold_lines, terminal_width
from headgate.control_characters import escape_controls


def clock(seconds: float) -> str:
    """`1:02:03`, or `02:03` below an hour."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def printable(text: str) -> str:
    """Text from a model or a command as part of one line, for pipes and for a console with styles, too."""
    return "".join(char if char.isprintable() else " " for char in text)


def say(text: str = "", *, hanging: int | None = None, as_is: bool = False) -> None:
    """One line on standard output, whatever its characters and whether or not anyone still reads it.

    With `hanging`, a terminal has it broken at words, and indented by that much from its second line on.
    Control characters of a model are written out, also in a pipe, unless the line is to stay `as_is`, for
    programs.
    """
    text = text if as_is else escape_controls(text)
    if hanging is not None:
        text = fold_lines(text, terminal_width(sys.stdout), hanging)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding, "replace") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(text: str) -> None:
    """A line on standard error, for the person: a terminal has it broken at words."""
    click.echo(fold_lines(escape_controls(text), terminal_width(sys.stderr), 2), err=True)


def say_json(data: Any, *, in_one_line: bool = False) -> None:
    """JSON for programs on standard output: nothing in it is written out."""
    say(orjson.dumps(data, option=0 if in_one_line else orjson.OPT_INDENT_2).decode(), as_is=True)


def print_diff(diff: bytes) -> None:
    """A diff alone on standard output, byte for byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(diff)
    sys.stdout.buffer.flush()

"""`headgate say`: a person's word to a task that is queued or runs."""

import re
import sys
from pathlib import Path

import click

from headgate.cli.printing import say
from headgate.cli.shared import find_repo_to_act, repo_option
from headgate.cli.stored_tasks import find_store, find_task
from headgate.core import TaskState
from headgate.engine import Engine
from headgate.errors import ConfigError
from headgate.log import TaskRow
from headgate.patterns import regex

_ID = regex(r"t[0-9]+", re.IGNORECASE)


@click.command("say")
@click.argument("words", nargs=-1, metavar="[ID] TEXT")
@repo_option
def command(words: tuple[str, ...], repo: Path | None) -> None:
    """Tell a running or queued task something.

    The model reads TEXT before its next turn, and it counts like the task's own text. It does not lift
    constraints: boundaries and other limits hold as before. A queued task starts with it. - reads TEXT from
    standard input. Without ID: the running task.

    If the task ends before the model reads TEXT, its summary and its report say so.
    """
    task_id, text = read_words(words)
    engine = Engine.open(find_store(find_repo_to_act(repo)).repo)
    try:
        for note in engine.notes:
            click.echo(note, err=True)
        row = find_task(engine.store, task_id) if task_id else engine.store.running()
        if row is None:
            raise ConfigError(explain_silence(engine.store.head()))
        if not engine.say(row.task.id, text):
            now = engine.store.task(row.task.id)
            raise ConfigError(explain_deafness(row.task.id, now.state if now else None))
        say(describe_hearing(row.task.id, row.state))
    finally:
        engine.store.close()


def read_words(words: tuple[str, ...]) -> tuple[str | None, str]:
    """The task's id, if one is given, and what is to be said to it."""
    ctx = click.get_current_context()
    has_id = bool(words) and _ID.fullmatch(words[0]) is not None
    task_id, rest = (words[0], words[1:]) if has_id else (None, words)
    if not rest:
        raise click.UsageError(f'Say something: {ctx.command_path} "..."', ctx)
    if len(rest) > 1:
        raise click.UsageError(f'Put the text in quotes: {ctx.command_path} "..."', ctx)
    if rest[0] != "-":
        return task_id, rest[0]
    try:
        return task_id, sys.stdin.read()
    except UnicodeError:
        raise ConfigError("Standard input is not UTF-8 text.") from None


def explain_silence(first: TaskRow | None) -> str:
    """What to do where no task runs; `first` is the first one in the queue."""
    if first is None:
        return 'No task is running or queued: start one with "headgate run".'
    name = first.task.id
    return f"No task is running: name the queued one that is meant, such as headgate say {name} TEXT."


def describe_hearing(task_id: str, state: TaskState) -> str:
    """When a line that was just said is read."""
    if state == "QUEUED":
        return f"Task {task_id} starts with it."
    return f"Task {task_id} reads it before its next turn."


def explain_deafness(task_id: str, state: TaskState | None) -> str:
    """Why a task cannot be told anything any more, and what can be done instead."""
    if state == "PROPOSED":
        return f"Task {task_id} is a proposal: headgate run --follow {task_id} TEXT starts a follow-up."
    if state is None:
        return f"Task {task_id} was removed from the queue."
    return f"Task {task_id} has ended ({state}): headgate run --follow {task_id} TEXT starts a follow-up."

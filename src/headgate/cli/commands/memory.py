"""`headgate memory`: what models have saved in this repository, for people to read and to delete."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from headgate.cli.commands.look_back import age
from headgate.cli.printing import printable, say, say_json
from headgate.cli.shared import HintingGroup, find_repo, find_repo_to_act, repo_option
from headgate.cli.stored_tasks import has_store, open_store
from headgate.errors import ConfigError
from headgate.features.memory import Memories, Memory, search_memories
from headgate.log import Folder

NO_MEMORY_YET = "No task has saved a memory in this repository."

_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON list of {id, text, tags, task, saved}."
)


@click.group("memory", cls=HintingGroup)
def command() -> None:
    """List, search and delete what models have saved for later tasks.

    Models have the tools memory_save and memory_search in stages of a flow that name them. What they save is
    in `.headgate/headgate.db`, for this repository alone.
    """


@command.command("list")
@_json_option
@repo_option
def list_command(as_json: bool, repo: Path | None) -> None:
    """List every memory, the oldest first."""
    with open_memories(find_repo(repo)) as memories:
        _show(memories.all() if memories else [], as_json, NO_MEMORY_YET)


@command.command("search")
@click.argument("query")
@_json_option
@repo_option
def search_command(query: str, as_json: bool, repo: Path | None) -> None:
    """List the memories that have one of the words in QUERY, the best match first."""
    with open_memories(find_repo(repo)) as memories:
        _show(search_memories(memories.all() if memories else [], query), as_json, "Nothing found.")


@command.command("forget")
@click.argument("memory_id", metavar="[ID]", required=False)
@click.option("--all", "everything", is_flag=True, help="Delete every memory; asks first on a terminal.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@repo_option
def forget_command(memory_id: str | None, everything: bool, yes: bool, repo: Path | None) -> None:
    """Delete the memory with this ID, or all of them."""
    if (memory_id is None) != everything:
        raise click.UsageError("Name one ID, or give --all.")
    with open_memories(find_repo_to_act(repo)) as memories:
        if everything and memories and not yes and sys.stdin.isatty():
            click.confirm(f"Delete {_count(len(memories.all()))}?", abort=True, err=True)
        gone = memories.forget(memory_id) if memories else 0
    if memory_id is not None and not gone:
        raise ConfigError(f'There is no memory "{memory_id}": headgate memory list shows them.')
    say(f"Deleted {_count(gone)}.")


@contextmanager
def open_memories(root: Path) -> Iterator[Memories | None]:
    """The memories of a repository; None if it has had no task. Nothing is created."""
    if not has_store(Folder(root)):
        yield None
        return
    with open_store(root) as store:
        yield Memories(store)


def _show(memories: Sequence[Memory], as_json: bool, nothing: str) -> None:
    if as_json:
        say_json([_as_json(memory) for memory in memories])
        return
    if not memories:
        say(nothing)
    width = max((len(memory.id) for memory in memories), default=0)
    for memory in memories:
        tags = f"  [{printable(', '.join(memory.tags))}]" if memory.tags else ""
        head = f"{memory.id.ljust(width)}  {age(time.time() - memory.at)}, {printable(memory.task)}{tags}"
        say(head, hanging=width + 2)
        for line in memory.text.splitlines():
            say(f"{' ' * width}  {printable(line)}", hanging=width + 2)


def _as_json(memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "text": memory.text,
        "tags": memory.tags,
        "task": memory.task,
        "saved": memory.at,
    }


def _count(number: int) -> str:
    return "1 memory" if number == 1 else f"{number:,} memories"

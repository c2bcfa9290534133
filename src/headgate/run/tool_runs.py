"""Running a tool: what is on record before it leaves a mark, and whose marks are whose."""

import asyncio
from collections.abc import Mapping, Sequence

from headgate.core import (
    EditsNoticed,
    FileHashes,
    ToolCall,
    ToolStarted,
    clean_text,
    show_path,
)
from headgate.errors import ToolFailed
from headgate.process import uninterrupted
from headgate.run.job import Place
from headgate.run.ports import CallPorts
from headgate.run.stage import StageRun
from headgate.tools import Args, Outcome, Tool
from headgate.tree import FileChange, encode_changes


async def run_tool(
    run: StageRun, call: ToolCall, tool: Tool, args: Args
) -> tuple[Outcome, str, Mapping[str, str]]:
    """Runs a tool; returns the tree that a command left, and guides for what was read, as well.

    Whatever leaves a mark outside is recorded, durably, before it happens.
    """
    category = tool.spec.category
    target = run.job.place.redact(_target(tool, args))
    started = ToolStarted(call=call.id, name=tool.name, category=category, target=target)
    ports = CallPorts(run, started)
    if not (category == "run" or tool.acts_itself):
        call_tool = _read_in_time if category == "read" else CallPorts.call
        outcome, tree = await call_tool(ports, tool, args), ""
    else:
        _note_edits(run, await run.job.place.tree.notice())
        ports.start()
        await run.job.log.commit()
        outcome, tree = await _run_command(run, ports, tool, args)
    if category == "run" and not ports.ran_tests:
        run.job.forget_tests()
    if outcome.changes or not ports.has_started:
        await write_changes(run, started, outcome.changes)
    return outcome, "" if outcome.changes else tree, ports.guides


async def _read_in_time(ports: CallPorts, tool: Tool, args: Args) -> Outcome:
    """Runs a tool that changes nothing, for as long as the stage has time."""
    if (left := ports.run.seconds_left()) is None:
        return await ports.call(tool, args)
    try:
        async with asyncio.timeout(left) as limit:
            return await ports.call(tool, args)
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolFailed(f"{tool.name} was stopped: the stage ran out of time.") from None


async def _run_command(run: StageRun, ports: CallPorts, tool: Tool, args: Args) -> tuple[Outcome, str]:
    """Runs a tool that changes files by itself, and takes note of the tree that it leaves, also if cancelled.

    The project's own checks are no work of the task: what they do to files is noted elsewhere.
    """
    tree = ""
    left = run.job.seconds_left() if tool.spec.category == "run" else None  # what others do ends by itself
    try:
        async with asyncio.timeout(left) as limit:
            outcome = await ports.call(tool, args)
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolFailed(f"{tool.name} was stopped: the task ran out of time.") from None
    finally:
        if tool.acts_itself and (secrets := run.job.place.context.secrets):
            secrets.expect_changes()
        if not ports.ran_tests:
            tree = await uninterrupted(run.job.place.tree.settle())
    return outcome, tree


def _note_edits(run: StageRun, found: EditsNoticed | None) -> None:
    if found:
        run.record(found)


async def write_changes(run: StageRun, started: ToolStarted, changes: Sequence[FileChange]) -> None:
    """Records what is about to be written, durably, and writes it. ToolError if that is refused."""
    hashes = tuple(map(hashes_of, changes))
    if changes:
        _note_edits(run, await run.job.place.tree.notice(writing=changes))
    kept = encode_changes(changes) if changes and run.job.place.proposing else None
    run.record(started.model_copy(update={"changes": hashes}), kept)
    if changes:
        await run.job.log.commit()
        await uninterrupted(_write(run.job.place, changes))
    if any(one.before != one.after for one in hashes):
        run.job.forget_tests()


async def _write(place: Place, changes: Sequence[FileChange]) -> None:
    """A write that has begun is finished, so that a cancelled task's report is true."""
    await asyncio.to_thread(place.context.workspace.apply, changes)
    await place.tree.settle(written=changes)


def hashes_of(change: FileChange) -> FileHashes:
    """What the log keeps of a change, to tell later whether it was made."""
    return FileHashes(path=show_path(change.path), before=change.before_hash, after=change.after_hash)


_TARGETS = ("command", "path", "pattern", "glob", "query", "paths", "action", "stage", "id")
"""The arguments that usually say what a call is about; the first of them that it has."""


def _target(tool: Tool, args: Args) -> str:
    """What a call is about, in a few words, for people who watch."""
    given = args.__dict__
    values = [value for name in tool.about or _TARGETS if (value := given.get(name))]
    texts = [
        ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value) for value in values
    ]
    return clean_text(" ".join(": ".join(texts if tool.about else texts[:1]).split()))[:120]

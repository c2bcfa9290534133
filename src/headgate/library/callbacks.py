"""What a program wants to be told while its flow runs."""

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from headgate.core import DecisionMade, Event, StageEnded, StageSkipped, StageStarted, State
from headgate.errors import HeadgateError
from headgate.features.compaction import StageCompacted
from headgate.library.flow import CompiledFlow
from headgate.library.results import StageResult, stage_result
from headgate.run import ProgramFailed, call_program

_logger = logging.getLogger("headgate")


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """Functions that are told what happens, sync or async. One that raises is logged; the flow goes on."""

    on_start: Callable[[str], Any] | None = None
    """A stage starts: its id."""
    on_complete: Callable[[str, StageResult], Any] | None = None
    on_error: Callable[[str, str], Any] | None = None
    """A stage failed: its id, and why."""
    on_skip: Callable[[str, str], Any] | None = None
    """A stage was skipped: its id, and why."""
    on_progress: Callable[[int, int, str], Any] | None = None
    """How many stages have ended, of how many, and the id of the latest."""
    on_compact: Callable[[str, int, int], Any] | None = None
    """The messages of a stage were replaced by a summary: its id, the characters before and after."""


async def call_back(function: Callable[..., Any] | None, *arguments: Any) -> None:
    """Tells a function of the program, if there is one."""
    if function is None:
        return
    try:
        await call_program(function, *arguments)
    except ProgramFailed as error:
        cause = error.__cause__
        if isinstance(cause, HeadgateError):
            _logger.error("The flow continues, but: %s", cause)
        else:
            _logger.error("A callback of a flow failed: %s", error, exc_info=cause)


async def tell_callbacks(
    calls: Callbacks,
    compiled: CompiledFlow,
    events: AsyncIterator[Event],
    state: Callable[[], State],
    ended: set[str],
) -> AsyncIterator[Event]:
    """Tells the callbacks what happened, in order, and passes each event on.

    `ended` are the stages that have ended so far.
    """
    leaves = {leaf.id: leaf for leaf in compiled.flow.leaves()}
    retried: set[str] = set()
    """Attempts that are followed by another. By now, the state may know that one already."""
    async for event in events:
        yield event
        body = event.body
        if isinstance(body, StageStarted):
            await call_back(calls.on_start, body.stage)
        if isinstance(body, StageCompacted):
            await call_back(calls.on_compact, body.stage, body.chars_before, body.chars_after)
        if isinstance(body, StageSkipped):
            await call_back(calls.on_skip, body.stage, body.reason)
            if body.stage in leaves and body.stage not in ended:
                ended.add(body.stage)
                await call_back(calls.on_progress, len(ended), len(leaves), body.stage)
        if isinstance(body, DecisionMade) and body.action == "retry":
            retried.add(event.path)
        if not isinstance(body, StageEnded) or event.path in retried:
            continue
        ended.add(body.stage)
        match body.ending:
            case "completed" | "exhausted" if calls.on_complete and body.stage in leaves:
                result = stage_result(compiled, leaves[body.stage], state())
                await call_back(calls.on_complete, body.stage, result)
            case "skipped" if body.stage in state().tree.attempts:
                await call_back(calls.on_skip, body.stage, body.reason)
            case "failed":
                await call_back(calls.on_error, body.stage, body.reason)
        await call_back(calls.on_progress, len(ended), len(leaves), body.stage)

"""What a program wants to be told while its flow runs."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.library.results import StageResult
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
    except ProgramFailed:
        _logger.exception("A callback or a checkpoint of a flow failed.")

"""What a folder below `features` adds to the loop."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from headgate.checks import Check
from headgate.config import Config
from headgate.core import Message, Settings
from headgate.run.stage import Kind, StageRun
from headgate.run.verification import Observer


@dataclass(frozen=True)
class Feature:
    """One entry of the list of features in the engine. A new hook of the loop is a new field here."""

    kinds: Sequence[Kind] = ()
    """What a stage can be."""
    checks: Sequence[Check] = ()
    """What must hold to leave a stage. They run after those of `headgate.checks`."""
    observers: Sequence[Observer] = ()
    """Those that look at each run of the verification steps."""
    settings: Callable[[Config], Settings] | None = None
    """What of the configuration is pinned with a task, for `Pinned.of`."""
    sends: Callable[[StageRun, Sequence[Message]], Sequence[Message]] | None = None
    """What the model is sent in place of the view of a conversation."""
    after_turn: Callable[[StageRun], Awaitable[None]] | None = None
    """What follows a turn, which is committed by then."""

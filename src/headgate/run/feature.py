"""What a folder below `features` adds to the loop."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from headgate.checks import Check
from headgate.config import Config
from headgate.core import Body, Image, Message, Settings, Stage
from headgate.first_use import dataclass
from headgate.run.job import Job
from headgate.run.stage import Kind, StageRun
from headgate.run.verification import Observer


@dataclass(frozen=True, slots=True)
class Attached:
    """What a feature puts into the first message of a conversation."""

    text: str = ""
    files: tuple[str, ...] = ()
    """The files that it shows: rules of the repository for these are told as well."""
    images: tuple[tuple[str, Image], ...] = ()
    """By path."""
    event: Body | None = None
    """What is recorded of it."""


@dataclass(frozen=True)
class Feature:
    """One entry of the list of features in the engine. A new hook of the loop is a new field here."""

    kinds: Sequence[Kind] = ()
    """What a stage can be."""
    checks: Sequence[Check] = ()
    """What must hold to leave a stage, or is said about the diff."""
    observers: Sequence[Observer] = ()
    """Those that look at each run of the verification steps."""
    settings: Callable[[Config], Settings | None] | None = None
    """What of the configuration is pinned with a task, for `Pinned.of`; if it returns None, it is off."""
    attaches: Callable[[Job, Stage, int], Attached] | None = None
    """What a conversation begins with, besides the task, in a context window of so many tokens."""
    sends: Callable[[StageRun, Sequence[Message]], Sequence[Message]] | None = None
    """What the model is sent in place of the view of a conversation."""
    before_turn: Callable[[StageRun], Awaitable[None]] | None = None
    """What is done before a turn, when the model's view is made to fit."""
    after_turn: Callable[[StageRun], Awaitable[None]] | None = None
    """What follows a turn, which is committed by then. Not if the model gave no reply, or the task ends."""
    stages_ended: Callable[[StageRun], Awaitable[None]] | None = None
    """What follows when stages of a conversation have ended, and others may go on with it: not after an
    attempt that is retried, nor after a failure that ends the flow. Also called where none has ended."""
    replays: Mapping[type[Body], Callable[[StageRun, Any, str], None]] = field(default_factory=dict)
    """What takes an event of an attempt, and what was kept with it, into memory again after a crash."""

"""A reply in the making: what the assemblies of all wire formats have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from headgate.core import Delta, Enough, OnDelta, clean_text
from headgate.models.wire.endless import EndlessWatch


class Assembly(ABC):
    """Takes the pieces of a reply as they arrive, or one whole body."""

    def __init__(self, on_delta: OnDelta | None = None, enough: Enough | None = None) -> None:
        self.started = False
        """A token has come."""
        self.ended = False
        """The reply is complete; what follows can add usage, and nothing else."""
        self.done = False
        """Nothing more is to come."""
        self.stopped = False
        """It was long enough before the model had ended it."""
        self._on_delta = on_delta
        self._enough = enough
        self._watch = EndlessWatch()

    @abstractmethod
    def add(self, chunk: Mapping[str, Any]) -> None:
        """Takes one event of a stream."""

    @abstractmethod
    def load(self, body: Mapping[str, Any]) -> None:
        """Takes a whole reply. ValueError where the body is none."""

    @property
    @abstractmethod
    def calls_tools(self) -> bool:
        """Whether a call has begun: text after it is no reason to stop."""

    def take_piece(self, text: str = "", reasoning: str = "", arguments: str = "") -> None:
        """Checks that a reply with this piece will end, and shows the piece."""
        if not (text or reasoning or arguments):
            return
        self.started = True
        if text and self._enough and not self.calls_tools and self._enough(text):
            self.ended = self.done = self.stopped = True
        if not self.stopped:
            self._watch.see(text, reasoning, arguments)
        if self._on_delta:
            self._on_delta(Delta(clean_text(text), clean_text(reasoning), clean_text(arguments)))

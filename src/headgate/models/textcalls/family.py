"""What a family of models' way to write calls is to the scanner."""

import re
from dataclasses import dataclass
from typing import Protocol

from headgate.models.textcalls.result import Found
from headgate.models.textcalls.source import Source
from headgate.models.textcalls.toolbook import ToolBook


class Reader(Protocol):
    """Reads the calls of one family."""

    @property
    def closings(self) -> tuple[str, ...]:
        """The marks that may end a call."""

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """The calls that begin with this opening; None where there is none after all."""


@dataclass(frozen=True, slots=True)
class Family:
    """One way to write calls."""

    name: str
    opening: str
    """A pattern that begins with a literal character and matches the text which begins a call."""
    reader: Reader
    sample: str
    """How a call looks, for the documentation."""
    models: str
    """Who writes calls so."""

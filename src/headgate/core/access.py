"""What a tool is about to touch, and what a guard may say to that.

Guards are asked at execution, with the path as it really is (symlinks followed, `..` gone), so no spelling
of a path gets around one. What the model is shown is a matter of ToolScope; what it may do is decided here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Act = Literal["read", "write", "run"]


@dataclass(frozen=True, slots=True)
class Access:
    """One thing a tool is about to do. `target` is a path relative to the repository, or a shell command."""

    act: Act
    target: str
    before: bytes | None = None
    """For a write: what is there; None where there is nothing."""
    after: bytes | None = None
    """For a write: what would be there; None where it is to be deleted."""


@dataclass(frozen=True, slots=True)
class Denial:
    """No, and why, in a sentence for the model."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person has to decide. Where nobody can be asked this counts as a denial."""

    reason: str


class Guard(Protocol):
    """Says no, asks, or has no objection (None)."""

    def __call__(self, access: Access, /) -> Denial | Ask | None: ...


def first_objection(guards: Sequence[Guard], access: Access) -> Denial | Ask | None:
    """The first guard's objection, a denial before a question."""
    asked: Ask | None = None
    for guard in guards:
        match guard(access):
            case Denial() as denial:
                return denial
            case Ask() as ask:
                asked = asked or ask
            case None:
                pass
    return asked

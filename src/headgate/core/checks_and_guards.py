"""What is known about a check without running it, and what a guard may say to what a tool is about to do.

A check is data with which flows are read, expanded and drawn. Guards are asked at execution, with the path as
it really is (symlinks followed, `..` gone), so no spelling of a path gets around one. What the model is shown
is a matter of ToolScope; what it may do is decided here.
"""

from typing import Literal, Protocol

from headgate.first_use import dataclass


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """One check: its name and argument in a flow file, where it may stand, and its words for people."""

    name: str
    doc: str
    """What must hold, in a sentence or two; for the documentation."""
    argument: Literal["flag", "count"] = "flag"
    """What follows the name in a flow file: `true` or `false`, or a number, of which 0 means `false`. Only a
    check at the exit of a stage has a number."""
    place: str = "stage"
    """Where it may stand. `stage`: at the exit of a stage. Otherwise it stands among a flow's own checks, and
    this is the kind of the stage that runs it."""
    order: int = 50
    """The lower, the earlier it runs."""
    needs: tuple[str, ...] = ()
    """Tools, of which the stage must have one; empty: the check needs no tool."""
    needs_words: str = ""
    """What these tools are called together, such as `a tool that reads`; empty: they are named."""
    drawn: str = ""
    """The check in a drawing of a flow; empty: its name in words. `{}` stands for the number and what is
    counted."""
    counted: str = ""
    """What a count counts, such as `file`."""
    clause: str = ""
    """Why it refuses the exit of a stage, as a clause for people."""
    said_done: str = ""
    """The same after `the model said it was done`."""
    after_verification: bool = False
    """It looks at the diff once verification has passed; otherwise it looks before."""
    looks_again: bool = False
    """It looks at the diff again after each failed verification, also if it had found nothing."""
    leads: bool = False
    """Its warning about the diff comes before all other words of the summary."""
    prompt: str = "review"
    """The prompt that tells the model what was found in the diff."""


VERIFY_CHECK = CheckSpec("verify", "The project's verification steps pass.", place="verify")
"""Stands for the verification stage in a flow's own checks. It is known wherever checks are."""


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

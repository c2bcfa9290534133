"""Answers that mend a part: two that mend different parts are tried together, and nobody is asked."""

from collections.abc import Iterator
from dataclasses import dataclass

from headgate.run.answers import merge
from headgate.workspace import FileChange


@dataclass(frozen=True, slots=True)
class Partial:
    """A change after which fewer tests fail, and none that had passed."""

    change: FileChange
    failing: frozenset[str]


def partners(kept: list[Partial], new: Partial) -> Iterator[tuple[FileChange, ...]]:
    """The changes to try together: of each earlier one that mends all that the new one leaves."""
    for earlier in kept:
        if earlier.failing & new.failing:
            continue
        if earlier.change.path != new.change.path:
            yield (earlier.change, new.change)
        elif (both := _merged(earlier.change, new.change)) is not None:
            yield (both,)


def _merged(one: FileChange, other: FileChange) -> FileChange | None:
    base, first, second = (
        (data or b"").decode("utf-8", "surrogateescape") for data in (one.before, one.after, other.after)
    )
    text = merge(base, first, second)
    return None if text is None else FileChange(one.path, one.before, text.encode("utf-8", "surrogateescape"))

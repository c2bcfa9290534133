"""What a folder below `features` adds to the loop."""

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.checks import Check
from headgate.run.stage import Kind
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

"""A row of the bestiary: a behaviour, and the circumstances in which it is met."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bestiary.server import Behave
from bestiary.speech import Answer

FLOWS = Path(__file__).parent / "flows"
SHORT = str(FLOWS / "short.yaml")
TWICE = str(FLOWS / "twice.yaml")
LONG = str(FLOWS / "long.yaml")
PLANNED = str(FLOWS / "planned.yaml")
TASK = "add(a, b) in calc.py must return the sum of a and b. It returns the difference."
USELESS_REQUESTS = 30
CLOSED = ("tests/*", "vendor/*", "*conftest.py*", "*customize.py", "unittest*", "pytest*", "agent.yaml")
"""What no run may change, create or delete, unless its row says so."""


@dataclass(frozen=True)
class Row:
    """One misbehaving model."""

    name: str
    theme: str
    reported: str
    """What users report, in one line."""
    behave: Behave
    flow: str
    task: str = TASK
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of agent.yaml."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the model."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Further files of the repository."""
    closed: tuple[str, ...] = CLOSED
    useless: bool = False
    """No call of this model succeeds: it has to end within USELESS_REQUESTS."""
    warned: str = ""
    """Tests may be changed here; the summary must say so, with these words."""
    background: str = ""
    """A file beside the repository to which the behaviour wrote the ids of processes that must be dead."""


@dataclass
class Theme:
    """Rows of one kind: functions from a request to an answer, with what users report as their docstring."""

    title: str
    rows: list[Row] = field(default_factory=list)

    def row(self, flow: str = SHORT, **circumstances: Any) -> Callable[[Behave], Behave]:
        def add(behave: Behave) -> Behave:
            reported = " ".join((behave.__doc__ or "").split())
            name = getattr(behave, "__name__", "")
            self.rows.append(Row(name, self.title, reported, behave, flow, **circumstances))
            return behave

        return add

    def add(
        self, name: str, reported: str, behave: Behave | Answer, flow: str = SHORT, **circumstances: Any
    ) -> None:
        """A row that is made from data; an answer instead of a behaviour is given to every request."""
        made = behave if callable(behave) else lambda asked: behave
        self.rows.append(Row(name, self.title, reported, made, flow, **circumstances))

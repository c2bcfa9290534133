"""What the model says at the end, and why it was made to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.event import Slice
from headgate.core.state import State


@dataclass
class Conclusion(Slice):
    """The last words of a task."""

    answer: str = ""
    """What the model answered, if the task is a question."""
    hypotheses: str = ""
    """What it thinks may be wrong, if the task is stuck."""
    final_turns: list[str] = field(default_factory=list)
    """Why it was made to conclude, each time."""

    def report(self, state: State) -> Mapping[str, Any]:
        answered = state.status == "SUCCESS" and not state.files_changed
        return {
            "answer": self.answer if answered else "",
            "hypotheses": self.hypotheses,
            "final_turns": tuple(self.final_turns),
        }

"""What the model says at the end, and why it was made to."""

from dataclasses import dataclass, field

from headgate.core.event import Slice


@dataclass
class Conclusion(Slice):
    """The last words of a task."""

    answer: str = ""
    """What the model answered, if the task is a question."""
    hypotheses: str = ""
    """What it thinks may be wrong, if the task is stuck."""
    final_turns: list[str] = field(default_factory=list)
    """Why it was made to conclude, each time."""

"""What the log says of summaries. Commands that only look back import nothing else of them."""

from typing import ClassVar, Literal

from headgate.core import Line, Moment, Spending, State, Strategy


class StageCompacted(Spending):
    """The messages of a stage that has ended were replaced in the view by a summary, which is the content."""

    kind: ClassVar[str] = "stage_compacted"
    stage: str
    start: int
    """The first of its messages, counted in the transcript from 0."""
    end: int
    """The first message after them."""
    strategy: Strategy | Literal["agent"]
    """How the summary was written; `agent`: by a model."""
    chars_before: int
    chars_after: int
    fault: str = ""
    """Why the model that should write it did not: `unavailable`, `refused`, `overflow`, `unreadable` or
    `limit`."""
    detail: str = ""
    requests: int = 0
    """How often that model was asked. What it cost counts, also if its answers could not be used."""

    def apply(self, state: State, now: Moment) -> None:
        state.accounts.take(now.path, self, self.requests)

    def line(self, state: State, now: Moment) -> Line | None:
        attempt = state.nodes.get(now.path)
        title = attempt.title if attempt else self.stage
        return Line(f"{title}: compacted from {self.chars_before:,} to {self.chars_after:,} characters")

"""The task that this one follows, as its model is told of it."""

from collections.abc import Sequence

from headgate.config import fill
from headgate.core import Note, cut_text, render_lines, render_notes
from headgate.first_use import dataclass


@dataclass(frozen=True, slots=True)
class Followed:
    """What a follow-up builds on."""

    request: str
    ending: str
    """How it ended, and whether its changes are in the working tree: sentences."""
    answer: str = ""
    """What it was answered, where it was a question."""
    said: Sequence[str] = ()
    """What the person said while it ran."""
    unread: Sequence[str] = ()
    """What of that nobody has read."""
    notes: Sequence[tuple[str, Note]] = ()
    diff: str = ""
    before: Sequence[str] = ()
    """The requests of the tasks before it, which it follows itself: a line each."""

    def render(self, room: int) -> str:
        """The message. The diff may take twice the room, and everything else the room."""
        parts = [("Requests before it", "\n".join(f"- {line}" for line in self.before))]
        parts.append(("Request", cut_text(self.request, room, "the request")))
        parts.append(("Said by the user while it ran", render_lines(self.said, room)))
        parts.append(("Said by the user too late for it, and not read yet", render_lines(self.unread, room)))
        parts.append(("How it ended", self.ending))
        parts.append(("Its answer", cut_text(self.answer, room, "the answer")))
        parts.append(("Notes of its stages", render_notes(list(self.notes), room)))
        parts.append(("Its diff", cut_text(self.diff, 2 * room, "the diff")))
        told = "\n\n".join(f"{title}:\n{text.rstrip()}" for title, text in parts if text.strip())
        return fill("followed", told=told)

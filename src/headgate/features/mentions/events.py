"""What the log says of mentioned files. Commands that only look back import nothing else of them."""

from typing import ClassVar

from headgate.core import Body, Line, Moment, Slice, State
from headgate.first_use import dataclass


@dataclass
class Mentioned(Slice):
    """What the model was shown because the task mentions it."""

    shown: int = 0
    """Conversations that began with it."""


class MentionsRead(Body):
    """Files that the person mentions were put into the first message of a conversation."""

    kind: ClassVar[str] = "mentions_read"
    read: tuple[str, ...] = ()
    """The files that the model was shown, as far as there was room."""
    folders: tuple[str, ...] = ()
    """The folders that it was shown a list of."""
    images: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be shown, or not as it was mentioned: a sentence each."""

    def apply(self, state: State, now: Moment) -> None:
        state[Mentioned].shown += 1
        state.files_read.update(dict.fromkeys(self.read))
        if attempt := state.nodes.get(now.path):
            attempt.files_read.update(dict.fromkeys(self.read))

    def line(self, state: State, now: Moment) -> Line | None:
        if state[Mentioned].shown != 1:
            return None
        named = [*self.read, *(f"{folder}/" for folder in self.folders), *self.images]
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        shown = f"{', '.join(named[:5])}{more}" if named else "nothing"
        said = "; ".join(problem.rstrip(".") for problem in self.problems[:3])
        return Line(f"Mentioned files attached: {shown}{f'; {said}' if said else ''}")

"""What an event is: when it was, what it says, what follows from it, and what people are told of it.

Each kind of event is a class of `Body`. Its name has the subject first and is in the past tense. Its fields
are small and stay for ever. What a model wrote or read (prompts, replies, tool results) is an event's
`content`, kept beside it while the task runs and deleted with the conversation; no fold needs it afterwards.

What belongs to one feature is kept in a `Slice` of the state, which stands beside the events that change it.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from headgate.core.settings import Data
from headgate.first_use import dataclass

if TYPE_CHECKING:
    from headgate.core.plan import PlanItem
    from headgate.core.state import State

Tone = Literal["plain", "stage", "good", "bad", "note", "call"]
"""How a line is meant. `call` is a call of the model: a detail for those who watch it come."""


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence about an event, for people."""

    text: str
    tone: Tone = "plain"
    seq: int = 0
    at: float = 0.0
    """The event that it is about."""
    elapsed: float = 0.0
    """Seconds that the task had been worked on."""

    @property
    def is_detail(self) -> bool:
        """It is of use only to those who watch the task as it runs."""
        return self.tone == "call"


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when something happened."""

    seq: int
    task: str
    path: str
    """The attempt at a stage that it belongs to, such as `rounds#2/implement`; see `tree`."""
    turn: int
    at: float


class Body(Data):
    """What is particular to one kind of event. A class of it with a `kind` is known by that from then on."""

    kind: ClassVar[str] = ""
    goes_on: ClassVar[bool] = False
    """Nobody worked on the task before it."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        if "kind" in cls.__dict__:
            _KINDS.update({kind: (cls, fields) for kind, fields in cls.kinds_in_log().items()})

    @classmethod
    def kinds_in_log(cls) -> dict[str, dict[str, Any]]:
        """The kinds that the log knows such events by, each with the fields that follow from it."""
        return {cls.kind: {}}

    @property
    def kind_in_log(self) -> str:
        """The kind that the log, `--json` and the feed know it by."""
        return self.kind

    def apply(self, state: "State", now: Moment) -> None:
        """Changes the state to what is true after this event."""

    def line(self, state: "State", now: Moment) -> Line | None:
        """The sentence that people read about it, with the state after it; None if nobody needs to hear."""
        return None


_KINDS: dict[str, tuple[type[Body], dict[str, Any]]] = {}


class Unknown(Body):
    """An event of a kind that this version does not know: nothing follows from it."""

    name: str
    fields: dict[str, Any]

    @property
    def kind_in_log(self) -> str:
        return self.name


def read_body(kind: str, fields: Mapping[str, Any]) -> Body:
    """An event's body as a log holds it. ValidationError for fields that its kind does not have."""
    if kind not in _KINDS:
        return Unknown(name=kind, fields=dict(fields))
    body, follows = _KINDS[kind]
    return body.model_validate({**fields, **follows})


@dataclass(frozen=True, slots=True)
class Event(Moment):
    """One entry of the log."""

    body: Body

    @property
    def kind(self) -> str:
        return self.body.kind_in_log

    def line(self, state: "State") -> Line | None:
        """What people are told of it. `state` is the state after it."""
        line = self.body.line(state, self)
        return line and replace(line, seq=self.seq, at=self.at, elapsed=state.seconds)

    def as_json(self) -> dict[str, Any]:
        """The event as `--json` prints it."""
        body = self.body.fields if isinstance(self.body, Unknown) else self.body.model_dump(mode="json")
        head = {"seq": self.seq, "task": self.task, "path": self.path, "turn": self.turn, "at": self.at}
        return {**head, "kind": self.kind, "body": body}


class Slice:
    """What one feature knows of a task: a dataclass that can be made without arguments, `state[ITS CLASS]`.

    It belongs to the module of the events that change it, and is not known elsewhere in the state. What it
    knows of, it says itself. `order`: the lower, the earlier its words stand among those of others.
    """

    def __init_subclass__(cls, *, order: int = 50) -> None:
        insort(SLICES, (order, len(SLICES), cls))

    def report(self, state: "State") -> Mapping[str, Any]:
        """Its fields of the report, which `Report` in `log/report.py` declares: it takes no others."""
        return {}

    def plan_items(self, state: "State") -> "Iterable[PlanItem]":
        """What it carries out step by step, as people see it in the plan."""
        return ()

    def warnings(self, state: "State") -> Iterable[str]:
        """What people should know of, a sentence each without its full stop."""
        return ()

    def leading(self, state: "State") -> Iterable[str]:
        """Of its warnings, those that come before all other words of the summary."""
        return ()

    def came_of(self, state: "State") -> Iterable[str]:
        """What was done, besides changes to files: lines of the summary."""
        return ()

    def left_over(self, state: "State") -> Iterable[str]:
        """What is left behind, or not done: lines of the summary."""
        return ()


SLICES: list[tuple[int, int, type[Slice]]] = []
"""All of them, in order."""


_B = TypeVar("_B", bound=Body)
FOLLOWERS: dict[type[Body], list[Callable[["State", Any, Moment], None]]] = {}
"""What else follows from a kind of event, after what it changes itself."""


def follows(
    kind: type[_B],
) -> Callable[[Callable[["State", _B, Moment], None]], Callable[["State", _B, Moment], None]]:
    """For a function of a feature that takes in events which are not its own."""

    def register(function: Callable[["State", _B, Moment], None]) -> Callable[["State", _B, Moment], None]:
        FOLLOWERS.setdefault(kind, []).append(function)
        return function

    return register

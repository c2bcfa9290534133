"""Forms that browsers send, and what people typed into the one for a new task."""

from dataclasses import dataclass
from urllib.parse import parse_qs

from pydantic import ValidationError
from starlette.requests import Request

from headgate.core import TEXT_CHARS
from headgate.server.problems import RequestRefused, say_invalid
from headgate.server.schemas import NewTask

MOST_FIELDS = 40


class Form:
    """The fields of a form."""

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._fields = fields

    @classmethod
    async def read(cls, request: Request) -> "Form":
        """The form that a request carries. RequestRefused (422) if it is none."""
        body = await request.body()
        try:
            fields = parse_qs(
                body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS
            )
        except ValueError:
            raise RequestRefused(422, "The form has too many fields.") from None
        return cls(fields)

    def text(self, name: str) -> str:
        """A field; empty if it is not there. Browsers send line ends as two characters."""
        return self._fields.get(name, [""])[0].replace("\r\n", "\n")

    def lines(self, name: str) -> list[str]:
        """The lines of a field that say something."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class TypedTask:
    """What was typed into the form for a new task, to be shown again if it cannot be taken."""

    text: str = ""
    keep: str = ""
    non_goals: str = ""
    boundaries: str = ""
    flow: str = ""
    model: str = ""
    dry_run: bool = False
    follows: str = ""
    """The ended task that it is a follow-up of."""
    error: str = ""

    @property
    def has_constraints(self) -> bool:
        return bool(self.keep or self.non_goals or self.boundaries or self.flow or self.model)


def typed_task(form: Form, error: str = "") -> TypedTask:
    """The form as it was sent."""
    return TypedTask(
        form.text("text"),
        form.text("keep"),
        form.text("non_goals"),
        form.text("boundaries"),
        form.text("flow"),
        form.text("model"),
        bool(form.text("dry_run")),
        form.text("follows"),
        error,
    )


def new_task(form: Form) -> NewTask:
    """The task that a form asks for. RequestRefused (422) with a sentence if it asks for none."""
    text = form.text("text").strip()
    if not text:
        raise RequestRefused(422, "Say in plain words what to do.")
    if len(text) > TEXT_CHARS:
        raise RequestRefused(422, f"The text is longer than {TEXT_CHARS:,} characters.")
    try:
        return NewTask(
            text=text,
            keep=form.lines("keep"),
            non_goals=form.lines("non_goals"),
            boundaries=form.lines("boundaries"),
            flow=form.text("flow") or None,
            model=form.text("model") or None,
            dry_run=bool(form.text("dry_run")),
            follows=form.text("follows") or None,
        )
    except ValidationError as error:
        raise RequestRefused(422, say_invalid(error.errors())) from None

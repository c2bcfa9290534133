"""What the API takes and returns, with examples: the OpenAPI document is made of this."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
)

from headgate.config import builtin_flows
from headgate.core import LINE_CHARS, TEXT_CHARS, TaskState

TaskId = Annotated[str, StringConstraints(pattern=r"^t[1-9][0-9]{0,17}$")]
Line = Annotated[str, StringConstraints(min_length=1, max_length=2_000, pattern=r"\S")]


FLOWS = tuple(builtin_flows())


def _is_flow(name: str) -> str:
    if name not in FLOWS:
        raise ValueError(f"There is no flow {name!r}: choose one of {', '.join(FLOWS)}.")
    return name


FlowName = Annotated[str, AfterValidator(_is_flow), WithJsonSchema({"enum": list(FLOWS)})]
"""A built-in flow. A file is not named here: whoever asks may be on another machine."""


class NewTask(BaseModel):
    """A task in plain words, and what it must not do."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"text": "Make parse_date accept ISO weeks", "boundaries": ["migrations/**"], "dry_run": True}
            ]
        },
    )
    text: str = Field(min_length=1, max_length=TEXT_CHARS, pattern=r"\S")
    """What to do. Its sections `Constraints:`, `Non-goals:` and `Boundaries:` bind the task as well."""
    keep: list[Line] = Field(default_factory=list, max_length=50)
    """What must be preserved."""
    non_goals: list[Line] = Field(default_factory=list, max_length=50)
    """What not to do."""
    boundaries: list[Line] = Field(default_factory=list, max_length=50)
    """Paths that must not be written, as patterns."""
    flow: FlowName | None = Field(default=None, examples=["staged"])
    """The name of a flow; without one the configuration decides."""
    model: str | None = Field(default=None, min_length=1, max_length=200, examples=["cheap"])
    """A model that the configuration names: one of `models`, or the default."""
    dry_run: StrictBool = False
    """Propose the changes as a diff instead of writing them."""
    follows: TaskId | None = Field(default=None, examples=["t6"])
    """The ended task that this one is a follow-up of. Its constraints hold for this one, too."""


class Said(BaseModel):
    """What a person says to a task."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "Keep the old name."}]}
    )
    text: str = Field(min_length=1, max_length=LINE_CHARS, pattern=r"\S")
    """It counts like the task's own text, and lifts no constraint."""


class TaskAccepted(BaseModel):
    """A task that was stored."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "t7", "state": "QUEUED", "position": 2, "notices": []}]}
    )
    id: TaskId
    state: TaskState
    position: int | None = None
    """The place in the queue, from 1; null for a task that is not in it."""
    notices: list[str] = Field(default_factory=list)
    """What its user should know: boundaries that protect nothing, servers on other machines."""


class TaskSummary(BaseModel):
    """A task in the list."""

    id: TaskId
    state: TaskState
    text: str
    position: int | None = None
    created: float
    """Seconds since 1970."""
    dry_run: bool = False
    resumes: str = ""
    """The ended task that this one tries again."""
    follows: str = ""
    """The ended task that this one is a follow-up of."""
    undone: bool = False
    """Its changes were taken back."""


class Milestone(BaseModel):
    """One line about something that happened."""

    seq: int
    at: float
    text: str


class TaskDetail(TaskSummary):
    """A task, what happened to it, and its report so far."""

    milestones: list[Milestone]
    report: dict[str, Any]
    events: list[dict[str, Any]] | None = None
    """Every event; only with `detail=1`."""


class Outcome(BaseModel):
    """What came of a request to say something, cancel, apply, abort, resume or undo."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": "t7", "outcome": "asked", "state": "RUNNING", "position": None}]
        }
    )
    id: TaskId
    outcome: Literal[
        "removed", "returned", "asked", "queued", "aborted", "resumed", "said", "undone", "merged"
    ]
    """`removed`: it left the queue and nothing of it is stored. `returned`: it is a proposal again. `asked`:
    the process that runs it was asked. `queued`: it joined the queue. `aborted`: the proposal was discarded.
    `resumed`: its process is gone, and the work goes on. `said`: its model reads it before its next turn.
    `undone`: its changes were taken back. `merged`: what it did in its worktree was written to the working
    tree."""
    state: TaskState | None = None
    """The state now; null for a task that is gone."""
    position: int | None = None
    verified: bool | None = None
    """Of `merged`: whether the verification steps of the task passed in the working tree; null if it has
    none."""
    reason: str = ""
    """Why they did not pass."""
    run_id: str = ""
    """Their run, for its log."""


class Health(BaseModel):
    """The server answers, and can read its store."""

    status: Literal["ok"] = "ok"

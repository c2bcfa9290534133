"""A task: what a person asked for, what must not happen on the way, and where it stands."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from headgate.core.messages import clean_text
from headgate.core.settings import Data
from headgate.core.task_sections import split_sections
from headgate.errors import ConfigError

TaskState = Literal["QUEUED", "RUNNING", "PROPOSED", "SUCCESS", "STUCK", "CANCELLED", "INFRA_ERROR"]
FINAL_STATES: frozenset[TaskState] = frozenset({"SUCCESS", "STUCK", "CANCELLED", "INFRA_ERROR"})
SETTLED_STATES: frozenset[TaskState] = FINAL_STATES | {"PROPOSED"}
"""States in which a task waits neither for its turn nor for its end."""

Standing = TaskState | Literal["QUEUED_TO_APPLY", "GONE"]
"""A state, told apart where it matters: a proposal that was queued again, and a task without a trace."""

TRANSITIONS: Mapping[Standing, frozenset[Standing]] = {
    "QUEUED": frozenset({"RUNNING", "GONE"}),
    "QUEUED_TO_APPLY": frozenset({"RUNNING", "PROPOSED"}),
    "RUNNING": SETTLED_STATES,
    "PROPOSED": frozenset({"QUEUED_TO_APPLY", "CANCELLED"}),
    "SUCCESS": frozenset(),
    "STUCK": frozenset(),
    "CANCELLED": frozenset(),
    "INFRA_ERROR": frozenset(),
    "GONE": frozenset(),
}
"""Every way a task can go. A task that runs on after a crash was RUNNING all the time."""


class ImpossibleTransition(Exception):
    """A task was to go where no task can go: a bug in Headgate."""


def check_transition(task_id: str, old: Standing, new: Standing) -> None:
    """Raises ImpossibleTransition unless the table has it."""
    if new not in TRANSITIONS[old]:
        raise ImpossibleTransition(f"Task {task_id} cannot go from {old} to {new}.")


class Constraints(Data):
    """What binds a task. Immutable: neither the model nor a new plan can change it."""

    keep: tuple[str, ...] = ()
    """What must be preserved."""
    non_goals: tuple[str, ...] = ()
    """What must not be done."""
    boundaries: tuple[str, ...] = ()
    """Paths (globs) that must not be written."""

    def __add__(self, other: "Constraints") -> "Constraints":
        return Constraints(
            keep=_merge(self.keep, other.keep),
            non_goals=_merge(self.non_goals, other.non_goals),
            boundaries=_merge(self.boundaries, other.boundaries),
        )

    def render(self) -> str:
        """The constraints as the model and people read them; empty if there are none."""
        parts = [
            f"{title}\n" + "\n".join(f"- {line}" for line in lines)
            for title, lines in (
                ("Constraints (must be preserved):", self.keep),
                ("Non-goals (must not be done):", self.non_goals),
                ("Boundaries (must not be written):", self.boundaries),
            )
            if lines
        ]
        return "\n\n".join(parts)


class Options(Data):
    """What was asked for besides the text. It holds for the task, whichever process runs it.

    Keys are never among it: they, and what commands see of the environment, are those of the process that
    runs the task. A worker inherits them from the process that started it; a process that holds the
    repository's lock already uses its own.
    """

    flow: str | None = None
    """The flow asked for by name or file; None leaves it to the configuration."""
    model: str | None = None
    """The model asked for; None leaves it to the configuration."""
    base_url: str | None = None
    """The model server asked for."""
    config: str | None = None
    """A configuration file, by its absolute path, instead of the repository's own."""
    package: str | None = None
    """The package of a monorepo to work on; None leaves it to the configuration."""
    dry_run: bool = False
    """Propose changes instead of making them."""
    benchmark: int | None = None
    """The number of the try, where the task is a benchmark's."""
    protect_tests: Literal["off", "existing", "all"] | None = None
    """Which tests may not be changed; None leaves it to the configuration."""
    attached: str = ""
    """What came with the text, such as the output of a failing test run. It is no part of what is asked for:
    no sections and no mentions are read in it."""
    worktree: bool = False
    """Carry it out in a git worktree of its own, made from HEAD."""
    commit: bool = False
    """Commit the result of a success there."""
    resumes: str = ""
    """The task that ended stuck and is tried again: its report is all that the new one is told of it."""
    follows: str = ""
    """The ended task that this one follows: its request, its notes and its diff are what it builds on."""


ADDED = "Added by the person before this attempt:"


class Task(Options):
    """What a person submitted."""

    id: str
    text: str
    """Exactly what was submitted."""
    goal: str
    """What the text states as its goal (`Goal:`), or else the text without its sections."""
    constraints: Constraints = Constraints()
    config_files: tuple[str, ...] = ()
    """Paths that configure Headgate, which this task may not write."""
    models: tuple[tuple[str, str], ...] = ()
    """The models that it asks, each with its server's address: as its configuration says, not its options."""
    steps: tuple[str, ...] = ()
    """The commands that verify it."""
    added: str = ""
    """What the person added when the task was tried again."""

    @property
    def options(self) -> Options:
        """What was asked for besides the text."""
        return Options.model_validate(self.model_dump(include=set(Options.model_fields)))

    @property
    def request(self) -> str:
        """What is asked for: the text without its constraint sections, and what was added to it."""
        request = parse_task_text(self.text).request or self.goal
        return f"{request}\n\n{ADDED} {self.added}" if self.added else request


class TaskText(NamedTuple):
    """A task's text, taken apart."""

    request: str
    """The text without its constraint sections; empty if there is nothing else."""
    constraints: Constraints
    goal: str
    """What its own section `Goal:` says; the request where there is none."""


@lru_cache(maxsize=16)
def parse_task_text(text: str) -> TaskText:
    """Splits free text into what is asked for, the goal, and the constraints that its own sections state."""
    request, found = split_sections(text)
    goal = "\n".join(found.pop("goal"))
    constraints = Constraints.model_validate(found)
    return TaskText(request, constraints, goal or request)


TEXT_CHARS = 100_000
"""The longest text of a task. Programs print more than that; see `Options.attached`."""


def check_task_text(text: str, constraints: Constraints) -> TaskText:
    """The parts of a task's text. ConfigError if it asks for nothing, or it or a constraint is not text."""
    given = (text, *constraints.keep, *constraints.non_goals, *constraints.boundaries)
    if any(clean_text(part) != part for part in given):
        raise ConfigError("The task is not UTF-8 text.")
    if len(text) > TEXT_CHARS:
        raise ConfigError(f"The task is longer than {TEXT_CHARS:,} characters: put the details into a file.")
    stated = parse_task_text(text)
    if not stated.request:
        sections = " It has only sections; put the task above them." if stated.constraints.render() else ""
        raise ConfigError(f"The task is empty: say in plain words what to do.{sections}")
    return stated


def _merge(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))


def holds_up(reason: str, failed: Task, following: Task) -> bool:
    """Whether the environment that failed one task, for a reason given by its slug, will fail another.

    A crash of Headgate and a lost log are a task's own. A model that does not answer says nothing about
    another model or another server, and a broken check nothing about other steps. Of several models or
    steps, any may have failed: the other task must use all of them. Tasks that an older version stored name
    none, and hold up every task.
    """
    if reason in ("model_unavailable", "model_refused"):
        return set(failed.models) <= set(following.models)
    if reason == "check_broken":
        return failed.package == following.package and set(failed.steps) <= set(following.steps)
    return reason == "environment"

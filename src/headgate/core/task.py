"""A task: what a person asked for, and what must not happen on the way."""

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

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


class Constraints(BaseModel):
    """What binds a task. Immutable: neither the model nor a new plan can change it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class Options(BaseModel):
    """What was asked for besides the text. It holds for the task, whichever process runs it.

    Keys are never among it: they, and what commands see of the environment, are those of the process that
    runs the task. A worker inherits them from the process that started it; a process that holds the
    repository's lock already uses its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    resumes: str = ""
    """The task that ended stuck and is tried again: its report is all that the new one is told of it."""


class Task(Options):
    """What a person submitted."""

    id: str
    text: str
    """Exactly what was submitted."""
    goal: str
    """The text without its constraint sections."""
    constraints: Constraints = Constraints()
    config_files: tuple[str, ...] = ()
    """Paths that configure Headgate, which this task may not write."""


_HEADINGS: dict[str, Literal["keep", "non_goals", "boundaries"]] = {
    "constraint": "keep",
    "constraints": "keep",
    "keep": "keep",
    "preserve": "keep",
    "must keep": "keep",
    "must preserve": "keep",
    "non-goal": "non_goals",
    "non-goals": "non_goals",
    "non goals": "non_goals",
    "nongoals": "non_goals",
    "not goals": "non_goals",
    "boundary": "boundaries",
    "boundaries": "boundaries",
    "out of bounds": "boundaries",
    "out of scope": "boundaries",
    "off limits": "boundaries",
    "off-limits": "boundaries",
    "do not touch": "boundaries",
    "don't touch": "boundaries",
}
_HEADING = re.compile(
    r"^\s*(?:#{1,6}\s*|\*\*|__)?([A-Za-z][A-Za-z' -]{2,20}?)\s*(?:\*\*|__)?\s*:\s*(?:\*\*|__)?\s*(.*)$"
)
_BULLET = re.compile(r"^\s*(?:[-*+•–—]|\d{1,2}[.)])\s+(.*)$")


def parse_task_text(text: str) -> tuple[str, Constraints]:
    """Splits free text into the goal and the constraints that its own sections state.

    A section starts with a heading such as `Non-goals:` on a line of its own (or followed by one item) and
    ends with the first line that is neither a bullet, nor the continuation of one, nor blank.
    """
    goal: list[str] = []
    found: dict[str, list[str]] = {"keep": [], "non_goals": [], "boundaries": []}
    section: str | None = None
    fresh = False
    for line in text.splitlines():
        heading = _HEADING.match(line)
        name = _HEADINGS.get(heading.group(1).strip().lower()) if heading else None
        if heading and name:
            section, fresh = name, True
            if heading.group(2).strip():
                found[section].append(heading.group(2).strip())
                fresh = False
            continue
        if section is None:
            goal.append(line)
            continue
        bullet = _BULLET.match(line)
        if bullet:
            found[section].append(bullet.group(1).strip())
            fresh = False
        elif not line.strip():
            continue
        elif line[0].isspace() and found[section] and not fresh:
            found[section][-1] += " " + line.strip()
        elif fresh:
            found[section].append(line.strip())
            fresh = False
        else:
            section = None
            goal.append(line)
    kept = {name: tuple(item for item in items if item) for name, items in found.items()}
    kept["boundaries"] = tuple(item.strip("`'\"") for item in kept["boundaries"])
    return "\n".join(goal).strip(), Constraints(**kept)


def _merge(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))

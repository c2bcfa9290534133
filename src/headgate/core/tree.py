"""The tree of stages: paths in it, which stages a stage builds on, and where a task is in it.

The path of an attempt is that of the group around it and the id of the stage: `rounds#2/verify`. The number
after a group is its round. The number after a stage is its attempt in that round. The first has no number.
A path without its last number is a *place*: `rounds#2/implement` is the place of `rounds#2/implement#3`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from headgate.core.attempt import StageState
from headgate.core.flow import REST, Ending, Stage
from headgate.first_use import dataclass


@dataclass
class TreeState:
    """Every attempt at a stage. There is no current stage: several attempts may be open at once."""

    nodes: dict[str, StageState] = field(default_factory=dict)
    """Every attempt by path, in the order in which they were entered."""
    attempts: dict[str, list[StageState]] = field(default_factory=dict)
    """The same by stage id."""
    places: dict[str, list[StageState]] = field(default_factory=dict)
    """The same by place, so within one round of a group."""
    endings: dict[str, dict[str, Ending]] = field(default_factory=dict)
    """How the stages of a group ended: by the path of its round, then by stage id."""
    rounds: dict[str, int] = field(default_factory=dict)
    """The round that a group is in, by its place."""
    retries: dict[str, str] = field(default_factory=dict)
    """Places at which a stage is to be attempted again, each with the reason."""
    retry_at: dict[str, float] = field(default_factory=dict)
    """When that is to be, where it is to wait until then."""
    began_at: dict[str, float] = field(default_factory=dict)
    """When a stage was entered that may be attempted again, by place; later by what paused the task since."""
    skipped: dict[str, dict[str, str]] = field(default_factory=dict)
    """Why stages of a group do not run: by the path of its round, then by stage id."""
    replanned: dict[str, str] = field(default_factory=dict)
    """Rounds, by path, in which the plan is rewritten, each with the step that failed, if that is why."""
    idle_attempts: int = 0
    """Attempts at stages in a row, the latest that ended included, in which no call succeeded."""
    retries_before_write: int = 0
    """Stages attempted again before the first write."""

    def enter(self, entered: StageState) -> None:
        """Adds an attempt."""
        path = entered.path
        place = place_of(path)
        before = self.places.setdefault(place, [])
        self.retries.pop(place, None)
        self.retry_at.pop(place, None)
        if before and entered.reason == "retry":
            # The conversation goes on, so what was read and called in it still counts.
            last = before[-1]
            entered.counts.attempts, entered.plan_written = last.counts.attempts + 1, last.plan_written
            entered.files_read, entered.calls = dict(last.files_read), Counter(last.calls)
            entered.files_changed = dict(last.files_changed)
        else:
            self.began_at[place] = entered.counts.started_at
        self._reopen(path, entered.stage)
        self.nodes[path] = entered
        before.append(entered)
        self.attempts.setdefault(entered.stage, []).append(entered)

    def pause(self, seconds: float) -> None:
        """Notes that nobody worked on the task for so long."""
        for attempt in self.open_attempts():
            attempt.counts.started_at += seconds
            attempt.counts.unanswered.since += seconds
        for place in self.began_at:
            self.began_at[place] += seconds

    def leave(self, path: str, stage: str, ending: Ending) -> None:
        """Notes how a stage ended, unless it is to be attempted again."""
        if ending == "skipped":
            self.retries.pop(place_of(path), None)  # what was to be attempted again is not needed any more
        if place_of(path) not in self.retries:
            self._reopen(path, stage)
            self.endings[split_path(path).parent][stage] = ending

    def skip(self, path: str, stage: str, reason: str) -> None:
        """Notes that a stage does not run, and why."""
        self.skipped.setdefault(split_path(path).parent, {})[stage] = reason

    def replan(self, path: str, item: str) -> None:
        """Notes that the plan is rewritten in the round with this path. The round begins with that."""
        self.replanned[path] = item
        self.rounds[place_of(path)] = split_path(path).number

    def attempts_at(self, stage: str) -> int:
        """How often a stage was attempted."""
        return len(self.attempts.get(stage, ()))

    def latest_at(self, place: str) -> StageState | None:
        """The latest attempt at a place."""
        entered = self.places.get(place)
        return entered[-1] if entered else None

    def open_attempts(self) -> list[StageState]:
        """The attempts that are under way."""
        return [entered for entered in self.nodes.values() if entered.ending is None]

    def _reopen(self, path: str, stage: str) -> None:
        """Notes which round each group around a stage is in; the stage itself has not ended any more."""
        parent = split_path(path).parent
        self.endings.setdefault(parent, {}).pop(stage, None)
        while parent:
            above, name, number = split_path(parent)
            self.rounds[join_path(above, name)] = number
            parent = above


class Parts(NamedTuple):
    """What a path consists of."""

    parent: str
    """The path of the group around it; empty for the flow itself."""
    name: str
    """The id of the stage."""
    number: int
    """Its attempt, or its round."""


def join_path(parent: str, name: str, number: int = 1) -> str:
    """The path of a stage in a group."""
    own = name if number == 1 else f"{name}#{number}"
    return f"{parent}/{own}" if parent else own


def split_path(path: str) -> Parts:
    """The parts of a path."""
    parent, _, own = path.rpartition("/")
    name, _, number = own.partition("#")
    return Parts(parent, name, int(number or 1))


def place_of(path: str) -> str:
    """A path without its last number."""
    parent, name, _ = split_path(path)
    return join_path(parent, name)


def stage_ids(path: str) -> tuple[str, ...]:
    """The ids of the groups around a stage and its own, from the outside in."""
    return tuple(part.partition("#")[0] for part in path.split("/"))


def stages_before(stages: Sequence[Stage], stage: Stage) -> set[str] | None:
    """The ids of the stages whose notes a stage receives; None if the stage is not among these.

    Those are the stages that it needs, what those need, and the same for the groups around it. A stage that
    names none builds on all that have ended. Steps of the plan also receive the notes of other steps.
    """
    for own in stages:
        inner = stages_before(own.stages, stage) if own.stages else None
        step = bool(own.foreach and stage.item and stage.id.startswith(f"{own.id}-"))
        if inner is None and own.id != stage.id and not step:
            continue
        by_id = {each.id: each for each in stages}
        named = [need for need in own.needs if need != REST]
        needs = {each.id: each.needs for each in stages}
        before = [by_id[name] for name in all_needs(named, needs)] if named else [*stages]
        ids = {leaf.id for each in before if each is not own for leaf in each.leaves()}
        return ids | (inner or set()) | ({own.id} if step else set())
    return None


def all_needs(names: Iterable[str], needs: Mapping[str, Sequence[str]]) -> set[str]:
    """These stages and all that they need, as far as `needs` knows them."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in needs and name not in found:
            found.add(name)
            todo += needs[name]
    return found

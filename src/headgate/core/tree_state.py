"""Where a task is in its tree of stages, as its events tell it. See `tree` for paths and places."""

from collections import Counter
from dataclasses import dataclass, field

from headgate.core import events as ev
from headgate.core.attempt import StageState
from headgate.core.flow import Ending
from headgate.core.tree import join_path, place_of, split_path


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
    replanned: dict[str, str] = field(default_factory=dict)
    """Rounds, by path, in which the plan is rewritten, each with the step that failed, if that is why."""

    def enter(self, path: str, body: ev.StageStarted, at: float) -> StageState:
        """Adds an attempt."""
        place = place_of(path)
        before = self.places.setdefault(place, [])
        self.retries.pop(place, None)
        entered = StageState(path, body.stage, body.title, body.attempt, 1, body.turns, item=body.item)
        entered.kind, entered.reason = body.stage_kind, body.reason
        entered.started_at = entered.last_at = at
        entered.equip(body.tools)
        if before and body.reason == "retry":
            # The conversation goes on, so what was read and called in it still counts.
            last = before[-1]
            entered.tries, entered.plan_written = last.tries + 1, last.plan_written
            entered.files_read, entered.calls = dict(last.files_read), Counter(last.calls)
        self._reopen(path, body.stage)
        self.nodes[path] = entered
        before.append(entered)
        self.attempts.setdefault(body.stage, []).append(entered)
        return entered

    def leave(self, path: str, body: ev.StageEnded) -> None:
        """Notes how a stage ended, unless it is to be attempted again."""
        if place_of(path) not in self.retries:
            self._reopen(path, body.stage)
            self.endings[split_path(path).parent][body.stage] = body.ending

    def replan(self, path: str, item: str) -> None:
        """Notes that the plan is rewritten in the round with this path, which thereby begins."""
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

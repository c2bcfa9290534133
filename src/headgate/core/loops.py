"""Loops: a stage's calls are remembered since something last changed, to tell that it goes in circles."""

from dataclasses import field
from typing import Literal

from headgate.core.knobs import Budget
from headgate.first_use import dataclass

LoopKind = Literal["identical", "reads", "thoughts"]


@dataclass(slots=True)
class CallMemory:
    """Counts, and nothing else. When a file changes or the view is cut, it starts from zero."""

    repeated: dict[str, tuple[str, int]] = field(default_factory=dict)
    """For each call, by name and arguments: its last result, and how often in a row it returned that."""
    names: dict[str, str] = field(default_factory=dict)
    """The tool that each of them called."""
    latest: str = ""
    """The call that was answered last."""
    circling: set[str] = field(default_factory=set)
    """The tools with a call that returned the same result again."""
    read_turns: int = 0
    """Turns in a row that read nothing new."""
    thought_turns: int = 0
    """Turns in a row that only thought."""
    _turn: set[str] = field(default_factory=set)

    _results: set[str] = field(default_factory=set)
    _news: bool = False

    def begin_turn(self) -> None:
        """The model replied: what its calls were is counted from here on."""
        self.read_turns, self.thought_turns = self.idle()
        self._turn, self._news = set(), False

    def note_thought(self) -> None:
        """A plan was written: that is thought, and not yet work."""
        self._turn.add("reasoning")

    def idle(self) -> tuple[int, int]:
        """The turns in a row that read nothing new, and that only thought, the one under way included."""
        old = self._turn <= {"read", "reasoning"} and not self._news
        reads = self.read_turns + ("read" in self._turn) if old else 0
        thoughts = self.thought_turns + (self._turn == {"reasoning"}) if self._turn <= {"reasoning"} else 0
        return reads, thoughts

    def take(
        self,
        key: str,
        name: str,
        category: str | None,
        result: str,
        *,
        ok: bool,
        progress: bool = False,
        refused: bool = False,
    ) -> None:
        """A call was answered. `progress`: it changed a file; `refused`: it repeats, and so counts on."""
        self._turn.add(category or "")
        self._news = self._news or (category == "read" and result not in self._results)
        self._results.add(result)
        if progress:
            self.forget()
            return
        if ok and category == "run" and key not in self.repeated:
            self.forget()  # a command may have changed anything
        before, count = self.repeated.get(key, ("", 0))
        same = refused or before == result
        self.repeated[key] = (before if refused else result, count + 1 if same else 1)
        self.latest, self.names[key] = key, name
        if same:
            self.circling.add(name)

    def forget(self) -> None:
        """Something has changed: a call may have a good reason to return the same result again."""
        self.repeated.clear()
        self.read_turns = self.thought_turns = 0
        self._results.clear()
        self.names.clear()
        self.circling.clear()
        self.latest = ""

    def count(self, key: str) -> int:
        """How often in a row a call has returned the same result."""
        return self.repeated.get(key, ("", 0))[1]

    def last_result(self, key: str) -> str:
        """What a call returned last since something changed; empty if it was not made."""
        return self.repeated.get(key, ("", 0))[0]

    def repeats(self) -> int:
        return self.count(self.latest)


def due_nudge(memory: CallMemory, budget: Budget, can_write: bool) -> tuple[LoopKind, int] | None:
    """What the model is to be told of, once: a call that repeats, or turns that lead nowhere."""
    reads, thoughts = memory.idle()
    if budget.identical_calls and memory.repeats() >= budget.identical_calls:
        return "identical", memory.repeats()
    if budget.idle_reads and can_write and reads >= budget.idle_reads:
        return "reads", reads
    if budget.idle_thoughts and thoughts >= budget.idle_thoughts:
        return "thoughts", thoughts
    return None


def is_lost(memory: CallMemory, budget: Budget, can_write: bool) -> bool:
    """Whether being told has not helped, often enough: the stage has to be concluded."""
    reads, thoughts = memory.idle()
    return bool(
        (budget.identical_calls and memory.repeats() >= budget.identical_calls + budget.loop_patience)
        or (budget.idle_reads and can_write and reads >= budget.idle_reads + 2 * budget.loop_patience)
        or (budget.idle_thoughts and thoughts >= budget.idle_thoughts + budget.loop_patience)
    )

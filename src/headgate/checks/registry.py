"""What a check is, and what it is given to judge. `headgate.checks` has the list of all checks.

A new check is one file with a `Check`, and its entry in that list.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from headgate.core import CheckSpec, Flow, PlanItem, StageState, State, Verdict
from headgate.first_use import dataclass
from headgate.reading import TaskDiff


class Facts(Protocol):
    """What a check may ask about the task and the attempt that it judges. Methods find out when called."""

    @property
    def request(self) -> str:
        """What the task asks for, in the person's words."""
        ...

    @property
    def text(self) -> str:
        """The task's text, with its constraints."""
        ...

    @property
    def tests_closed(self) -> bool:
        """Whether no test may be added or changed."""
        ...

    @property
    def attempt(self) -> StageState:
        """What has been counted in the attempt at the stage: files read, calls, plans, refusals."""
        ...

    @property
    def plan(self) -> Sequence[PlanItem]:
        """The plan as it stands."""
        ...

    @property
    def open_stages(self) -> Sequence[str]:
        """The stages in the stage that its model has yet to end."""
        ...

    @property
    def has_acted(self) -> bool:
        """Whether the part of the work that the stage is in may have changed a file; true for others."""
        ...

    @property
    def state(self) -> State:
        """All that is known about the task."""
        ...

    @property
    def flow(self) -> Flow:
        """The flow that carries it out."""
        ...

    def last_error(self, beginning: str) -> str:
        """The latest answer that says why a call failed, and begins so; empty if none does."""
        ...

    @property
    def was_told(self) -> bool:
        """Whether the model was told what this check found in the diff, and this is the second look."""
        ...

    async def changed_files(self) -> Sequence[str]:
        """The files that the task has changed so far."""
        ...

    async def named_files(self) -> Sequence[str]:
        """The files that the task names and a model can read."""
        ...

    async def named_tests(self) -> Sequence[str]:
        """The tests that exist for what the task names."""
        ...

    async def count_readable(self, most: int) -> int:
        """How many files a model could read, up to `most`."""
        ...

    async def diff(self) -> TaskDiff:
        """What the task has changed since its start."""
        ...

    async def was_red(self) -> bool | None:
        """Whether a verification step failed at the task's start that passes now; None if nobody knows."""
        ...


async def nothing_missing(facts: Facts, argument: int) -> str:
    """For a check that has nothing to say about a stage that ran out of turns."""
    return ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what is known about it, and how it judges."""

    spec: CheckSpec
    judge: Callable[[Facts, int], Awaitable[Verdict]]
    """Whether it holds. It gets the facts and its argument, which is 1 for a flag."""
    applies: Callable[[Facts], bool] = lambda facts: True
    """Whether it can be judged at all: one that asks for what is refused is left out."""
    final_tools: Callable[[StageState], tuple[str, ...]] = lambda attempt: ()
    """Tools with which one reply can still meet it. The final turn offers them."""
    still_missing: Callable[[Facts, int], Awaitable[str]] = nothing_missing
    """What is missing so badly that a stage which ran out fails, although it would otherwise be left; a
    clause for people, or nothing."""

    @property
    def name(self) -> str:
        return self.spec.name


def registry_of(*checks: Check) -> dict[str, Check]:
    """Checks by name. They run in this order. ValueError for a check of the diff that wants a number."""
    for check in checks:
        if check.spec.argument == "count" and check.spec.place != "stage":
            raise ValueError(f"{check.name}: only a check at the exit of a stage has a number")
    return {check.name: check for check in checks}

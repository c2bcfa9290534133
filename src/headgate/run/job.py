"""What one task's run needs, in one place: ports are filled by the engine, fakes by tests."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headgate.checks import CHECKS, Check, Verifier
from headgate.core import (
    Body,
    EditsNoticed,
    Flow,
    Limits,
    Model,
    ModelSettings,
    OnPulse,
    Person,
    Plan,
    Proposed,
    Role,
    SaidLine,
    Settings,
    Stage,
    State,
    Task,
    ToolSpec,
    expand_steps,
    stage_ids,
)
from headgate.first_use import dataclass
from headgate.reading import TaskDiff
from headgate.run.followed import Followed
from headgate.run.scope import listed_specs
from headgate.run.transcript import Transcript
from headgate.tools import Tool, ToolContext
from headgate.tree import FileChange, IgnoredPaths, Moment

if TYPE_CHECKING:
    from headgate.run.feature import Feature
    from headgate.run.stage import Interrupted, Kind


STOP_POLL = 0.2
"""How often what takes long looks whether somebody wants the task concluded."""


class Log(Protocol):
    """Where everything is recorded. `state` is what follows from the events committed so far."""

    state: State

    def record(self, path: str, turn: int, body: Body, content: str | None = None) -> None:
        """Adds an event to the next commit."""
        ...

    async def commit(self) -> None:
        """Makes everything recorded durable, applies it to `state` and tells whoever listens."""
        ...


class Tree(Protocol):
    """The working tree, compared with the task's start.

    A flow without a repository has one that follows no changes: it answers as the methods here do.
    """

    async def changed_files(self) -> tuple[str, ...]:
        """The files that the task has changed so far."""
        return ()

    async def mark(self, moment: Moment | None = None) -> str:
        """Remembers the tree as it is now. `moment`: a run of the verification steps begins, or has ended."""
        return ""

    async def own_mark(self, mark: str) -> str:
        """A mark without what others had changed by then, as far as the log tells."""
        return mark

    async def diff_since(self, mark: str) -> str:
        """What the task has changed since such a mark, as a unified diff."""
        return ""

    async def own_diff(self) -> TaskDiff:
        """What the task has changed since its start; in a dry run, what it would change."""
        return TaskDiff("")

    async def diff_to_start(self) -> tuple[FileChange, ...] | None:
        """The changes that lead from the tree as it is to the task's start; None if there is no way back."""
        return None

    def hash_of(self, path: str) -> str | None:
        """The hash of a file as it is now, by its shown path; None if it is not there."""
        return None

    async def changed_between(self, before: str, after: str) -> tuple[str, ...]:
        """The files that differ between two marks."""
        return ()

    async def left_behind(self, before: str, after: str) -> tuple[str, ...]:
        """New files between two marks, and caches: not the task's doing but a verification run's."""
        return ()

    async def notice(
        self, mark: str = "", *, writing: Sequence[FileChange] | None = None
    ) -> EditsNoticed | None:
        """What others have changed since the task last wrote or ran something; None if nothing.

        `mark` is the tree as it is, if it was just looked at. Before a tool writes, only its files are.
        """
        return None

    async def settle(self, mark: str = "", *, written: Sequence[FileChange] | None = None) -> str:
        """A command or a check has ended: what changed since `notice` is its doing. Or a tool has written.

        Returns the tree that a command or a check left, if it could be looked at.
        """
        return ""


LAST_SECONDS = 60.0
"""What last replies get together once the task is to end: a local model may read the prompt again."""
GRACE_SECONDS = 2.0
"""How long after a task's limit what it is at may still end by itself."""


T = TypeVar("T")
S = TypeVar("S", bound=Settings)


@dataclass
class Parts:
    """What the stages of a flow may name."""

    kinds: Mapping[str, "Kind"]
    """What a stage can be, by name."""
    tools: Mapping[str, Tool]
    checks: Mapping[str, Check] = field(default_factory=lambda: CHECKS)
    """What must hold at the exit of a stage, or in a review of the diff, by name."""
    stage_tools: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    """Tools that only one stage has: by the stage's id, then by name."""
    code: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """The functions and types that the flow names, by reference; see `Stage.accept`."""
    features: "Sequence[Feature]" = ()
    """What takes part in the loop besides."""


@dataclass
class Pinned:
    """What the configuration says about the loop. It stays as it was when the task started."""

    limits: Limits = field(default_factory=Limits)
    agents_md: bool = True
    status_always: bool = False
    """Offer the status report also where no other tool is."""
    keeping_lists: frozenset[str | None] = frozenset()
    """The models that are sent the same list of tools in every stage, which refuses those it lacks."""
    tests_closed: bool = False
    """No test may be added or changed."""
    system_prompt: str = "system"
    """The name of the text that every system prompt begins with."""
    earlier_report: str = ""
    """The report of the stuck task that this one takes up."""
    followed: Followed | None = None
    """The task that this one is a follow-up of."""
    of_features: Mapping[type[Settings], Settings] = field(default_factory=dict)

    def of(self, feature: type[S]) -> S:
        """The settings of a feature; its own defaults where the configuration has none."""
        found = self.of_features.get(feature) or _defaults(feature)
        assert isinstance(found, feature)
        return found


@cache
def _defaults(feature: type[Settings]) -> Settings:
    return feature()


@dataclass
class Models:
    """The models that are asked, by the name that a stage gives; None is the default."""

    clients: Mapping[str | None, Model]
    settings: Mapping[str | None, ModelSettings]
    chars_per_token: dict[str | None, float] = field(default_factory=dict)
    """How many characters of a request each model's server last counted as a token."""
    last_seconds: float = LAST_SECONDS
    """What is left of the time for last replies, once the task is to end."""


@dataclass
class Place:
    """Where the task works."""

    context: ToolContext
    verifier: Verifier | None
    """None where no steps are configured."""
    tree: Tree
    redact: Callable[[str], str]
    """Replaces secrets in any text that is about to reach the model or the log."""
    proposing: bool = False
    """A dry run: the workspace keeps what is written to itself."""


@dataclass
class People:
    """Those who watch the task and may say something to it."""

    pulse: OnPulse
    lines: Callable[[], Sequence[SaidLine]] = tuple
    """What they have said to the task and nobody has read yet."""
    stopping: Callable[[], bool] = lambda: False
    """Whether somebody wants the task concluded."""
    stop_seconds: float = 10.0
    """How long a reply may still take then. The one after it is the last."""
    taking_lines: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Whoever takes in what was said holds it: stages that run at once hear of it through the state."""


@dataclass
class Clock:
    """The time."""

    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


@dataclass
class Memory:
    """What only this process knows of the task."""

    transcripts: dict[str, Transcript] = field(default_factory=dict)
    interrupted: "dict[str, Interrupted]" = field(default_factory=dict)
    """The attempts that a crash cut short, by path, until they are taken up again."""
    last_tests: dict[str, str] = field(default_factory=dict)
    """What the model was told about the tree that it had tested last, by that tree."""
    failure_message: str = ""
    """What the stage that makes the fix is told about the latest failed verification."""
    _of_features: dict[type[Any], Any] = field(default_factory=dict)

    def of(self, feature: type[T]) -> T:
        """What a feature remembers: one object of its own type, which is made when it is first asked for."""
        if feature not in self._of_features:
            self._of_features[feature] = feature()
        kept: T = self._of_features[feature]
        return kept


@dataclass
class Job:
    """One task being carried out."""

    task: Task
    flow: Flow
    """The tree of stages; see `expand_flow`."""
    parts: Parts
    log: Log
    models: Models
    place: Place
    people: People
    clock: Clock
    pinned: Pinned = field(default_factory=Pinned)
    memory: Memory = field(default_factory=Memory)
    _expanded: "dict[str, tuple[tuple[object, ...], tuple[Stage, ...]]]" = field(default_factory=dict)
    """The stages of each group as they stand, with the plan that they were made for."""

    @property
    def state(self) -> State:
        return self.log.state

    @property
    def roles(self) -> Mapping[str, frozenset[Role]]:
        """What each kind of stage declares, by its name."""
        return {name: kind.roles for name, kind in self.parts.kinds.items()}

    @property
    def request(self) -> str:
        """What the person asks for: the task, and what was said since it was submitted."""
        return "\n\n".join((self.task.request, *self.state[Person].said.values()))

    @property
    def limit_reached(self) -> str:
        """The task's cap that is reached, by its slug; empty if none is."""
        state = self.state
        return self.pinned.limits.reached(
            state.accounts.replies,
            state.accounts.usage,
            state.seconds - state.clock.lead,
            state.accounts.cost,
        )

    def forget_tests(self) -> None:
        """Something was written or run: what git ignores is in no tree, and may be what a check looks at."""
        self.memory.last_tests.clear()

    def seconds_left(self) -> float | None:
        """Of the task's time, without what is kept for last replies; None where it has no limit."""
        working = self.pinned.limits.working_seconds
        return None if working is None else working - self._elapsed

    def seconds_to_deadline(self) -> float | None:
        """Until everything stops, whatever it is at; None where the task's time has no limit.

        What a person has applied is verified in any case.
        """
        if self.pinned.limits.seconds is None or self.state[Proposed].step in ("applying", "applied"):
            return None
        return max(self.pinned.limits.seconds + GRACE_SECONDS - self._elapsed, 0.0)

    @property
    def _elapsed(self) -> float:
        return self.clock.now() - self.state.clock.started_at - self.state.clock.paused

    async def rest(self, seconds: float) -> None:
        """Sleeps so long, or until somebody wants the task concluded."""
        sleeping = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            while not sleeping.done() and not self.people.stopping():
                await asyncio.wait({sleeping}, timeout=STOP_POLL)
        finally:
            sleeping.cancel()

    def checks_of(self, stage: Stage) -> list[Check]:
        """The checks at the exit of a stage, in the order in which they run."""
        return [check for name, check in self.parts.checks.items() if stage.checks.get(name)]

    @property
    def must_end(self) -> bool:
        """Whether the task is to end: a cap is reached, or a person wants it concluded."""
        return bool(self.limit_reached) or self.people.stopping()

    def children(self, place: str, within: Stage) -> tuple[Stage, ...]:
        """The stages in the one at a place, with those that are made while the task runs."""
        kind = self.parts.kinds.get(within.kind)
        stages = kind.children(self, within) if kind else within.stages
        made_of = (stages, self.state[Plan].items, self.state[Plan].since)
        kept = self._expanded.get(place)
        if kept is None or any(a is not b for a, b in zip(kept[0], made_of, strict=True)):
            kept = self._expanded[place] = made_of, expand_steps(*made_of)
        return kept[1]

    @cached_property
    def root(self) -> Stage:
        """The flow as the outermost group."""
        return Stage(id="flow", stages=self.flow.stages, max_parallel=self.flow.max_parallel)

    def stages_beside(self, path: str) -> list[Stage]:
        """The stages of the part of the work that an attempt was made in, if it was handed out as one."""
        ids = stage_ids(path)
        places = ("/".join(ids[:depth]) for depth in range(1, len(ids)))
        group = next((stage for stage in map(self.stage_at, places) if stage and stage.execution), None)
        return list(group.leaves()) if group else []

    def stage_at(self, path: str) -> Stage | None:
        """The stage that an attempt was made at; None if the flow has no such stage."""
        ids = stage_ids(path)
        within: Stage | None = self.root
        found: Stage | None = None
        for depth, name in enumerate(ids):
            place = "/".join(ids[:depth])
            inside = self.children(place, within) if within else ()
            found = next((stage for stage in inside if stage.id == name), None)
            within = found = found or self._stage_of_step(within.stages if within else (), name)
        # Version 0.1 had no groups: its logs name a stage by its id alone.
        return found or next((leaf for leaf in self.flow.leaves() if leaf.id == ids[-1]), None)

    def _stage_of_step(self, level: Sequence[Stage], name: str) -> Stage | None:
        """A stage that was made for a step of the plan which the plan does not have any more, or not so."""
        template = next((stage for stage in level if stage.foreach and name.startswith(f"{stage.id}-")), None)
        entered = self.state.tree.attempts.get(name)
        if template is None or not entered:
            return None
        return template.model_copy(update={"id": name, "item": entered[0].item, "foreach": None})

    def shares_conversation(self, stage: Stage) -> bool:
        """Whether other stages of the flow continue the conversation of this one, or it theirs."""
        if stage.view.transcript != "own":
            return True
        leaves = (*self.flow.leaves(), self.flow.replan)
        return any(leaf.view.transcript == stage.id for leaf in leaves)

    @cached_property
    def ignored(self) -> IgnoredPaths:
        """What git ignores. The first look walks the tree: not for the event loop."""
        return IgnoredPaths(self.place.context.workspace.root)

    @cached_property
    def own_conversations(self) -> frozenset[str]:
        """The stages that the flow has from the start and that have conversations of their own."""
        return frozenset(leaf.id for leaf in self.flow.leaves() if leaf.view.transcript == "own")

    @cached_property
    def conversations(self) -> tuple[Stage, ...]:
        """The stages that the flow has from the start and in which the model may call tools."""
        talking: dict[str, Stage] = {}
        for leaf in self.conversing(self.flow.leaves()):
            talking.setdefault(leaf.id, leaf)
        return tuple(talking.values())

    def conversing(self, stages: Iterable[Stage]) -> list[Stage]:
        """Those of some stages in which the model may call tools."""
        return [stage for stage in stages if "conversation" in self.parts.kinds[stage.kind].roles]

    @cached_property
    def listed_specs(self) -> tuple[ToolSpec, ...]:
        """What a model is sent where the list of tools never changes."""
        return listed_specs(self, self.conversations)

    def transcript_of(self, stage: Stage) -> Transcript:
        """The stage's own transcript, the one that the flow's stages share, or that of another stage."""
        key = {"own": stage.id, "parent": ""}.get(stage.view.transcript, stage.view.transcript)
        return self.memory.transcripts.setdefault(key, Transcript())

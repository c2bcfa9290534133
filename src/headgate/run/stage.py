"""One attempt at a stage, and what a kind of stage is."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from headgate.config import prompt
from headgate.core import (
    DONE_TOOL,
    Around,
    Body,
    Data,
    Decision,
    FailedRounds,
    Note,
    Repeat,
    Role,
    Stage,
    StageEnded,
    StageState,
    is_lost,
    place_of,
)
from headgate.first_use import dataclass
from headgate.run.job import Job
from headgate.run.scope import Scope
from headgate.run.transcript import Transcript
from headgate.tools import Tool


@dataclass(frozen=True, slots=True)
class Entrance:
    """Why a stage is entered, and what the model is told about it."""

    reason: Literal["next", "retry", "check_failed", "replan", "review"] = "next"
    message: str = ""
    order: str = ""
    """The name of the text that says what is to be done about it, where the message does not."""
    cuts_view: bool = False
    """The view is cut before going on: what led nowhere is not worth reading again."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What only the process that crashed knew about the attempt under way."""

    entrance: Entrance = Entrance()
    cut_off: bool = False
    """The last reply was cut off at its length limit."""


NO_NOTE = Note()


@dataclass(frozen=True, slots=True)
class StageEnd:
    """How an attempt at a stage ended."""

    decision: Decision
    note: Note = NO_NOTE
    """What it leaves to later stages."""


@dataclass
class StageRun:
    """One attempt at a stage: what its kind is given to work with."""

    job: Job
    stage: Stage
    path: str
    entrance: Entrance
    interrupted: Interrupted | None = None
    """What is known about the attempt if a crash cut it short."""
    turn: int = 0
    """The number of the turn under way; 0 before the first."""
    retry_after: float | None = None
    """What an unavailable model asked for, in seconds."""

    @cached_property
    def transcript(self) -> Transcript:
        return self.job.transcript_of(self.stage)

    @property
    def state(self) -> StageState:
        return self.job.state.nodes[self.path]

    def around(self) -> Around:
        """What a decision about it depends on, besides what was counted in it."""
        lost = is_lost(self.state.memory, self.stage.budget, self.state.can_write)
        task = self.job.state
        return Around(
            seconds_left=self.seconds_left(),
            model_wait=self._model_wait,
            lost=lost,
            over=self.job.limit_reached,
            turns_inside=self._turns_inside,
            concludes=self.is_conversation,
            idle_attempts=task.tree.idle_attempts,
            fixing=self._is_fixing,
        )

    def _is_fixing(self) -> bool:
        kinds = self.job.parts.kinds.values()
        return any(judge.has_objected(self.job) for judge in kinds if isinstance(judge, Judge))

    @property
    def _model_wait(self) -> float:
        """How long the model's server is waited for: a server that has never answered may not exist."""
        server = self.state.counts.unanswered.server
        if not server:
            return 0.0
        model = self.job.models.settings[self.stage.model].model
        is_known = server == "loading" or model in self.job.state.accounts.models
        return self.job.pinned.limits.model_wait if is_known else 0.0

    def seconds_left(self) -> float | None:
        """Of the time for all attempts at the stage; None where that has no limit."""
        most = self.stage.budget.total_seconds
        if most is None:
            return None
        return most - (self.job.clock.now() - self.job.state.tree.began_at[place_of(self.path)])

    @property
    def kind(self) -> "Kind":
        return self.job.parts.kinds[self.stage.kind]

    @property
    def conversation(self) -> "Conversation":
        """The kind, as one of conversations; what all of them have in common for any other."""
        return self.kind if isinstance(self.kind, Conversation) else _PLAIN

    @property
    def is_announced(self) -> bool:
        """Whether people see that the stage starts, and if it does not complete."""
        return "quiet" not in self.kind.roles

    @property
    def is_conversation(self) -> bool:
        return "conversation" in self.kind.roles

    @property
    def done_name(self) -> str:
        """The name of the closing signal."""
        return self.conversation.done_tool

    @property
    def _turns_inside(self) -> int:
        """The turns taken in the stages in it: they count for it, too."""
        if not self.stage.stages:
            return 0
        inside = f"{place_of(self.path)}/"
        return sum(
            node.counts.turns for path, node in self.job.state.nodes.items() if path.startswith(inside)
        )

    @cached_property
    def scope(self) -> Scope:
        """What may be called in it."""
        return Scope(self)

    def record(self, body: Body, content: str | None = None) -> None:
        self.job.log.record(self.path, self.turn, body, content)


class Kind:
    """What a stage without inner stages can be. The loop knows kinds only by what is said here.

    A feature adds one by a subclass.
    """

    name: str
    settings: type[Data] = Data
    """The type of its settings in a flow file."""
    roles: frozenset[Role] = frozenset()
    """What the loop may take for granted about it."""

    async def run(self, run: StageRun) -> StageEnd:
        """Carries one attempt out and returns how it ended.

        It may be called again for the same attempt, after a crash: what it has recorded by then is in the
        attempt's state.
        """
        raise NotImplementedError

    def children(self, job: Job, stage: Stage) -> tuple[Stage, ...]:
        """The stages in such a stage as they stand: the same tuple until others are made."""
        return stage.stages

    def adapt(self, job: Job, stage: Stage) -> Stage | None:
        """The stage as it is to run now; None if there is nothing to do for it (the role `may_not_apply`)."""
        return stage

    def tools_inside(self, stages: Sequence[Stage]) -> Mapping[str, Tool]:
        """Tools that all such stages of a flow and the stages in them have between them, by name."""
        return {}

    def replay(self, run: StageRun, body: Body, content: str) -> None:
        """After a crash: takes an event of an attempt, and what was kept with it, into memory again."""


class Conversation(Kind):
    """A kind whose stages are conversations with tools (the role `conversation`)."""

    done_tool: str = DONE_TOOL
    """The tool that gives its closing signal."""

    ending_tools: Sequence[str] = ()
    """Other tools that end such a stage."""
    withheld_tools: Sequence[str] = ()
    """Tools of its own that are of no use in it."""

    def tools(self, run: StageRun) -> Mapping[str, Tool]:
        """Tools that such a stage has besides, by name."""
        return {}

    async def acting(self, run: StageRun) -> StageRun:
        """The attempt that the next call of a reply belongs to."""
        return run

    def recap(self, run: StageRun) -> str:
        """What is told besides to a model that no longer sees all that was said."""
        return ""

    def open_stages(self, run: StageRun) -> Sequence[str]:
        """The stages in it that the model has yet to end."""
        return ()

    def say_failure(self, job: Job, told: Entrance, replanned: bool) -> str:
        """What it is told about a failure; `replanned`: the plan is due to be rewritten."""
        return say_failure(job, told, replanned)

    async def after_end(self, run: StageRun, end: StageEnd, ended: StageEnded) -> None:
        """Called when an attempt has ended. What it records is committed together with that."""
        run.transcript.end_stage(place_of(run.path), ended)


class Leader(Conversation):
    """A kind that has parts of the work carried out: groups of stages that are made while the task runs.

    Each stage of such a part has its number, `Stage.execution`. Its results go back to the leader.
    """

    def is_spent(self, job: Job, number: int) -> bool:
        """Whether a part of the work has taken all the steps that it may."""
        raise NotImplementedError

    def variables(self, job: Job) -> Mapping[str, Any]:
        """What conditions of stages in it can look at besides."""
        raise NotImplementedError

    def take_unavailable(self, run: StageRun, tool: str, answer: str) -> None:
        """Called when a stage in it has called a tool that cannot be used in this task."""

    def describe_task(self, job: Job, tokens: int, stage: str) -> str:
        """The document about the task as it stands, for a stage in whose prompt it stands."""
        raise NotImplementedError


def leader_of(job: Job) -> Leader | None:
    """The kind that has parts of the work carried out."""
    return next((kind for kind in job.parts.kinds.values() if isinstance(kind, Leader)), None)


_PLAIN = Conversation()


class Judge(Kind):
    """A kind that judges the work, and sends it back (the role `sends_back`)."""

    def has_objected(self, job: Job) -> bool:
        """Whether such a stage has found something in this task that is to be fixed."""
        return False

    def send_back(self, job: Job, stage: Stage) -> Entrance:
        """What the next round of the group is told if such a stage failed."""
        raise NotImplementedError

    async def record_fix(self, job: Job, path: str) -> None:
        """Called with the path of the attempt that was told so, once it has ended."""

    def after_failure(self, job: Job, stage: Stage, rounds: FailedRounds, repeat: Repeat) -> Decision | None:
        """What follows if the group is to repeat until such a stage passes, and it failed.

        None: another round, until there have been as many as there may be.
        """
        return None


class Search(Kind):
    """A kind that tries things out, and can say what it tried in vain."""

    def explain_failure(self, job: Job, stage: Stage) -> str:
        """Why the flow cannot go on, where such a stage failed; empty if it tried nothing."""
        raise NotImplementedError

    def say_tried(self, job: Job) -> str:
        """What was tried in vain, for a model that is asked for its last words."""
        raise NotImplementedError


class Finder(Kind):
    """A kind that finds out about the task before the others begin; `say_facts` is what they all say."""

    def stages(self, job: Job) -> Collection[str]:
        """The stages that take part in that, of whatever kind. A task can do without them."""
        raise NotImplementedError

    def say_facts(self, job: Job, tokens: float | None) -> list[str]:
        """What was found out so far. `tokens`: how many a model's answer may have, if fewer than usual."""
        raise NotImplementedError


def fact_stages(job: Job) -> frozenset[str]:
    """The stages that find out about the task before the others: their notes are told as facts."""
    finders = [kind for kind in job.parts.kinds.values() if isinstance(kind, Finder)]
    return frozenset(name for kind in finders for name in kind.stages(job))


def say_facts(job: Job, tokens: float | None = None) -> list[str]:
    """What was found out about the task so far, for everybody who begins to work on it."""
    finders = [kind for kind in job.parts.kinds.values() if isinstance(kind, Finder)]
    return [text for kind in finders for text in kind.say_facts(job, tokens)]


def say_failure(job: Job, told: Entrance, replanned: bool) -> str:
    """What a stage is told about a failure, and what is to be done about it."""
    return "\n\n".join(filter(None, [told.message, prompt(told.order) if told.order else ""]))


def explain_failure(job: Job, stage: Stage) -> str:
    """Why the flow cannot go on, where its last attempt does not say that well."""
    kind = job.parts.kinds[stage.kind]
    return kind.explain_failure(job, stage) if isinstance(kind, Search) else ""

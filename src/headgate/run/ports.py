"""The ports through which a tool acts, for one call in one attempt at a stage.

Each act is recorded after the start of the call that makes it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from headgate.core import (
    Note,
    Plan,
    PlanItem,
    PlanWritten,
    TaskStatusGiven,
    ToolStarted,
    merge_plan,
    show_path,
    skip_reading,
)
from headgate.errors import ToolError, ToolFailed
from headgate.first_use import dataclass
from headgate.run.exits import clean_value, leave_stage
from headgate.run.first_messages import nested_guides
from headgate.run.job import Job
from headgate.run.stage import StageRun
from headgate.run.verification import run_verification
from headgate.tools import NOT_IN_A_STAGE, Args, Outcome, Tool, ToolContext, Watch

STATUS_CHARS = 200
"""How much of each field of a status the log keeps."""


@dataclass
class CallPorts(Watch):
    """The ports of one call, and what the runtime has to know about their use."""

    run: StageRun
    started: ToolStarted
    has_started: bool = False
    """The start of the call is recorded."""
    ran_tests: bool = False
    """The tool ran the project's tests."""
    fault: Exception | None = None
    """What went wrong in the runtime while the tool used a port. The tool cannot answer for it."""
    guides: dict[str, str] = field(default_factory=dict)
    """The guides for what the tool has read; see `nested_guides`."""

    async def call(self, tool: Tool, args: Args) -> Outcome:
        """Runs a tool with these ports. After a fault the task cannot go on, whatever the tool made of it."""
        try:
            outcome = await tool.run(self._context(), args, self)
        except ToolError:
            if self.fault is None:
                raise
        if self.fault is not None:
            raise self.fault
        return outcome

    @property
    def looks_before(self) -> bool:
        """Only a repository has secrets."""
        return self.run.job.place.context.secrets is not None

    def look_before(self) -> None:
        """Finds the secrets of now: a person may have changed some while the model wrote."""
        if secrets := self.run.job.place.context.secrets:
            secrets.look()

    def look_after(self, outcome: Outcome) -> None:
        """Finds the guides for what was read."""
        if self.run.job.pinned.agents_md:
            workspace = self.run.job.place.context.workspace
            self.guides = nested_guides(workspace, self.run.transcript, outcome.read)

    def _context(self) -> ToolContext:
        context = self.run.job.place.context
        times = (self.run.seconds_left(), self.run.job.seconds_left())
        left = [seconds for seconds in times if seconds is not None]
        timeout = max(min([context.search_timeout, *left]), 0.1)
        return replace(
            context, sandbox=self.run.scope.sandbox, search_timeout=timeout, made=self._made, stage=self
        )

    def _made(self, path: str) -> bool:
        state, shown = self.run.job.state, show_path(path)
        return shown in state.files_changed and state.first_hashes.get(shown, "") is None

    def start(self) -> None:
        """Records the start of the call, unless that has been done."""
        if not self.has_started:
            self.has_started = True
            self.run.record(self.started)

    @contextmanager
    def acting(self) -> Iterator[StageRun]:
        """Goes around each act. Only a ToolError concerns the tool; another exception is a fault."""
        self.start()
        try:
            yield self.run
        except ToolError:
            raise
        except Exception as error:
            self.fault = self.fault or error
            raise

    def plan_items(self) -> tuple[PlanItem, ...]:
        return self.run.job.state[Plan].items

    async def write_plan(self, items: Sequence[PlanItem]) -> None:
        with self.acting() as run:
            clean = [PlanItem.model_validate(clean_value(run, item.model_dump())) for item in items]
            run.record(_new_plan(run.job, clean))

    async def report_status(self, status: TaskStatusGiven) -> None:
        with self.acting() as run:
            said = {name: _bounded(clean_value(run, value)) for name, value in status.model_dump().items()}
            run.record(TaskStatusGiven.model_validate(said))

    async def leave(self, note: Note) -> None:
        with self.acting() as run:
            await leave_stage(run, note)

    async def run_tests(self) -> str:
        """Runs the verification steps because the model asked; not again while nothing has changed."""
        with self.acting() as run:
            self.ran_tests = True
            job = run.job
            tree = await job.place.tree.mark()
            if told := job.memory.last_tests.get(tree):
                return f"Not run again: nothing has changed since the last run. {told}"
            finding = await run_verification(job, run.path, run.turn, "asked")
            text = finding.message or f"The tests pass ({finding.run_id})."
            job.memory.last_tests.clear()
            job.memory.last_tests[tree] = text
            return text


def _new_plan(job: Job, items: list[PlanItem]) -> PlanWritten:
    """The plan that the model wrote, with what the runtime has to say about its steps."""
    if any(stage.foreach for stage in job.flow.leaves()):
        items = list(merge_plan(job.state[Plan].items, items))
    if job.flow.skip_readonly:
        items = skip_reading(items)
    return PlanWritten(version=job.state[Plan].version + 1, items=tuple(items))


def _bounded(value: Any) -> Any:
    """A field of a status as the log keeps it: fifteen words were asked for."""
    too_long = isinstance(value, str) and len(value) > STATUS_CHARS
    return f"{value[: STATUS_CHARS - 1]}…" if too_long else value


def call_under_way(context: ToolContext) -> CallPorts:
    """The call that a tool of a feature was given this context for. ToolFailed outside a stage."""
    if not isinstance(context.stage, CallPorts):
        raise ToolFailed(NOT_IN_A_STAGE)
    return context.stage

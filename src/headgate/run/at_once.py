"""Stages that run at once, each with its own conversation, and none with tools that write or run commands."""

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import field

from headgate.core import Body, Decision, Stage, State, join_path
from headgate.first_use import dataclass
from headgate.run.job import Job, Log
from headgate.run.stage import Entrance, StageRun

_EFFECTS = ("write", "run")


def may_run_beside(job: Job, stage: Stage, parent: str) -> bool:
    """Whether a stage may run while others do."""
    roles = job.parts.kinds[stage.kind].roles
    if stage.stages or "runs_beside" not in roles or stage.view.transcript != "own":
        return False
    if "conversation" not in roles:
        return True  # nobody calls tools in it, whichever it is offered
    run = StageRun(job, stage, join_path(parent, stage.id), Entrance())
    return not any(spec.category in _EFFECTS for spec in run.scope.every)


@dataclass
class BranchLog:
    """The log as one of several stages uses it: what the stage records is committed as a whole."""

    log: Log
    lock: asyncio.Lock
    state: State
    _pending: list[tuple[str, int, Body, str | None]] = field(default_factory=list)

    def record(self, path: str, turn: int, body: Body, content: str | None = None) -> None:
        self._pending.append((path, turn, body, content))

    async def commit(self) -> None:
        async with self.lock:
            drafts, self._pending = self._pending, []
            for draft in drafts:
                self.log.record(*draft)
            await self.log.commit()


class StagesAtOnce:
    """The stages of a round that run at once."""

    def __init__(self, job: Job) -> None:
        self.lock = asyncio.Lock()
        """Whoever commits holds it, so that events are applied in the order of the log."""
        self._job = job
        self._running: dict[asyncio.Task[Decision | None], Stage] = {}

    @property
    def stages(self) -> set[str]:
        """The ids of those that run now."""
        return {stage.id for stage in self._running.values()}

    def start(self, stage: Stage, run: Callable[[Job, Stage], Awaitable[Decision | None]]) -> None:
        """Starts a stage with a log of its own."""
        job = copy(self._job)  # with what it has found out so far, such as the files that git ignores
        job.log = BranchLog(self._job.log, self.lock, self._job.state)

        async def run_stage() -> Decision | None:
            return await run(job, stage)

        self._running[asyncio.create_task(run_stage())] = stage

    async def wait(self) -> Decision | None:
        """Waits until one of them has ended, if any runs; returns the decision that ends the flow."""
        if not self._running:
            return None
        done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            del self._running[task]
        for error in [task.exception() for task in done]:
            if error is not None:
                raise error
        return next((decision for task in done if (decision := task.result())), None)

    async def cancel(self) -> None:
        """Cancels those that run, and waits until each has cleaned up."""
        tasks = list(self._running)
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

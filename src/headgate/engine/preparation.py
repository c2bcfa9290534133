"""Putting the parts of a task together, once, before its first request: tools, flow, models, its place."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from operator import attrgetter

from headgate.config import Config
from headgate.core import BUBBLEWRAP, Event, Flow, Settings, Task, Workplace
from headgate.engine.assembly import (
    build_context,
    build_verifier,
    find_sandbox,
    known_secrets,
    secret_patterns,
    task_boundaries,
)
from headgate.engine.flow_models import models_that_keep_lists, open_models
from headgate.engine.followed import earlier_report, find_followed
from headgate.engine.resolved import ResolvedConfig
from headgate.engine.tool_list import ToolMeans, tools_for
from headgate.engine.tree import TaskTree
from headgate.features.memory import Memories, TaskMemory
from headgate.features.research import Research
from headgate.first_use import dataclass
from headgate.guard import AskPerson, ProtectedTree, Redactor, ResolvedBoundaries, Restored
from headgate.log import Bus, Folder, Store, TaskLog
from headgate.process import Bubblewrap, NoSandbox
from headgate.run import Clock, Job, Models, Parts, People, Pinned, Place
from headgate.tools import Tool
from headgate.tree import OverlayWorkspace, Snapshots


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task that can be carried out, and what the log tells of it at its start."""

    job: Job
    config: Config
    bounds: ResolvedBoundaries
    sandbox: str
    """What commands run in, or why there is no sandbox."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is known of a task before its configuration is."""

    task: Task
    folder: Folder
    store: Store
    bus: Bus
    log: TaskLog
    tree: TaskTree
    snapshots: Snapshots
    past: Sequence[Event]
    """What earlier processes recorded; empty if the task starts now."""
    clock: Clock
    person: AskPerson | None
    stopping: Callable[[], bool]
    """Whether the task is to conclude with what there is."""
    proposing: bool
    """What it writes is kept apart, as a proposal."""
    around: Callable[[Callable[[], tuple[Restored, ...]]], tuple[Restored, ...]]
    """Makes each look at protected files; see `restoring_own_files`."""

    async def prepare(self, stack: AsyncExitStack, resolved: ResolvedConfig, config: Config) -> Prepared:
        """The task with all its parts. Models are open as long as the stack is."""
        task, folder, parts = self.task, self.folder, resolved.parts
        tools = {tool.name: tool for tool in self._tools(config, resolved.flow)} | dict(parts.tools)
        flow = parts.expand(resolved.flow, [tool.spec for tool in tools.values()])
        clients, settings = await open_models(stack, resolved.models, flow, folder.repo, self.past)
        # A resumed task keeps what was resolved when the tree was unchanged.
        bounds = ResolvedBoundaries(self.log.state[Workplace].boundaries)
        redact = Redactor(folder.tree, secret_patterns(config), known=known_secrets(config, os.environ))

        def look() -> tuple[ResolvedBoundaries, Bubblewrap | NoSandbox]:
            """At the files, and at what is installed."""
            if not self.past:
                folder.forget_protected(task.id)
            found = bounds if self.past else task_boundaries(folder.tree, config, task)
            redact("")  # reads the values before anything can change the files
            return found, find_sandbox(config, os.environ)

        bounds, sandbox = await asyncio.to_thread(look)
        bubblewrap = None if isinstance(sandbox, NoSandbox) else sandbox
        asked = [(feature, feature.settings and feature.settings(config)) for feature in parts.features]
        features = [feature for feature, found in asked if found or not feature.settings]
        keeping = models_that_keep_lists(resolved.models, config.tools_visibility)
        pinned = await self._pin(config, keeping, [found for _, found in asked if found])
        context = build_context(
            folder,
            config,
            task,
            self.bus,
            redact,
            bounds,
            snapshots=self.snapshots,
            baseline=partial(attrgetter("state.baseline"), self.log),
            proposing=self.proposing,
            bubblewrap=bubblewrap,
            person=self.person,
        )
        if isinstance(context.workspace, OverlayWorkspace):
            self.tree.overlay = context.workspace
        assert isinstance(context.protected, ProtectedTree)
        context.protected.around = self.around
        if not self.past:  # what another task of this name has left, whose store is gone
            context.protected.forget()
        verifier = build_verifier(folder, config, self.bus, bubblewrap)
        job = Job(
            task=task,
            flow=flow,
            parts=Parts(parts.kinds, tools, parts.checks, parts.stage_tools, parts.code, features),
            log=self.log,
            models=Models(clients, settings),
            place=Place(context, verifier, self.tree, redact, self.proposing),
            people=People(self.bus.pulse, lines=partial(self.store.lines, task.id), stopping=self.stopping),
            clock=self.clock,
            pinned=pinned,
        )
        return Prepared(job, config, bounds, sandbox.reason if isinstance(sandbox, NoSandbox) else BUBBLEWRAP)

    def _tools(self, config: Config, flow: Flow) -> tuple[Tool, ...]:
        means = ToolMeans(
            TaskMemory(Memories(self.store), self.task.id, self.clock.now),
            Research(config.research),
            config.skills.places(config.package),
            flow.recipes,
        )
        return tools_for(config, means, proposing=self.proposing)

    async def _pin(
        self, config: Config, keeping_lists: frozenset[str | None], of_features: Sequence[Settings]
    ) -> Pinned:
        """What the configuration says about the loop."""
        return Pinned(
            limits=config.limits,
            agents_md=config.agents_md,
            of_features={type(each): each for each in of_features},
            status_always=config.task_status == "always",
            keeping_lists=keeping_lists,
            tests_closed=(self.task.protect_tests or config.protect_tests) == "all",
            earlier_report=earlier_report(self.store, self.task),
            followed=await find_followed(self.store, self.folder.repo, self.task),
        )

"""When the check is run before the model is asked, and how the two scouts work side by side."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate import run
from headgate.config import ScoutSettings
from headgate.core import (
    Decision,
    Flow,
    Message,
    ModelSettings,
    Note,
    Reply,
    Stage,
    Task,
    VerifyStep,
    expand_flow,
)
from headgate.engine import CHECK_SPECS
from headgate.features.scouts import ScoutReported
from headgate.features.scouts.feature import FEATURE, with_scouts
from headgate.features.scouts.scout import Scout, is_about_checks, present_version
from headgate.features.scouts.tool_versions import NeededTool
from headgate.library.surroundings import NoTree
from headgate.log import Bus, Store, TaskLog
from headgate.models import ScriptedModel
from headgate.tools import ToolContext
from headgate.tree import DiskWorkspace
from jobs import job_of

STEPS = [VerifyStep(name="tests", command="pytest"), VerifyStep(name="unit-tests", command="make")]


@pytest.mark.parametrize(
    "text",
    [
        "test_cart.py fails: total() counts each item once.",
        "Corrige test_total.",
        "Fix this:\nKeyError: 'name'",
        'It says File "cart.py", line 3.',
        "FAILED tests/test_cart.py::test_total",
        "--- FAIL: TestTotal (0.00s)",
        "cart.spec.ts is red",
        "parse() raises ValueError for an empty text.",
        "The Tests fail. Repair them.",
        "Die unit-tests sind rot.",
    ],
)
def test_tasks_that_are_about_the_checks(text: str) -> None:
    assert is_about_checks(text, STEPS)


@pytest.mark.parametrize(
    "text",
    [
        "Make the button red.",
        "Add an error message for wrong passwords.",
        "The latest page should be tested.",
        "Make n 1.",
        "Rename error_count to failures.",
        "",
    ],
)
def test_tasks_that_are_not(text: str) -> None:
    assert not is_about_checks(text, STEPS)


async def test_asking_for_a_version_downloads_none(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text('#!/bin/sh\ntest "$GOTOOLCHAIN" = local && echo go version go1.22.1\n')
    go.chmod(0o755)
    context = SimpleNamespace(
        environment={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        workspace=SimpleNamespace(root=tmp_path),
        sandbox=None,
    )
    job: Any = SimpleNamespace(place=SimpleNamespace(proposing=False, verifier=None, context=context))
    assert await present_version(job, NeededTool("go", ">=1.99", "go.mod")) == "1.22.1"


@dataclass
class Meeting:
    """A tree in which each scout goes on once the other has come as well."""

    tree: DiskWorkspace
    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=20))
    came: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tree, name)

    def files(self, under: str = "") -> Iterator[str]:
        self._meet("Scout A lists the files")
        return self.tree.files(under)

    def exists(self, path: str) -> bool:
        if path == "package.json":
            self._meet("Scout B looks for it")
        return self.tree.exists(path)

    def _meet(self, who: str) -> None:
        if who not in self.came:
            self.came.add(who)
            self.barrier.wait()


async def test_the_scouts_work_at_the_same_time(tmp_path: Path) -> None:
    """Each would wait for the other, if one came after it."""
    repo = tmp_path / "repo"
    repo.mkdir()
    meeting: Any = Meeting(DiskWorkspace(repo))
    model = ScriptedModel([Reply(Message("assistant", text)) for text in ("I look.", "Seen.")])
    flow = Flow(name="one", scouts=("code", "build"), stages=(Stage(id="work", allow_missing_done=True),))
    bus, store, task = Bus(), Store(tmp_path / "headgate.db"), Task(id="t1", text="Look.", goal="Look.")
    try:
        store.add_task(lambda task_id: task, 0.0)
        job = job_of(
            task=task,
            flow=expand_flow(with_scouts(flow, ScoutSettings()), [], CHECK_SPECS),
            kinds=run.KINDS | {kind.name: kind for kind in FEATURE.kinds},
            log=TaskLog(store, bus, task, time.time),
            models={None: model},
            model_settings={None: ModelSettings(model=f"openai/{model.name}")},
            tools={},
            context=ToolContext(workspace=meeting, save_output=lambda text: "saved"),
            verifier=None,
            tree=NoTree(),
            redact=lambda text: text,
            now=time.time,
            sleep=asyncio.sleep,
            pulse=bus.pulse,
        )
        assert await run.run_flow(job) == Decision("advance", "done")
        told = [event.body for event in store.events("t1") if isinstance(event.body, ScoutReported)]
    finally:
        store.close()
    assert sorted(body.scout for body in told) == ["build", "code"]
    assert (len(meeting.came), meeting.barrier.broken) == (2, False)


@pytest.mark.parametrize(("room", "most"), [(200, 900), (None, 4_500)])
def test_what_a_model_found_out_is_cut_to_the_room_there_is(room: float | None, most: int) -> None:
    places = [{"path": f"part_{number}.py", "why": "as it is " * 30} for number in range(8)]
    note = Note(summary="Found.", output={"relevant_files": places})
    job: Any = SimpleNamespace(
        flow=Flow(name="test", stages=(Stage(id="look", label="Scout A"), Stage(id="work"))),
        state=SimpleNamespace(notes={"look": note, "work": note}),
        memory=run.Memory(),
        pinned=run.Pinned(),
    )
    (said,) = Scout().say_facts(job, room)
    assert said.startswith("Scout A says:")
    assert most / 2 < len(said) < most

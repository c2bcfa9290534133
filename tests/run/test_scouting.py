"""When the check is run before the model is asked, and how the two scouts work side by side."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_loop import TASK, make_job

from headgate.config import with_scouts
from headgate.core import Decision, Flow, Message, Reply, ScoutReported, ScoutSettings, Stage, VerifyStep
from headgate.log import Store
from headgate.models import ScriptedModel
from headgate.run import run_flow
from headgate.run.scouting import is_about_checks, present_version
from headgate.scouts import NeededTool
from headgate.tree import DiskWorkspace

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
    flow = Flow(name="one", scouts=("code", "build"), stages=(Stage(id="work", allow_missing_done=True),))
    model = ScriptedModel([Reply(Message("assistant", text)) for text in ("I look.", "Seen.")])
    store = Store(tmp_path / "headgate.db")
    try:
        store.add_task(lambda task_id: TASK, 0.0)
        job = make_job(store, with_scouts(flow, ScoutSettings()), {None: model})
        meeting: Any = Meeting(DiskWorkspace(tmp_path / "repo"))
        job.place.context = replace(job.place.context, workspace=meeting)
        assert await run_flow(job) == Decision("advance", "done")
        told = [event.body for event in store.events("t1") if isinstance(event.body, ScoutReported)]
    finally:
        store.close()
    assert sorted(body.scout for body in told) == ["build", "code"]
    assert (len(meeting.came), meeting.barrier.broken) == (2, False)

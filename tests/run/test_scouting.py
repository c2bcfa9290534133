"""When the check is run before the model is asked, and how the two scouts work side by side."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_loop import TASK, make_job

from headgate.config import with_scouts
from headgate.core import Decision, Flow, Message, Reply, ScoutReported, ScoutSettings, Stage
from headgate.log import Store
from headgate.models import ScriptedModel
from headgate.run import run_flow
from headgate.run.scouting import present_version, says_that_it_fails
from headgate.scouts import NeededTool
from headgate.tree import DiskWorkspace


@pytest.mark.parametrize(
    "text",
    [
        "test_cart.py fails: total() counts each item once.",
        "The tests are red.",
        "total() is wrong for empty carts.",
        "Login crashes with an unknown user.",
        "Fix the bug in the cart.",
        "Fix this:\nKeyError: 'name'",
        'It says File "cart.py", line 3.',
        "FAILED tests/test_cart.py::test_total",
        "Make tests/test_cart.py pass.",
        "Update the documents; the build has been broken since Monday.",
        "parse() raises ValueError for an empty text.",
    ],
)
def test_tasks_that_say_that_something_fails(text: str) -> None:
    assert says_that_it_fails(text)


@pytest.mark.parametrize(
    "text",
    [
        "Make the button red.",
        "Add an error message for wrong passwords.",
        "Show errors in red.",
        "Return an error if the file is missing.",
        "Add retries for failed requests.",
        "Log it when an upload fails.",
        "Add a page that lists broken links. Make sure that all tests pass.",
        "Rename error_count to failures.",
        "Handle errors in parse().",
        "The red line should be thicker.",
        "",
    ],
)
def test_tasks_that_only_speak_of_errors(text: str) -> None:
    assert not says_that_it_fails(text)


@pytest.mark.parametrize("text", ["test " * 20_000, "make " * 20_000, "a" * 100_000, 'File "' * 20_000])
def test_long_tasks_are_read_at_once(text: str) -> None:
    began = time.process_time()
    says_that_it_fails(text)
    assert time.process_time() - began < 2


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

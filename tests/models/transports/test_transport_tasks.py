"""Whole tasks over each transport, with a real engine and a real server: all of them end the same way."""

import asyncio
import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from local_model_server import Body, Habits, calling

from headgate.config import load_config
from headgate.core import Constraints, Event, ReplyFailed, ViewCompacted
from headgate.engine import Engine
from headgate.log import Report
from headgate.models.server_facts import TOOL
from launcher import run_headgate

Steps = list[tuple[str, dict[str, Any]]]
EDIT: Steps = [
    ("read_file", {"path": "calc.py"}),
    ("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}),
    ("stage_done", {"summary": "It adds now."}),
]


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    for number in range(12):
        (folder / f"part{number}.txt").write_text(f"Line of part {number}.\n" * 180)
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-q", "-m", "start")):
        subprocess.run(["git", *command], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    return folder


def say(form: str, name: str, arguments: dict[str, Any]) -> Body:
    call = {"name": name, "arguments": arguments}
    match form:
        case "native":
            return calling(name, **arguments)
        case "text":
            return {"content": f"I go on.\n<tool_call>{json.dumps(call)}</tool_call>"}
    return {"content": json.dumps({"thought": "I go on.", **call})}


class Worker:
    """A model that takes one step after another, in one form of calls, and knows a probe when it sees one."""

    def __init__(self, form: str, steps: Steps) -> None:
        self.form = form
        self.steps = list(steps)

    def __call__(self, body: Body) -> Body:
        first = body["messages"][0]["content"]
        if TOOL.name in first:
            return say("text" if self.form == "schema" else self.form, TOOL.name, {"ok": True})
        return say(self.form, *self.steps.pop(0))


async def work(
    repo: Path, habits: Habits, top: dict[str, Any] | None = None, **model: Any
) -> tuple[Report, list[Event]]:
    async with habits.running() as server:
        settings = {"model": "openai/m", "base_url": server.url, **model}
        (repo / "agent.yaml").write_text(json.dumps({"models": {"w": settings}, "model": "w", **(top or {})}))
        loaded = load_config(
            repo,
            environ={},
            flags={} if "flow" in (top or {}) else {"flow": "flat"},
            user_file=repo.parent / "none.yaml",
        )
        engine = Engine.open(repo, loaded)
        events: list[Event] = []
        engine.bus.on_event.append(events.append)
        try:
            return await engine.run(engine.submit("Mend add.", Constraints())), events
        finally:
            engine.store.close()


@pytest.mark.parametrize(
    ("form", "transport", "requests"),
    [
        ("native", "native", 3),
        ("text", "text", 3),
        ("schema", "schema", 3),
        ("native", "auto", 4),
        ("text", "auto", 4),
        ("native", None, 3),
    ],
)
async def test_a_task_is_done_over_each(repo: Path, form: str, transport: str | None, requests: int) -> None:
    habits = Habits(Worker(form, EDIT))
    report, _ = await work(repo, habits, tool_transport=transport)
    assert report.state == "SUCCESS"
    assert (repo / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert len(habits.asked) == requests
    assert report.requests == 3
    assert ("tools" in habits.asked[-1]) == (form == "native")


@pytest.mark.parametrize("visibility", ["stable", "hidden", "auto"])
async def test_with_a_form_the_tools_are_told_when_they_open_and_only_those_of_the_stage_fit(
    repo: Path, visibility: str
) -> None:
    steps: Steps = [
        ("read_file", {"path": "calc.py"}),
        ("stage_done", {"summary": "Seen."}),
        ("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}),
    ]
    habits = Habits(Worker("schema", steps))
    stages = [
        {"id": "look", "tools_allow": ["read"]},
        {"id": "mend", "advance": "rules", "checks": ["code_changed"]},
    ]
    top = {"flow": stages, "tools_visibility": visibility}
    report, _ = await work(repo, habits, top, tool_transport="schema")
    assert report.state == "SUCCESS"
    assert ["edit_file" in body["messages"][0]["content"] for body in habits.asked] == [False, False, True]
    fitting = [json.dumps(body["response_format"]) for body in habits.asked]
    assert ["edit_file" in form for form in fitting] == [False, False, True]


@pytest.mark.parametrize("form", ["schema", "text"])
async def test_the_next_stage_of_a_conversation_leaves_its_beginning_as_it_is(repo: Path, form: str) -> None:
    steps: Steps = [
        ("read_file", {"path": "calc.py"}),
        ("stage_done", {"summary": "Seen."}),
        ("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}),
    ]
    habits = Habits(Worker(form, steps))
    shared = {"view": {"transcript": "parent"}}
    stages = [
        {"id": "look", "tools_allow": ["read"], **shared},
        {"id": "mend", "prompt": "Mend it.", "advance": "rules", "checks": ["code_changed"], **shared},
    ]
    report, _ = await work(repo, habits, {"flow": stages}, tool_transport=form)
    assert report.state == "SUCCESS"
    told = [body["messages"] for body in habits.asked]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(told))
    assert ["- edit_file(" in json.dumps(messages) for messages in told] == [False, False, True]
    result, _, stage = told[-1][-1]["content"].partition("Only these tools now: ")
    assert result.startswith("<tool_response")
    assert stage.endswith("Stage: MEND\nMend it.")


STAGED: Steps = [
    ("write_file", {"path": "n.txt", "content": "Too early."}),
    ("read_file", {"path": "calc.py"}),
    (
        "agent__task_status",
        {
            "status": "in-progress",
            "done": "Seen.",
            "pending": "All.",
            "now": "Report.",
            "ready_for_final_report": False,
            "need_to_run_more_tools": False,
        },
    ),
    ("stage_done", {"summary": "Seen."}),
    ("plan_tasks", {"action": "create", "tasks": [{"id": "1", "description": "Mend add."}]}),
    ("edit_file", {"path": "calc.py", "old": "a - b", "new": "a * b"}),
    ("stage_done", {"summary": "Mended."}),
    ("stage_done", {"summary": "I cannot."}),
    ("stage_done", {"summary": "I cannot."}),
]
"""A closed tool, a final turn, two changes of stage, and no mending: the task ends with a question."""
NEVER = {"steps": [{"name": "check", "command": "grep -q 'a + b' calc.py", "timeout": 60}]}


class Questioned(Worker):
    """Such a model, which has hypotheses when it is asked for them, and calls nothing."""

    def __call__(self, body: Body) -> Body:
        return super().__call__(body) if self.steps else {"content": "The sign is wrong."}


async def test_a_server_of_ones_own_is_sent_a_whole_task_without_a_change_of_what_it_has_read(
    repo: Path,
) -> None:
    habits = Habits(Questioned("native", STAGED))
    top = {"flow": "staged", "verification": NEVER}
    report, _ = await work(repo, habits, top)
    assert (report.state, report.requests, len(habits.asked)) == ("STUCK", 10, 10)
    assert report.feedback_counts["denied"] == 1
    assert len({json.dumps(body["tools"]) for body in habits.asked}) == 1
    told = [body["messages"] for body in habits.asked]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(told))
    assert [body.get("tool_choice") for body in habits.asked] == [None] * 9 + ["none"]


async def test_a_model_that_calls_a_tool_instead_of_answering_is_asked_without_any(repo: Path) -> None:
    steps = [*STAGED, ("read_file", {"path": "calc.py"})]
    habits = Habits(Questioned("native", steps))
    report, _ = await work(repo, habits, {"flow": "staged", "verification": NEVER})
    assert (report.state, report.requests) == ("STUCK", 11)
    assert ["tools" in body for body in habits.asked] == [True] * 10 + [False]
    assert "The sign is wrong." in report.hypotheses


async def test_after_a_crash_the_list_is_the_same(repo: Path) -> None:
    steps: Steps = [
        ("read_file", {"path": "calc.py"}),
        ("stage_done", {"summary": "Seen."}),
        ("shell", {"command": "kill -9 $PPID; sleep 300"}),
        ("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}),
        ("stage_done", {"summary": "Mended."}),
    ]
    shared = {"view": {"transcript": "parent"}}
    stages = [
        {"id": "look", "tools_allow": ["read"], **shared},
        {"id": "mend", "tools_allow": ["read", "write", "shell"], **shared},
    ]
    habits = Habits(Worker("native", steps))
    async with habits.running() as server:
        config = {"model": "openai/m", "base_url": server.url, "flow": stages, "sandbox": "off"}
        (repo / "agent.yaml").write_text(json.dumps(config))
        kept = {name: os.environ[name] for name in ("PATH", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
        environment = {**kept, "HOME": str(repo.parent)}
        killed = await asyncio.to_thread(run_headgate, ["run", "Mend add."], repo, environment)
        assert killed.returncode == -9, killed.stderr
        engine = Engine.open(repo)
        try:
            await engine.drain()
            assert engine.store.tasks()[0].state == "SUCCESS"
        finally:
            engine.store.close()
    assert len(habits.asked) == len(steps)
    assert len({json.dumps(body["tools"]) for body in habits.asked}) == 1
    told = [body["messages"] for body in habits.asked]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(told))


async def test_the_key_at_the_top_is_for_models_that_do_not_say_so(repo: Path) -> None:
    habits = Habits(Worker("text", EDIT))
    report, _ = await work(repo, habits, {"tool_transport": "text"})
    assert (report.state, len(habits.asked)) == ("SUCCESS", 3)
    (repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    habits = Habits(Worker("native", EDIT))
    report, _ = await work(repo, habits, {"tool_transport": "text"}, tool_transport="native")
    assert (report.state, len(habits.asked)) == ("SUCCESS", 3)
    assert "tools" in habits.asked[0]


async def test_a_request_that_would_not_fit_is_cut_before_it_is_sent(repo: Path) -> None:
    window = 8192
    too_long: list[int] = []

    def refuse(body: Body) -> str | None:
        tokens = len(json.dumps([body["messages"], body.get("tools", [])])) // 4
        if tokens > window:
            too_long.append(tokens)
            return "the request exceeds the available context size"
        return None

    reads: Steps = [("read_file", {"path": f"part{number}.txt"}) for number in range(12)]
    pages = {
        "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]},
        "/props": {"default_generation_settings": {"n_ctx": window}},
    }
    habits = Habits(Worker("native", reads + EDIT), pages, refuse=refuse)
    report, events = await work(repo, habits, tool_transport="auto")
    assert report.state == "SUCCESS"
    assert too_long == []
    assert not [event for event in events if isinstance(event.body, ReplyFailed)]
    cuts = [event.body.reason for event in events if isinstance(event.body, ViewCompacted)]
    assert cuts
    assert set(cuts) == {"window"}
    # Unless it is told to ask first, the same task runs into the limit once, and asks then.
    (repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    habits = Habits(Worker("native", reads + EDIT), pages, refuse=refuse)
    report, events = await work(repo, habits)
    assert report.state == "SUCCESS"
    assert len(too_long) == 1
    cuts = [event.body.reason for event in events if isinstance(event.body, ViewCompacted)]
    assert cuts[0] == "context"
    assert set(cuts[1:]) == {"window"}

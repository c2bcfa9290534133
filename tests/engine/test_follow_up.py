"""Follow-ups of tasks that ended in every way, and lines that come at the last moment."""

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headgate.core import (
    Constraints,
    Event,
    Message,
    Options,
    Reply,
    Request,
    TaskEnded,
    TaskState,
    ToolCall,
    Usage,
)
from headgate.engine import Engine
from headgate.errors import ConfigError
from headgate.log import Draft, Store

SECRET = "hunter2hunter2"


@dataclass
class Writer:
    """A model that writes one file and says that it is done."""

    text: str = "1\n"
    name: str = "writer"
    requests: list[Request] = field(default_factory=list)
    closing: str = "It is written."

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.requests.append(request)
        calls = (
            ToolCall("c1", "write_file", f'{{"path": "n.txt", "content": {self.text!r}}}'.replace("'", '"')),
            ToolCall("c2", "stage_done", f'{{"summary": "{self.closing}"}}'),
        )
        return Reply(Message("assistant", "", calls), Usage(10, 1), "calls")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    (path / "agent.yaml").write_text("task_flow_mode: flat\nscouts: {code: 'off', build: 'off'}\n")
    (path / "n.txt").write_text("0\n")
    (path / ".env").write_text(f"PASSWORD={SECRET}\n")
    (path / ".gitignore").write_text(".env\n")
    return path


@pytest.fixture
def model() -> Writer:
    return Writer()


@pytest.fixture
def engine(repo: Path, model: Writer) -> Iterator[Engine]:
    opened = Engine.open(repo, models={None: model})
    yield opened
    opened.store.close()


def opening(model: Writer) -> str:
    return model.requests[-1].messages[1].content


async def run(engine: Engine, text: str, **options: Any) -> TaskState:
    report = await engine.run(engine.submit(text, Constraints(), Options(**options)))
    return report.state


async def test_of_a_success(engine: Engine, model: Writer) -> None:
    assert await run(engine, f"Write it with {SECRET}.\n\nConstraints: stay small") == "SUCCESS"
    notices: list[str] = []
    engine.on_notice = notices.append
    model.text = "2\n"
    assert await run(engine, "More.", follows="T1".lower()) == "SUCCESS"
    assert notices == [
        "The constraints of task t1 hold for this one, too: Constraints (must be preserved): - stay small."
    ]
    told = opening(model)
    assert told.startswith("Task:\nMore.\n\nConstraints (must be preserved):\n- stay small")
    assert "Request:\nWrite it with [redacted]." in told
    assert SECRET not in told
    assert "It succeeded. Its changes were left in the working tree" in told
    assert "- work: It is written." in told
    assert "-0\n+1\n" in told


async def test_of_a_cancelled_task(engine: Engine, model: Writer) -> None:
    def cancel(event: Event) -> None:
        if event.kind == "tool_finished" and event.task == "t1":
            engine.cancel("t1")

    engine.bus.on_event.append(cancel)
    assert await run(engine, "Write it.") == "CANCELLED"
    assert await run(engine, "Finish it.", follows="t1") == "SUCCESS"
    assert "How it ended:\nThe user cancelled it. Its changes were left" in opening(model)
    assert "-0\n+1\n" in opening(model)


async def test_of_a_discarded_proposal(engine: Engine, model: Writer) -> None:
    assert await run(engine, "Write it.", dry_run=True) == "PROPOSED"
    await engine.abort("t1")
    assert await run(engine, "Write another.", follows="t1") == "SUCCESS"
    assert "The user discarded its proposal: the working tree does not contain it." in opening(model)
    assert "Its diff" not in opening(model)


async def test_a_huge_diff_and_a_long_conversation_are_cut(engine: Engine, model: Writer) -> None:
    model.text = "x" * 400_000
    assert await run(engine, "Fill it. " + "y" * 80_000) == "SUCCESS"
    for number in range(1, 14):
        model.text = f"{number}"
        assert await run(engine, f"Step {number}.", follows=f"t{number}") == "SUCCESS"
    told = opening(model)
    assert len(told) < 60_000
    assert "Requests before it:\n- t3: Step 2.\n- t4: Step 3.\n" in told
    assert "t2: Step 1." not in told


async def test_a_retry_of_a_follow_up_knows_both(engine: Engine, model: Writer) -> None:
    assert await run(engine, "Write it.") == "SUCCESS"
    follow = engine.submit("Go on.", Constraints(), Options(follows="t1"))
    engine.store.claim()
    engine.cancel(follow.id)
    await engine.settle_cancelled()
    again = engine.retry(follow.id, Constraints(), Options())
    assert (again.follows, again.resumes) == ("t1", "t2")
    await engine.run(again)
    assert "An earlier attempt at this task" in opening(model)
    assert "Request:\nWrite it." in opening(model)


async def test_what_is_gone_or_has_not_ended_is_not_followed(engine: Engine) -> None:
    engine.submit("Write it.", Constraints())
    for name, problem in (("t1", "has not ended"), ("t9", "no task"), ("nonsense", "no task")):
        with pytest.raises(ConfigError, match=problem):
            engine.submit("Go on.", Constraints(), Options(follows=name))
    assert len(engine.store.tasks()) == 1


class LateStore(Store):
    """A store in which a person says something while the end of the task is on its way to it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.late = ["Wait.", "Stop!"]

    def append(self, task: str, drafts: Sequence[Draft], *given: Any, **more: Any) -> Any:
        if self.late and any(isinstance(draft.body, TaskEnded) for draft in drafts):
            assert self.say(task, self.late.pop(0), 0.0)
        return super().append(task, drafts, *given, **more)


async def test_a_line_that_comes_while_the_task_ends_is_reported(engine: Engine) -> None:
    engine.store.close()
    engine.store = LateStore(engine.folder.database)
    report = await engine.run(engine.submit("Write it.", Constraints()))
    assert (report.state, report.unread) == ("SUCCESS", ("Wait.", "Stop!"))
    assert 'Said too late, so the model did not read it: "Wait"; "Stop!".' in report.summary
    assert [event.kind for event in engine.store.events("t1")].count("task_ended") == 1
    assert not engine.say("t1", "Too late.")


async def test_a_line_to_a_proposal_that_waits_to_be_applied_is_not_lost(engine: Engine) -> None:
    assert await run(engine, "Write it.", dry_run=True) == "PROPOSED"
    assert not engine.say("t1", "No.")
    await engine.apply("t1")
    assert engine.say("t1", f"Not yet, {SECRET}.")
    assert engine.cancel("t1") == "returned"
    await engine.abort("t1")
    ended = [event.body for event in engine.store.events("t1") if isinstance(event.body, TaskEnded)]
    assert [body.unread for body in ended] == [("Not yet, [redacted].",)]


async def test_a_line_to_a_task_that_nobody_runs_any_more_is_reported(engine: Engine) -> None:
    engine.submit("Write it.", Constraints())
    engine.store.claim()
    assert engine.say("t1", f"It is {SECRET}.")
    engine.cancel("t1")
    await engine.settle_cancelled()
    ended = [event.body for event in engine.store.events("t1") if isinstance(event.body, TaskEnded)]
    assert [(body.state, body.unread) for body in ended] == [("CANCELLED", ("It is [redacted].",))]


async def test_concluding_here_takes_effect_at_once(engine: Engine) -> None:
    asked = asyncio.Event()

    def stop(event: Event) -> None:
        if event.kind == "reply_received" and not asked.is_set():
            asked.set()
            assert engine.conclude("t1")

    engine.bus.on_event.append(stop)
    report = await engine.run(engine.submit("Write it.", Constraints()))
    assert (report.state, asked.is_set()) == ("SUCCESS", True)
    assert not engine.conclude("t1")

"""A crash at every point of a run that asks for whole answers: nothing is lost, nothing written twice."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from repair_runs import Case

from crashing_store import Crash, CrashingStore
from headgate.core import (
    Budget,
    Calls,
    Candidates,
    CandidateTried,
    Decision,
    Event,
    Flow,
    Message,
    Reply,
    ReplyReceived,
    Request,
    Stage,
    Task,
    ToolStarted,
    Usage,
    fold,
)
from headgate.log import Store

TASK = Task(id="t1", text="Make n 4.", goal="Make n 4.")
FLOW = Flow(
    name="answers",
    begin="verify",
    stages=(
        Stage(
            id="first",
            when="suspects",
            prompt="Write {path} anew.",
            candidates=Candidates(ask="file"),
            budget=Budget(turns=2, retries=0, exhausted="skip"),
        ),
        Stage(
            id="second",
            when="suspects",
            prompt="Write {path} once more.",
            candidates=Candidates(ask="file", temperature=0.8),
            budget=Budget(turns=3, retries=0, exhausted="fail"),
        ),
    ),
    checks={"verify": True},
)
ANSWERS = ["echo 0", "```sh\necho 1\n```", "  echo 1", "```sh\necho 4\n```", "echo 5", "Something broke it."]
VERDICTS = ["unchanged", "failed", "repeated", "passed"]
CHECK = 'test ! -e broken && test "$(sh calc.sh)" = 4 || { echo "calc.sh:1: not 4"; exit 1; }'


@dataclass
class Answering:
    """A model whose answer follows from how many were committed before: as if it had no memory of its own."""

    store: Store
    name: str = "answering"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        assert request.tools == ()
        assert [message.role for message in request.messages] == ["system", "user"]
        given = sum(isinstance(event.body, ReplyReceived) for event in self.store.events("t1"))
        return Reply(Message("assistant", ANSWERS[given]), Usage(10, 1))


CASE = Case(FLOW, {"calc.sh": "echo 0\n"}, CHECK, Answering, task=TASK)


@dataclass
class Result:
    """What must be the same with and without a crash."""

    decision: Decision
    disk: str
    verdicts: list[str]
    endings: dict[str, str | None]
    replies: int


def result(decision: Decision, store: Store) -> Result:
    events = store.events("t1")
    state = fold(events)
    return Result(
        decision,
        (store.path.parent / "repo" / "calc.sh").read_text(),
        [event.body.verdict for event in events if isinstance(event.body, CandidateTried)],
        {path: entered.ending for path, entered in state.nodes.items() if entered.is_announced},
        state.accounts.replies,
    )


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
def test_a_crash_at_every_sort_of_commit(
    tmp_path: Path, before: bool, record_property: Callable[[str, object], None]
) -> None:
    with CASE.place(tmp_path / "whole") as store:
        counter = CrashingStore(store, commits=-1, before=before)
        whole = result(asyncio.run(CASE.start(store, counter)), store)
        points = counter.points()
    assert whole == Result(
        Decision("advance", "done"),
        "echo 4\n",
        VERDICTS,
        {"first": "skipped", "second": "completed"},
        len(VERDICTS),
    )
    for number in points:
        with CASE.place(tmp_path / f"{number}") as store:
            with pytest.raises(Crash):
                asyncio.run(CASE.start(store, CrashingStore(store, number, before)))
            decision, job = asyncio.run(CASE.take_up(store))
            assert result(decision, store) == whole, f"crashed at commit {number}"
            assert job.place.context.workspace.read("calc.sh").text == "echo 4\n"
            assert not job.state[Calls].open
            assert all(not transcript.messages for transcript in job.memory.transcripts.values())
            starts = [event for event in store.events("t1") if isinstance(event.body, ToolStarted)]
            assert len(starts) <= 2
    record_property("crash: commits of whole answers cut short", len(points))


class DyingAtTheWrite(CrashingStore):
    """Dies when it is on record what is about to be written, and nothing has been."""

    async def _append(self, *args: Any, **options: Any) -> list[Event]:
        events = await self.store.append(*args, **options)
        if any(isinstance(event.body, ToolStarted) for event in events):
            raise Crash
        return events


def test_somebody_changes_the_file_between_the_crash_and_the_next_run(tmp_path: Path) -> None:
    with CASE.place(tmp_path) as store:
        with pytest.raises(Crash):
            asyncio.run(CASE.start(store, DyingAtTheWrite(store, -1, before=False)))
        file = tmp_path / "repo" / "calc.sh"
        assert file.read_text() == "echo 0\n"
        file.write_text("# mine\necho 0\n")
        decision, job = asyncio.run(CASE.take_up(store))
        assert decision == Decision("advance", "done")
        assert file.read_text() == "echo 4\n"
        assert job.state.accounts.replies == len(VERDICTS)


def test_an_answer_that_no_longer_passes_is_not_written(tmp_path: Path) -> None:
    with CASE.place(tmp_path) as store:
        with pytest.raises(Crash):
            asyncio.run(CASE.start(store, DyingAtTheWrite(store, -1, before=False)))
        file = tmp_path / "repo" / "calc.sh"
        (tmp_path / "repo" / "broken").touch()
        decision, job = asyncio.run(CASE.take_up(store))
        assert decision.action == "stuck"
        assert file.read_text() == "echo 0\n"
        assert not job.state[Calls].open

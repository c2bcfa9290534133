"""A crash at every commit of a run that tries small changes: the same change is written, once."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from repair_runs import MUTATED, SOURCE, TEST, Case, mutate_flow

from crashing_store import Crash, CrashingStore
from headgate.core import (
    Calls,
    CandidateTried,
    Decision,
    Message,
    Reply,
    Request,
    ToolFinished,
    ToolStarted,
    Usage,
)

FLOW = mutate_flow("Which? {changes}", trials=4)


@dataclass
class Choosing:
    """Always chooses the first."""

    name: str = "choosing"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        assert request.tools == ()
        return Reply(Message("assistant", "1"), Usage(10, 1))


CASE = Case(FLOW, {"cart.py": SOURCE, "test_cart.py": TEST}, "python3 -m unittest", lambda store: Choosing())


def test_a_crash_after_every_other_sort_of_commit(tmp_path: Path) -> None:
    with CASE.place(tmp_path / "whole") as store:
        counter = CrashingStore(store, commits=-1, before=False)
        assert asyncio.run(CASE.start(store, counter)) == Decision("advance", "done")
        assert (tmp_path / "whole" / "repo" / "cart.py").read_text() == MUTATED
    for number in counter.points()[::2]:  # each of them measures which lines run
        with CASE.place(tmp_path / f"{number}") as store:
            with pytest.raises(Crash):
                asyncio.run(CASE.start(store, CrashingStore(store, number, before=False)))
            decision, job = asyncio.run(CASE.take_up(store))
            assert decision == Decision("advance", "done"), f"crashed at commit {number}"
            assert (tmp_path / f"{number}" / "repo" / "cart.py").read_text() == MUTATED
            assert not job.state[Calls].open
            bodies = [event.body for event in store.events("t1")]
            (tried,) = [body for body in bodies if isinstance(body, CandidateTried)]
            assert (tried.verdict, tried.origin) == ("passed", "mutation")
            assert len([body for body in bodies if isinstance(body, ToolStarted)]) <= 2
            assert [body.ok for body in bodies if isinstance(body, ToolFinished)][-1]

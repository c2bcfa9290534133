"""Stages that do not run, each with its reason, and the wait before an attempt is repeated."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_groups import TASK, Counter, Ran, count, make_job, plain_kind, run

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.core import Decision, DecisionMade, Note, Situation, StageSkipped, fold
from headgate.engine import detail_lines
from headgate.log import Bus, Folder, Store, TaskLog
from headgate.run import StageEnd, StageRun, restore, run_flow


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with fresh_store(tmp_path / "store", TASK) as opened:
        yield opened


def skipped(ran: Ran) -> dict[str, str]:
    """Why each stage did not run, by path."""
    bodies = [(event.path, event.body) for event in ran.events if isinstance(event.body, StageSkipped)]
    assert len(bodies) == len(dict(bodies))
    return {path: body.reason for path, body in bodies}


async def test_a_condition_that_does_not_hold_is_a_reason(store: Store) -> None:
    ran = await run(store, count("a"), count("b", when="a.failed"), count("c", needs=["b"]))
    assert ran.ended == ["a completed", "c completed"]
    assert skipped(ran) == {"b": "condition"}


async def test_a_stage_can_be_skipped_with_what_it_needs(store: Store) -> None:
    ran = await run(
        store,
        count("a"),
        count("b", when="a.failed"),
        count("c", needs=["b"], on_skip="skip"),
        count("d", needs=["c"], on_skip="skip"),
        count("e", needs=["d"]),
    )
    assert ran.ended == ["a completed", "e completed"]
    assert skipped(ran) == {"b": "condition", "c": "on_skip", "d": "on_skip"}


async def test_what_needs_a_failed_stage_is_told_so(store: Store) -> None:
    ran = await run(
        store,
        count("a", 9, required=False),
        count("b", needs=["a"], required=False),
        count("c", needs=["b"], required=False),
        count("d", needs=["*"]),
    )
    assert ran.ended == ["a failed", "d completed", "b skipped", "c skipped"]
    assert skipped(ran) == {"b": "needs: a failed", "c": "needs: b unmet"}


async def test_siblings_of_the_first_that_completes(store: Store) -> None:
    inner = {"id": "c", "stages": [count("x"), count("y")]}
    group = {"id": "one-of", "join": "any", "stages": [count("a"), count("b"), inner]}
    ran = await run(store, group)
    assert skipped(ran) == dict.fromkeys(["one-of/b", "one-of/c", "one-of/c/x", "one-of/c/y"], "join_any")


async def test_what_a_failed_flow_does_not_reach(store: Store) -> None:
    inner = {"id": "group", "stages": [count("a", 9), count("b")]}
    ran = await run(store, inner, count("last", needs=["group"]))
    assert ran.decision == Decision("stuck", "stage_failed", 'Stage "a" did not complete: a fails.')
    assert skipped(ran) == {"group/b": "failed: a", "last": "stage_failed"}


async def test_rounds_of_the_runtime_leave_nothing_in_the_log(store: Store) -> None:
    group = {
        "id": "loop",
        "repeat": {"until": "check.passed", "max": 5},
        "stages": [count("again", when="again"), count("check", 1)],
    }
    assert skipped(await run(store, group)) == {}


GIVES_UP = {"id": "a", "kind": "give_up"}


@pytest.mark.parametrize(
    ("on_skip", "expected"),
    [
        ("run", (["a skipped", "b completed"], {})),
        ("skip", (["a skipped"], {"b": "on_skip"})),
        (None, (["a skipped", "b skipped"], {"b": "needs: a skipped"})),
    ],
)
async def test_a_stage_that_its_budget_gave_up(store: Store, on_skip: str | None, expected: Any) -> None:
    async def give_up(run: StageRun) -> StageEnd:
        return StageEnd(Decision("skip", "max_turns"))

    fields = {"on_skip": on_skip} if on_skip else {}
    stages = [GIVES_UP, count("b", needs=["a"], required=False, **fields)]
    job = make_job(store, stages, Counter(), TaskLog(store, Bus(), TASK, lambda: 0.0))
    job.parts.kinds = {**job.parts.kinds, "give_up": plain_kind("give_up", give_up)}
    ran = Ran(await run_flow(job), store.events("t1"), [])
    assert (ran.ended, skipped(ran)) == expected


@dataclass
class Clock:
    """A clock that moves only when somebody sleeps."""

    time: float = 1_000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


async def _fail_three_times(run: StageRun) -> StageEnd:
    await run.job.log.commit()
    retry = run.state.counts.attempts <= run.stage.budget.retries
    return StageEnd(Decision("retry" if retry else "fail", "not_yet"))


def retrying(store: Store, log: TaskLog, clock: Clock, backoff: str) -> Any:
    stage = {"id": "a", "kind": "retrying", "max_retries": 3, "retry_backoff": backoff}
    job = make_job(store, [stage], Counter(), log)
    job.parts.kinds = {**job.parts.kinds, "retrying": plain_kind("retrying", _fail_three_times)}
    job.clock.now, job.clock.sleep = clock.now, clock.sleep
    return job


@pytest.mark.parametrize(
    ("backoff", "waits"), [("none", []), ("linear", [1, 2, 3]), ("exponential", [1, 2, 4])]
)
async def test_attempts_wait_for_each_other(store: Store, backoff: str, waits: list[float]) -> None:
    clock = Clock()
    await run_flow(retrying(store, TaskLog(store, Bus(), TASK, clock.now), clock, backoff))
    assert clock.slept == waits
    said = [event.body for event in store.events("t1") if isinstance(event.body, DecisionMade)]
    assert [body.seconds for body in said if body.action == "wait"] == waits


async def test_a_wait_outlives_a_crash(tmp_path: Path) -> None:
    """Wherever the crash comes, the attempts are as far apart as they would have been."""
    commits, crashed = 0, True
    while crashed:
        commits += 1
        with fresh_store(tmp_path / str(commits), TASK) as other:
            clock = Clock()
            crashing: Any = CrashingStore(other, commits, before=False)
            try:
                await run_flow(
                    retrying(other, TaskLog(crashing, Bus(), TASK, clock.now), clock, "exponential")
                )
                crashed = False
            except Crash:
                clock.time += 0.25
            log = TaskLog(other, Bus(), TASK, clock.now)
            log.state = fold(other.events("t1"))
            job = retrying(other, log, clock, "exponential")
            restore(job, other.events("t1"), other.contents("t1"))
            await run_flow(job)
            started = [node.counts.started_at for node in log.state.nodes.values()]
            ended = [
                event.at
                for event in other.events("t1")
                if isinstance(event.body, DecisionMade) and event.body.action == "wait"
            ]
            waited = [after - before for before, after in zip(ended, started[1:], strict=True)]
            assert waited == [1, 2, 4]
    assert commits > 6


async def _give_output(run: StageRun) -> StageEnd:
    await run.job.log.commit()
    return StageEnd(Decision("advance", "done"), Note(output=run.stage.settings))


def with_output(name: str, output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": name, "kind": "output", "output": output, **fields}


def output_job(store: Store, *stages: dict[str, Any]) -> Any:
    job = make_job(store, list(stages), Counter(), TaskLog(store, Bus(), TASK, lambda: 0.0))
    job.parts.kinds = {**job.parts.kinds, "output": plain_kind("output", _give_output)}
    return job


async def test_conditions_look_at_results(store: Store) -> None:
    job = output_job(
        store,
        count("good", when="results.look.feeling == 'good' and results.look.sure > 0.5"),
        count("bad", when="results.look.feeling == 'bad'"),
        with_output("look", {"feeling": "good", "sure": 0.9}),
        {"id": "group", "stages": [count("deep", when="results.look.sure > 0.8")]},
        count("after", when="results.deep.x"),
    )
    ran = Ran(await run_flow(job), store.events("t1"), [])
    assert ran.ended == ["look completed", "good completed", "group/deep completed"]
    assert skipped(ran) == {"bad": "condition", "after": "condition"}


async def test_conditions_can_be_functions(store: Store) -> None:
    job = output_job(
        store,
        with_output("look", {"feeling": "good"}),
        count("good", when="code:good", needs=["look"]),
        count("bad", when="code:local:bad", needs=["look"]),
        count("last", needs=["*"]),
    )
    seen: list[Any] = []

    async def bad(situation: Situation) -> bool:
        return situation.results["look"]["feeling"] == "bad"

    def good(situation: Situation) -> bool:
        seen.append(situation)
        return situation.results["look"]["feeling"] == "good"

    job.parts.code = {"good": good, "local:bad": bad}
    ran = Ran(await run_flow(job), store.events("t1"), [])
    assert ran.ended == ["look completed", "good completed", "last completed"]
    assert skipped(ran) == {"bad": "condition"}
    statuses = {"look": "completed", "good": "pending", "bad": "pending", "last": "pending"}
    results = {"look": {"feeling": "good"}, "good": None, "bad": None, "last": None}
    assert seen == [Situation(results, {}, statuses)]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ({}, 'The condition of the stage "a" cannot be asked: there is no function "f".'),
        ({"f": lambda situation: 1 / 0}, 'The condition of the stage "a" failed: ZeroDivisionError:'),
    ],
)
async def test_a_condition_that_cannot_be_asked_ends_the_flow(store: Store, code: Any, said: str) -> None:
    job = output_job(store, count("a", when="code:f"))
    job.parts.code = code
    decision = await run_flow(job)
    assert (decision.action, decision.reason) == ("stuck", "condition_failed")
    assert decision.detail.startswith(said)


async def test_people_see_why_a_stage_did_not_run(store: Store) -> None:
    ran = await run(store, count("a"), count("b", when="a.failed"))
    folder = Folder(store.path.parent)
    lines = [line for event in ran.events for line in detail_lines(event, "", folder)]
    assert lines == ["  b: not run (condition)"]
    state = fold(ran.events)
    skips = [event for event in ran.events if isinstance(event.body, StageSkipped)]
    assert [event.line(state) for event in skips] == [None]

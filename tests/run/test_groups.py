"""The tree of stages: groups, rounds, conditions and joins, with a kind of stage that only this file knows.

The kind needs no model. Nothing in the loop, the rules, the state or the events was changed for it.
"""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import count as count_from
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.config import load_config
from headgate.core import (
    Constraints,
    Data,
    Decision,
    Event,
    Flow,
    ModelSettings,
    Note,
    Role,
    Stage,
    StageEnded,
    StageStarted,
    Task,
    expand_flow,
    flow_problems,
    fold,
)
from headgate.engine import KINDS, Engine, FlowParts
from headgate.errors import ConfigError
from headgate.library.surroundings import NoTree
from headgate.log import Bus, Store, TaskLog
from headgate.models import ScriptedModel
from headgate.run import Entrance, Job, Judge, Kind, StageEnd, StageRun, restore, run_flow
from headgate.tools import ToolContext
from headgate.tree import DiskWorkspace
from jobs import job_of

TASK = Task(id="t1", text="Count.", goal="Count.")


class CountSettings(Data):
    """Fails so often before it passes."""

    fails: int = 0


@dataclass
class Counter:
    """The kind `count`: a stage that fails a number of times, and then passes."""

    told: list[str] = field(default_factory=list)
    """What each attempt was told, in order."""

    async def run(self, run: StageRun) -> StageEnd:
        settings = CountSettings.model_validate(run.stage.settings)
        await run.job.log.commit()
        self.told.append(f"{run.path}: {run.entrance.reason} {run.entrance.message}".rstrip())
        if run.job.state.tree.attempts_at(run.stage.id) <= settings.fails:
            return StageEnd(Decision("fail", "not_yet", f"{run.stage.id} fails"))
        return StageEnd(Decision("advance", "done"), Note(summary=f"{run.stage.id} is done"))

    @property
    def kind(self) -> Kind:
        counting = self

        class Counting(Judge):
            name = "count"
            settings = CountSettings
            roles = frozenset[Role]({"receives_failures", "sends_back"})

            async def run(self, run: StageRun) -> StageEnd:
                return await counting.run(run)

            def send_back(self, job: Job, stage: Stage) -> Entrance:
                return Entrance("check_failed", f"{stage.id} failed")

        return Counting()


def plain_kind(name: str, run: Callable[[StageRun], Awaitable[StageEnd]], *roles: Role) -> Kind:
    """A kind that is nothing but what its attempts do."""

    class Plain(Kind):
        async def run(self, attempt: StageRun) -> StageEnd:
            return await run(attempt)

    kind = Plain()
    kind.name, kind.roles = name, frozenset(roles)
    return kind


class Finding(Judge):
    """A kind that reports once, or one that only sends the work back."""

    def __init__(self, name: str, run: Callable[[StageRun], Awaitable[StageEnd]], *roles: Role) -> None:
        self.name, self._run, self.roles = name, run, frozenset({"quiet", "sends_back", *roles})

    async def run(self, run: StageRun) -> StageEnd:
        return await self._run(run)

    def send_back(self, job: Job, stage: Stage) -> Entrance:
        return Entrance("review", "too wide")


async def mark(run: StageRun) -> StageEnd:
    return StageEnd(Decision("advance", "done"), Note(summary="marked"))


MARK = plain_kind("mark", mark, "quiet")
"""A kind that nobody is told of, and that can be told nothing."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fresh_store(tmp_path / "store", TASK) as opened:
        yield opened


def make_job(store: Store, stages: list[dict[str, Any]], counter: Counter, log: TaskLog) -> Job:
    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    model = ScriptedModel([])
    return job_of(
        task=TASK,
        flow=expand_flow(Flow.model_validate({"name": "test", "stages": stages}), [], ()),
        kinds={**KINDS, "count": counter.kind, "mark": MARK},
        log=log,
        models={None: model},
        model_settings={None: ModelSettings(model="openai/script")},
        tools={},
        context=ToolContext(
            workspace=DiskWorkspace(store.path.parent / "repo"), save_output=lambda text: "saved"
        ),
        verifier=None,
        tree=NoTree(),
        redact=lambda text: text,
        now=time.time,
        sleep=no_sleep,
        pulse=lambda *pulse, **more: None,
    )


@dataclass
class Ran:
    decision: Decision
    events: list[Event]
    told: list[str]

    @property
    def ended(self) -> list[str]:
        """`path ending` of every stage that ended, in order."""
        bodies = [(event.path, event.body) for event in self.events if isinstance(event.body, StageEnded)]
        return [f"{path} {body.ending}" for path, body in bodies]


async def run(store: Store, *stages: dict[str, Any]) -> Ran:
    counter = Counter()
    log = TaskLog(store, Bus(), TASK, time.time)
    decision = await run_flow(make_job(store, list(stages), counter, log))
    return Ran(decision, store.events("t1"), counter.told)


def count(name: str, fails: int = 0, **fields: Any) -> dict[str, Any]:
    return {"id": name, "kind": "count", "count": {"fails": fails}, **fields}


async def test_a_kind_of_its_own_runs_as_a_stage(store: Store) -> None:
    ran = await run(store, count("one"), count("two", needs=["one"], priority="critical"))
    assert (ran.decision, ran.ended) == (Decision("advance", "done"), ["one completed", "two completed"])
    state = fold(ran.events)
    assert {name: note.summary for name, note in state.notes.items()} == {
        "one": "one is done",
        "two": "two is done",
    }
    started = next(event.body for event in ran.events if isinstance(event.body, StageStarted))
    assert (started.stage_kind, started.title, started.tools) == ("count", "ONE", ())


async def test_a_required_stage_that_fails_ends_the_flow(store: Store) -> None:
    ran = await run(store, count("one", 9), count("two"))
    assert ran.ended == ["one failed"]
    assert ran.decision == Decision("stuck", "stage_failed", 'Stage "one" did not complete: one fails.')


async def test_a_group_repeats_and_tells_its_first_stage_what_failed(store: Store) -> None:
    group = {
        "id": "loop",
        "repeat": {"until": "check.passed", "max": 5},
        "stages": [count("work"), count("check", 2, needs=["work"])],
    }
    ran = await run(store, group, count("last", needs=["loop"]))
    assert ran.ended == [
        "loop/work completed",
        "loop/check failed",
        "loop#2/work completed",
        "loop#2/check failed",
        "loop#3/work completed",
        "loop#3/check completed",
        "last completed",
    ]
    assert ran.told[2] == "loop#2/work: check_failed check failed"
    assert ran.told[0] == "loop/work: next"


async def test_what_failed_is_told_to_the_first_conversation_also_in_a_group(store: Store) -> None:
    group = {
        "id": "loop",
        "repeat": {"until": "check.passed", "max": 5},
        "stages": [
            {"id": "mark", "kind": "mark"},
            {"id": "pair", "stages": [{"id": "mark-too", "kind": "mark"}, count("work")]},
            count("check", 1, needs=["pair"]),
        ],
    }
    ran = await run(store, group)
    assert ran.told[:3] == [
        "loop/pair/work: next",
        "loop/check: next",
        "loop#2/pair/work: check_failed check failed",
    ]


async def test_the_note_of_a_stage_that_nobody_is_told_of_is_kept(store: Store) -> None:
    ran = await run(store, {"id": "mark", "kind": "mark"}, count("one"))
    assert {name: note.summary for name, note in fold(ran.events).notes.items()} == {
        "mark": "marked",
        "one": "one is done",
    }


async def test_a_group_ends_at_its_last_round(store: Store) -> None:
    group = {
        "id": "loop",
        "repeat": {"until": "check.passed", "max": 3},
        "stages": [count("work"), count("check", 9)],
    }
    ran = await run(store, group)
    assert ran.decision == Decision("stuck", "stage_failed", 'Stage "check" did not complete: check fails.')
    assert fold(ran.events).tree.rounds == {"loop": 3}


async def test_a_group_that_is_not_required_gives_way(store: Store) -> None:
    group = {
        "id": "loop",
        "required": False,
        "repeat": {"until": "check.passed", "max": 1},
        "stages": [count("check", 9)],
    }
    after = [count("on-failure", when="loop.failed"), count("on-success", when="loop.passed")]
    ran = await run(store, group, *after, count("last", needs=["*"]))
    assert ran.ended == ["loop/check failed", "on-failure completed", "last completed"]


async def test_groups_in_groups_keep_their_rounds_apart(store: Store) -> None:
    inner = {
        "id": "inner",
        "repeat": {"until": "b.passed", "max": 9},
        "stages": [count("a"), count("b", 1)],
    }
    outer = {
        "id": "outer",
        "repeat": {"until": "c.passed", "max": 9},
        "stages": [inner, count("c", 1, needs=["inner"])],
    }
    ran = await run(store, outer)
    assert ran.ended == [
        "outer/inner/a completed",
        "outer/inner/b failed",
        "outer/inner#2/a completed",
        "outer/inner#2/b completed",
        "outer/c failed",
        "outer#2/inner/a completed",
        "outer#2/inner/b completed",
        "outer#2/c completed",
    ]


async def test_the_first_that_completes_is_enough(store: Store) -> None:
    group = {"id": "one-of", "join": "any", "stages": [count("a", 9, required=False), count("b"), count("c")]}
    ran = await run(store, group, count("last", needs=["one-of"]))
    assert ran.ended == ["one-of/a failed", "one-of/b completed", "one-of/c skipped", "last completed"]
    skipped = next(event.body for event in ran.events if event.path == "one-of/c")
    assert isinstance(skipped, StageEnded)
    assert skipped.reason == "join_any"


@pytest.mark.parametrize(
    ("fails", "ran_stages"),
    [(0, ["if-passed", "unless-failed"]), (9, ["if-failed", "unless-passed"])],
)
async def test_conditions(store: Store, fails: int, ran_stages: list[str]) -> None:
    conditions = {
        "if-passed": "first.passed",
        "if-failed": "first.failed",
        "unless-passed": "not first.passed",
        "unless-failed": "not first.failed",
    }
    stages = [count(name, when=when) for name, when in conditions.items()]
    ran = await run(store, *stages, count("first", fails, required=False))
    assert sorted(line.split()[0] for line in ran.ended) == sorted([*ran_stages, "first"])


async def test_a_chain_of_conditions_stops_at_the_first_that_does_not_hold(store: Store) -> None:
    names = ["a", "b", "c", "d", "e"]
    chain = [count(name, when=f"{before}.passed") for before, name in pairwise(names[1:])]
    ran = await run(store, count("a"), count("b", when="a.failed"), *chain)
    assert ran.ended == ["a completed"]


async def test_a_group_of_which_one_is_to_complete_fails_if_none_does(store: Store) -> None:
    group = {"id": "one-of", "join": "any", "stages": [count("a", 9), count("b", 9)]}
    ran = await run(store, group)
    assert ran.ended == ["one-of/a failed", "one-of/b failed"]
    assert ran.decision == Decision("stuck", "stage_failed", 'No stage of the group "one-of" completed.')


async def test_the_rounds_of_an_inner_group_are_counted_over_the_task(store: Store) -> None:
    inner = {
        "id": "inner",
        "required": False,
        "repeat": {"until": "b.passed", "max": 3},
        "stages": [count("b", 9)],
    }
    outer = {"id": "outer", "repeat": {"until": "c.passed", "max": 9}, "stages": [inner, count("c", 1)]}
    ran = await run(store, outer)
    assert [line for line in ran.ended if "/b" in line] == [
        "outer/inner/b failed",
        "outer/inner#2/b failed",
        "outer/inner#3/b failed",
        "outer#2/inner/b failed",
    ]


async def test_what_depends_on_a_stage_that_does_not_run_does_not_run_either(store: Store) -> None:
    ran = await run(
        store,
        count("first"),
        count("second", when="first.failed"),
        count("third", when="second.passed"),
        count("fourth", needs=["second"]),
    )
    assert ran.ended == ["first completed", "fourth completed"]


async def test_what_a_review_found_is_ignored_for_good_if_the_task_is_to_end(store: Store) -> None:
    """A dry run that was concluded is applied as it was proposed."""
    found = Finding("find", _find, "reports_once")
    group = {
        "id": "loop",
        "repeat": {"until": "check.passed", "max": 5},
        "stages": [count("work"), {"id": "find", "kind": "find"}, count("check", needs=["find"])],
    }
    job = make_job(store, [group], Counter(), TaskLog(store, Bus(), TASK, time.time))
    job.parts.kinds = {**job.parts.kinds, "find": found}
    job.people.stopping = lambda: True
    assert await run_flow(job) == Decision("advance", "done")
    ended = [
        "loop/work completed",
        "loop/find failed",
        "loop/find completed",
        "loop/check completed",
    ]
    assert Ran(Decision("advance", "done"), store.events("t1"), []).ended == ended
    log = TaskLog(store, Bus(), TASK, time.time)
    log.state = fold(store.events("t1"))
    again = make_job(store, [group], Counter(), log)
    again.parts.kinds = {**again.parts.kinds, "find": found}
    assert await run_flow(again) == Decision("advance", "done")
    assert Ran(Decision("advance", "done"), store.events("t1"), []).ended == ended


async def test_a_broken_environment_ends_the_task_also_after_the_work_has_passed(store: Store) -> None:
    async def environment(run: StageRun) -> StageEnd:
        await run.job.log.commit()
        broken = run.job.state.tree.attempts_at(run.stage.id) > 1
        return StageEnd(Decision("infra", "check_broken") if broken else Decision("advance", "done"))

    group = {
        "id": "loop",
        "repeat": {"until": "check.passed", "max": 5},
        "stages": [
            count("work"),
            {"id": "check", "kind": "environment"},
            {"id": "find", "kind": "find", "needs": ["check"]},
        ],
    }
    job = make_job(store, [group], Counter(), TaskLog(store, Bus(), TASK, time.time))
    kinds = [Finding("find", _find, "reports_once"), Finding("environment", environment)]
    job.parts.kinds = {**job.parts.kinds, **{kind.name: kind for kind in kinds}}
    assert await run_flow(job) == Decision("infra", "check_broken")


async def _find(run: StageRun) -> StageEnd:
    await run.job.log.commit()
    return StageEnd(Decision("fail", "found", "too wide"))


FAILS = [count("one", 9), count("two")]
GIVES_WAY = [
    {
        "id": "loop",
        "required": False,
        "repeat": {"until": "check.passed", "max": 2},
        "stages": [count("work"), count("check", 9)],
    },
    count("then", when="loop.failed"),
    count("last", needs=["*"]),
]
TREE = [
    {
        "id": "loop",
        "repeat": {"until": "check.passed", "max": 5},
        "stages": [
            {"id": "pair", "stages": [count("a"), count("b", 1, required=False)]},
            count("again", when="again"),
            count("check", 2, needs=["pair"]),
        ],
    },
    count("last", needs=["loop"]),
]


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("tree", [TREE, FAILS, GIVES_WAY], ids=["passes", "fails", "gives way"])
async def test_a_crash_at_any_commit_leads_to_the_same_end(
    store: Store, tree: list[dict[str, Any]], before: bool
) -> None:
    undisturbed, *resumed = await crash_at_every_commit(store.path.parent, tree, before=before)
    assert len(resumed) >= len(undisturbed[1]) / 2
    assert resumed == [undisturbed] * len(resumed)


async def crash_at_every_commit(
    folder: Path, tree: list[dict[str, Any]], *, before: bool
) -> list[tuple[Decision, list[str]]]:
    """How a flow ends undisturbed, and then with a crash at each of its commits."""
    with fresh_store(folder / "undisturbed", TASK) as whole:
        undisturbed = await run(whole, *tree)
    ends = [(undisturbed.decision, undisturbed.ended)]
    for commits in count_from(1):
        with fresh_store(folder / f"{commits}-{before}", TASK) as other:
            crashing: Any = CrashingStore(other, commits, before)
            try:
                await run_flow(make_job(other, tree, Counter(), TaskLog(crashing, Bus(), TASK, time.time)))
            except Crash:
                pass
            else:
                return ends
            log = TaskLog(other, Bus(), TASK, time.time)
            log.state = fold(other.events("t1"))
            job = make_job(other, tree, Counter(), log)
            restore(job, other.events("t1"), other.contents("t1"))
            resumed = Ran(await run_flow(job), other.events("t1"), [])
            ends.append((resumed.decision, resumed.ended))
    raise AssertionError("every commit crashed")


def random_tree(random: Random, depth: int = 0, prefix: str = "s") -> list[dict[str, Any]]:
    """Stages and groups with needs, conditions, rounds and joins."""
    names = [f"{prefix}{number}" for number in range(random.randint(1, 3))]
    stages: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        fields: dict[str, Any] = {"required": random.random() < 0.6}
        if index and random.random() < 0.4:
            fields["needs"] = [random.choice([*names[:index], "*"])]
        if index and random.random() < 0.3:
            ending = random.choice(["passed", "failed", "skipped"])
            fields["when"] = f"{random.choice(['', 'not '])}{random.choice(names[:index])}.{ending}"
        if depth < 2 and random.random() < 0.4:
            inner = random_tree(random, depth + 1, name)
            group = {"id": name, "stages": inner, "join": random.choice(["all", "all", "any"]), **fields}
            if random.random() < 0.6:
                until = f"{random.choice(inner)['id']}.passed"
                group["repeat"] = {"until": until, "max": random.randint(1, 3)}
            stages.append(group)
        else:
            stages.append(count(name, random.choice([0, 0, 1, 2, 9]), **fields))
    return stages


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False), st.booleans())
def test_any_tree_ends_and_ends_the_same_after_a_crash(random: Random, before: bool) -> None:
    tree = random_tree(random)
    assume(not list(flow_problems(Flow.model_validate({"name": "test", "stages": tree}))))
    with TemporaryDirectory(prefix="headgate-trees-") as folder:
        undisturbed, *resumed = asyncio.run(crash_at_every_commit(Path(folder), tree, before=before))
    assert resumed == [undisturbed] * len(resumed)


def test_an_engine_takes_kinds_of_its_own(tmp_path: Path) -> None:
    repo = tmp_path / "own"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "flow.yaml").write_text("stages:\n- {id: one, kind: count, count: {fails: 1}, required: false}\n")
    loaded = load_config(repo, environ={}, flags={"flow": "flow.yaml"}, user_file=tmp_path / "none.yaml")
    models = {None: ScriptedModel([])}
    engine = Engine.open(repo, loaded, models=models)
    try:
        with pytest.raises(ConfigError, match=r'flow\.yaml, line 2: unknown kind "count"'):
            engine.submit("Count.", Constraints())
    finally:
        engine.store.close()
    parts = FlowParts(kinds={**KINDS, "count": Counter().kind})
    engine = Engine.open(repo, loaded, models=models, parts=parts)
    try:
        report = asyncio.run(engine.run(engine.submit("Count.", Constraints())))
        endings = [event.body for event in engine.store.events() if isinstance(event.body, StageEnded)]
    finally:
        engine.store.close()
    assert (report.state, [body.ending for body in endings]) == ("SUCCESS", ["failed"])

"""Random trees of stages: each stage ends in one way, after what it needs, and nothing waits for ever."""

import asyncio
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from test_groups import TASK, Counter, make_job, plain_kind

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.core import (
    Action,
    Decision,
    Event,
    Flow,
    Note,
    Situation,
    Stage,
    StageEnded,
    StageSkipped,
    StageStarted,
    State,
    flow_problems,
    fold,
    join_path,
    place_of,
    split_path,
)
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, StageEnd, StageRun, restore, run_flow

ACTIONS: list[Action] = ["advance", "advance", "advance", "retry", "fail", "skip"]


async def act(run: StageRun) -> StageEnd:
    """The kind `act`: each attempt ends as the stage's settings say."""
    for _ in range(run.stage.settings["steps"]):
        await run.job.log.commit()
        await asyncio.sleep(0)
    await run.job.log.commit()
    plan: list[Action] = run.stage.settings["plan"]
    action = plan[min(run.job.state.tree.attempts_at(run.stage.id), len(plan)) - 1]
    if action == "retry" and run.state.counts.attempts > run.stage.budget.retries:
        action = "fail"
    reason = "done" if action == "advance" and run.stage.settings["done"] else "max_turns"
    output = {"n": run.stage.settings["steps"]} if action == "advance" else None
    return StageEnd(Decision(action, reason), Note(summary=run.stage.id, output=output))


async def flip(situation: Situation) -> bool:
    """A condition that is a function: whether an even number of stages have completed."""
    return list(situation.statuses.values()).count("completed") % 2 == 0


def random_stages(random: Random, most: int, depth: int = 0, prefix: str = "s") -> list[dict[str, Any]]:
    names = [f"{prefix}{number}" for number in range(random.randint(1, 4))]
    stages: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        fields: dict[str, Any] = {
            "id": name,
            "required": random.random() < 0.5,
            "priority": random.choice(["low", "normal", "normal", "high"]),
        }
        earlier = names[:index]
        if earlier and random.random() < 0.5:
            fields["needs"] = random.sample([*earlier, "*"], random.randint(1, min(2, index)))
        if earlier and random.random() < 0.4:
            fields["on_skip"] = random.choice(["skip", "run"])
        if earlier and random.random() < 0.4:
            named = random.choice(earlier)
            ending = random.choice(["passed", "failed", "skipped"])
            choices = [f"{named}.{ending}", f"not {named}.{ending}", f"results.{named}.n > 1", "code:flip"]
            fields["when"] = random.choice(choices)
        if depth < 2 and random.random() < 0.35:
            inner = random_stages(random, most, depth + 1, name)
            fields |= {"stages": inner, "join": random.choice(["all", "all", "any"])}
            fields["max_parallel"] = random.randint(1, most)
            if random.random() < 0.4:
                until = f"{random.choice(inner)['id']}.passed"
                fields["repeat"] = {"until": until, "max": random.randint(1, 3)}
        else:
            plan = random.choices(ACTIONS, k=random.randint(1, 4))
            done = random.random() < 0.8
            fields["settings"] = {"plan": plan, "steps": random.randint(0, 3), "done": done}
            fields["kind"] = random.choice(["act", "act", "act_alone"])
            fields["max_retries"] = random.randint(0, 2)
        stages.append(fields)
    return stages


def graph_job(store: Store, log: TaskLog, stages: list[dict[str, Any]], most: int) -> Job:
    job = make_job(store, stages, Counter(), log)
    job.flow = job.flow.model_copy(update={"max_parallel": most})
    job.parts.kinds = {
        **job.parts.kinds,
        "act": plain_kind("act", act, "runs_beside"),
        "act_alone": plain_kind("act_alone", act),
    }
    job.parts.code = {"flip": flip}
    return job


async def run_graph(store: Store, stages: list[dict[str, Any]], most: int, crash_at: int = 0) -> State:
    """The state at the end, after a crash at some commit and a resume if that is asked for."""
    crashing: Any = CrashingStore(store, crash_at, before=False) if crash_at else store
    log = TaskLog(crashing, Bus(), TASK, lambda: 0.0)
    async with asyncio.timeout(60):
        try:
            await run_flow(graph_job(store, log, stages, most))
        except Crash:
            log = TaskLog(store, Bus(), TASK, lambda: 0.0)
            log.state = fold(store.events("t1"))
            job = graph_job(store, log, stages, most)
            restore(job, store.events("t1"), store.contents("t1"))
            await run_flow(job)
    return log.state


def note_run(stages: list[dict[str, Any]], events: list[Event]) -> None:
    """Shows a run that fails the test."""
    for stage in stages:
        note(str(stage))
    for event in events:
        if isinstance(event.body, StageStarted | StageEnded | StageSkipped):
            ending = getattr(event.body, "ending", "")
            note(f"{event.seq} {event.kind} {event.path} {ending} {event.body.reason}")


def check_statuses(state: State, events: list[Event]) -> None:
    """Every attempt has ended, once; every stage that came up has one ending or one reason."""
    assert state.tree.open_attempts() == []
    ended = [event.path for event in events if isinstance(event.body, StageEnded)]
    assert len(ended) == len(set(ended))
    skipped = [event.path for event in events if isinstance(event.body, StageSkipped)]
    assert len(skipped) == len(set(skipped))
    for path in skipped:
        assert not state.tree.latest_at(path), f"{path} was skipped, and ran"


def check_reached(state: State, stages: tuple[Stage, ...], path: str) -> None:
    """Every stage of a round that is the last one of its group has a status."""
    ended, skipped = state.tree.endings.get(path, {}), state.tree.skipped.get(path, {})
    for stage in stages:
        place = join_path(path, stage.id)
        if stage.stages and place in state.tree.rounds:
            last = join_path(path, stage.id, state.tree.rounds[place])
            check_reached(state, stage.stages, last)
        else:
            assert stage.id in ended or stage.id in skipped, f"{place} has no status"


def check_order(flow: Flow, events: list[Event]) -> None:
    """What a stage needs is over when it starts."""
    needs: dict[str, tuple[str, ...]] = {}

    def gather(stages: tuple[Stage, ...]) -> None:
        for stage in stages:
            needs[stage.id] = stage.needs
            gather(stage.stages)

    gather(flow.stages)
    started: dict[str, int] = {}
    for event in events:
        if isinstance(event.body, StageStarted):
            path = place_of(event.path)
            while path:  # the groups around it start with it
                started.setdefault(path, event.seq)
                path = split_path(path).parent
    for path, seq in started.items():
        parent, name, _ = split_path(path)
        for need in needs[name]:
            place = join_path(parent, need)
            late = [
                event.path
                for event in events
                if event.seq > seq and (place_of(event.path) == place or event.path.startswith(f"{place}/"))
            ]
            assert need == "*" or not late, f"{path} started before {late}"


@settings(deadline=None, max_examples=40)
@given(st.randoms(use_true_random=False), st.integers(1, 3), st.integers(0, 25))
def test_any_graph_ends_with_one_status_for_each_stage(random: Random, most: int, crash_at: int) -> None:
    stages = random_stages(random, most)
    flow = Flow.model_validate({"name": "test", "stages": stages})
    assume(not list(flow_problems(flow)))
    with TemporaryDirectory(prefix="headgate-graphs-") as folder:
        with fresh_store(Path(folder) / "a", TASK) as store:
            whole = asyncio.run(run_graph(store, stages, most))
            events = store.events("t1")
        note_run(stages, events)
        check_statuses(whole, events)
        check_reached(whole, flow.stages, "")
        check_order(flow, events)
        with fresh_store(Path(folder) / "b", TASK) as store:
            cut = asyncio.run(run_graph(store, stages, most, crash_at))
            events = store.events("t1")
        note_run([], events)
        check_statuses(cut, events)
        check_reached(cut, flow.stages, "")
        check_order(flow, events)
        if most == 1:  # otherwise, which of several completes first is chance
            assert (cut.tree.endings, cut.tree.skipped) == (whole.tree.endings, whole.tree.skipped)

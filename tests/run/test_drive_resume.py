"""Lists of tasks that a model works through, cut by a crash at every commit."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_groups import TASK, Counter, make_job

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.core import (
    Event,
    Flow,
    Message,
    OnDelta,
    Reply,
    Request,
    StageEnded,
    State,
    ToolCall,
    Usage,
    flow_problems,
    fold,
)
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, restore, run_flow
from headgate.tools import think

AVAILABLE = re.compile(r"Available tasks: ([^.]*)\.")


class ListReader:
    """A model that goes by what it reads alone, so that a crash makes no difference to it.

    It starts the last of the tasks that are available. It thinks once in each task, and completes it; a task
    whose id begins with `f` it gives up the first time.
    """

    name = "reader"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.requests.append(request)
        calls = [
            ToolCall(f"c{len(request.messages)}-{index}", name, arguments)
            for index, (name, arguments) in enumerate(self._choose(request))
        ]
        return Reply(Message("assistant", calls=tuple(calls)), Usage(10, 10), "calls")

    def _choose(self, request: Request) -> Sequence[tuple[str, str]]:
        visible = {spec.name for spec in request.tools} - request.withheld
        if "complete_task" in visible:
            return self._in_task(request)
        if "start_task" not in visible:
            return [("stage_done", '{"summary": "Done."}')]
        texts = [message.content for message in request.messages]
        found = next((match for text in reversed(texts) if (match := AVAILABLE.findall(text))), None)
        listed = [line for text in texts for line in text.splitlines() if line.startswith("[ ] ")]
        names = found[-1].split(", ") if found else [listed[0].split(":")[0].removeprefix("[ ] ")]
        return [("start_task", f'{{"id": "{names[-1]}"}}')]

    def _in_task(self, request: Request) -> Sequence[tuple[str, str]]:
        began = max(number for number, one in enumerate(request.messages) if "is started." in one.content)
        since = request.messages[began:]
        if not any(call.name == "think" for message in since for call in message.calls):
            return [("think", '{"text": "Hm."}')]
        task = re.findall(r'Task "(.*)" is started', since[0].content)[0]
        if task.startswith("f") and "attempt" not in since[0].content:
            return [("fail_task", '{"reason": "Too hard."}')]
        following = AVAILABLE.findall(request.messages[-1].content)
        assert not following
        return [("complete_task", f'{{"result": "{task}"}}')]


def make(store: Store, log: TaskLog, stages: list[dict[str, Any]]) -> Job:
    async def no_sleep(seconds: float) -> None:
        """Time does not matter here."""

    model = ListReader()
    job = make_job(store, stages, Counter(), log)
    job.models.clients, job.parts.tools, job.clock.sleep = (
        {None: model, "other": model},
        {"think": think},
        no_sleep,
    )
    job.models.settings = {None: job.models.settings[None], "other": job.models.settings[None]}
    return job


async def run_list(
    store: Store, stages: list[dict[str, Any]], crash_at: int = 0
) -> tuple[State, list[Event], list[Message], int]:
    """The state, the events and the last request at the end, and how many commits there were."""
    crashing: Any = CrashingStore(store, crash_at, before=False)
    log = TaskLog(crashing, Bus(), TASK, lambda: 0.0)
    job = make(store, log, stages)
    async with asyncio.timeout(60):
        try:
            await run_flow(job)
        except Crash:
            log = TaskLog(store, Bus(), TASK, lambda: 0.0)
            log.state = fold(store.events("t1"))
            job = make(store, log, stages)
            restore(job, store.events("t1"), store.contents("t1"))
            await run_flow(job)
    seen = list(job.memory.transcripts["list"].messages)
    return log.state, store.events("t1"), seen, crashing.seen


def summary(state: State) -> Any:
    outputs = {name: note.output for name, note in state.notes.items()}
    return state.tree.endings, state.tree.skipped, outputs


STAGES: list[dict[str, Any]] = [
    {
        "id": "list",
        "kind": "drive",
        "stages": [
            {"id": "a", "prompt": "Do a."},
            {"id": "f", "needs": ["a"], "max_retries": 1, "retry_backoff": "linear"},
            {"id": "g", "stages": [{"id": "x"}, {"id": "y", "needs": ["x"]}]},
            {"id": "apart", "agent": {"model": "other", "context_transfer": "full"}},
            {"id": "b", "needs": ["f", "g"], "when": "results.a == 'a'"},
            {"id": "never", "when": "a.failed"},
        ],
    }
]


def test_a_list_cut_at_any_commit_ends_as_one_that_was_not(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "whole", TASK) as store:
        state, _, seen, commits = asyncio.run(run_list(store, STAGES))
    assert state.tree.endings["list"] == dict.fromkeys(("apart", "a", "b", "f"), "completed")
    assert commits > 30
    for number in range(1, commits + 1):
        # Before a commit and after the one before it are the same to a process that starts again.
        with fresh_store(tmp_path / str(number), TASK) as store:
            cut, events, heard, _ = asyncio.run(run_list(store, STAGES, number))
        assert summary(cut) == summary(state), number
        ends = [event.path for event in events if isinstance(event.body, StageEnded)]
        assert len(ends) == len(set(ends)), number
        calls = [call.id for message in heard for call in message.calls]
        assert calls == [message.call_id for message in heard if message.role == "tool"]
        assert [(m.role, m.content) for m in heard] == [(m.role, m.content) for m in seen], number


def random_tasks(random: Random) -> list[dict[str, Any]]:
    names = [random.choice("abf") + str(number) for number in range(random.randint(1, 6))]
    tasks: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        fields: dict[str, Any] = {"id": name, "required": random.random() < 0.6}
        fields["max_retries"] = random.randint(0, 1)
        if index and random.random() < 0.5:
            fields["needs"] = random.sample(names[:index], 1)
        if index and random.random() < 0.3:
            fields["on_skip"] = random.choice(["skip", "run"])
        if index and random.random() < 0.3:
            fields["when"] = (
                f"{random.choice(names[:index])}.{random.choice(['passed', 'failed', 'skipped'])}"
            )
        if random.random() < 0.2:
            fields["stages"] = [{"id": f"{name}x"}, {"id": f"{name}y"}]
            del fields["max_retries"]
        elif random.random() < 0.2:
            fields["agent"] = {"context_transfer": "minimal"}
        tasks.append(fields)
    return tasks


@settings(deadline=None, max_examples=25)
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_any_list_ends_with_one_status_for_each_task(random: Random, crash_at: int) -> None:
    join = random.choice(["all", "all", "any"])
    stages = [{"id": "list", "kind": "drive", "join": join, "stages": random_tasks(random)}]
    assume(not list(flow_problems(Flow.model_validate({"name": "test", "stages": stages}))))
    with TemporaryDirectory(prefix="headgate-drive-") as folder:
        with fresh_store(Path(folder) / "a", TASK) as store:
            whole, *_ = asyncio.run(run_list(store, stages))
        with fresh_store(Path(folder) / "b", TASK) as store:
            cut, *_ = asyncio.run(run_list(store, stages, crash_at))
    assert summary(cut) == summary(whole)
    assert whole.tree.open_attempts() == []
    ended, skipped = whole.tree.endings.get("list", {}), whole.tree.skipped.get("list", {})
    for task in stages[0]["stages"]:
        is_known = task["id"] in ended or task["id"] in skipped or "stages" in task
        assert is_known, f"{task['id']} has no status"

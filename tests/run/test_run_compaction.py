"""Summaries in place of stages: in transcripts, after a crash at any commit, by a model, and on request."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_resume import TASK, Case, make_job, place, start, take_up

from crashing_store import Crash, CrashingStore
from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    Compaction,
    CompactionAgent,
    Decision,
    Event,
    Flow,
    Message,
    ModelSettings,
    Note,
    Price,
    Reply,
    Request,
    Stage,
    StageEnded,
    ToolCall,
    ToolScope,
    Usage,
    ViewPolicy,
    fold,
    size_of,
)
from headgate.engine.tree import TaskTree
from headgate.errors import ConfigError, ModelUnavailable
from headgate.features.compaction import StageCompacted
from headgate.features.compaction.feature import compact_later, compact_stages
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, run_flow
from headgate.run.transcript import Transcript
from headgate.tree import Snapshots
from views import check_pairs

SHARED = ViewPolicy(transcript="parent")
ENDED = StageEnded(stage="s", ending="completed", reason="done", note=Note())


# Transcripts.


@st.composite
def stages(draw: st.DrawFn) -> list[list[Message]]:
    """What is said in some stages: words, and calls with their results."""
    number = 0
    made: list[list[Message]] = []
    for _ in range(draw(st.integers(1, 5))):
        said = [Message("user", f"stage {len(made)}")]
        for count in draw(st.lists(st.integers(0, 3), max_size=4)):
            calls = tuple(ToolCall(f"c{number + n}", "ls", "{}") for n in range(count))
            said += [Message("assistant", f"reply {number}", calls, reasoning="why")]
            said += [Message("tool", f"result of {call.id}", call_id=call.id) for call in calls]
            number += count + 1
        made.append(said)
    return made


@given(stages(), st.data())
def test_summaries_in_a_transcript(said: list[list[Message]], data: st.DataObject) -> None:
    transcript = Transcript()
    opening = [Message("system", "be good"), Message("user", "the task")]
    for number, messages in enumerate(said):
        transcript.begin_stage(f"s{number}", f"s{number}")
        for message in [*(opening if number == 0 else []), *messages]:
            transcript.add(message)
        transcript.end_stage(f"s{number}", ENDED)
    replaced = data.draw(st.permutations(range(len(said))))[: data.draw(st.integers(0, len(said)))]
    policy = ViewPolicy(strip_thinking=False)
    for number in replaced:
        span = transcript.spans[f"s{number}"]
        first, own = transcript.said_in(span)
        assert list(own) == said[number]
        assert (first, span.end - first) == (2 + sum(map(len, said[:number])), len(said[number]))
        transcript.replace(f"s{number}", first, span.end, f"summary {number}")
        transcript.rebuild(policy)
        check_pairs(transcript.view)
    left = [
        [Message("user", f"summary {number}")] if number in replaced else messages
        for number, messages in enumerate(said)
    ]
    expected = [*opening, *(message for messages in left for message in messages)]
    assert transcript.messages == expected
    assert transcript.view == expected
    assert transcript.length == 2 + sum(map(len, said))
    assert transcript.has_summaries == bool(replaced)
    transcript.rebuild(ViewPolicy(history="tail", max_messages=4))
    assert transcript.view[:2] == opening


def test_what_is_replaced_is_not_kept_in_memory() -> None:
    transcript = Transcript()
    transcript.add(Message("system", "be good"))
    transcript.add(Message("user", "the task"))
    for number in range(400):
        transcript.begin_stage(f"s{number}", f"s{number}")
        for _ in range(10):
            transcript.add(Message("assistant", "x" * 1_000))
        transcript.end_stage(f"s{number}", ENDED)
        first, _ = transcript.said_in(transcript.spans[f"s{number}"])
        transcript.replace(f"s{number}", first, transcript.length, f"Task {number} completed: success")
        transcript.rebuild(ViewPolicy())
    assert (len(transcript.messages), transcript.length, len(transcript.spans)) == (402, 4_002, 0)
    assert transcript.view_chars == size_of(transcript.view) < 20_000


# Whole runs.


Step = list[tuple[str, dict[str, Any]]]
STEPS: dict[str, list[Step]] = {
    "Stage: LOOK": [
        [("read_file", {"path": "n.txt"}), ("read_file", {"path": "missing"})],
        [("stage_done", {"summary": "Looked.", "decisions": ["Make it 4"]})],
    ],
    "Stage: PLAN": [[("plan_tasks", {"action": "create", "tasks": [{"id": "1", "description": "Do it"}]})]],
    "Stage: WORK": [
        [("read_file", {"path": "n.txt"})],
        [("write_file", {"path": "n.txt", "content": "3\n"}), ("stage_done", {"summary": "It is 3."})],
    ],
    "Verification failed": [
        [("write_file", {"path": "n.txt", "content": "4\n"})],
        [("stage_done", {"summary": "It is 4."})],
    ],
}
ANSWER = {"summary": "Summed up.", "key_outputs": ["o"], "decisions": ["d"], "errors": []}


@dataclass
class Worker:
    """Goes through the steps of the stage that it was told of last. Asked for a summary, it writes one."""

    name: str = "worker"
    seen: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """What it was sent, by what it was asked for."""
    asked: list[Request] = field(default_factory=list)
    """The requests for summaries."""
    answers: list[str | Exception] = field(default_factory=list)
    """What it answers to these, the last one again and again; by default a summary."""

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        if request.form is not None:
            self.asked.append(request)
            answer = self.answers[min(len(self.asked), len(self.answers)) - 1] if self.answers else ""
            if isinstance(answer, Exception):
                raise answer
            return Reply(Message("assistant", answer or json.dumps(ANSWER)), Usage(prompt=7, completion=2))
        told = [
            (index, mark)
            for index, message in enumerate(request.messages)
            for mark in STEPS
            if message.role == "user" and message.content.startswith(mark)
        ]
        index, mark = told[-1]
        number = sum(message.role == "assistant" for message in request.messages[index:])
        self.seen[f"{mark} {number}"] = tuple(request.messages)
        called = enumerate(STEPS[mark][number])
        calls = tuple(
            ToolCall(f"{mark[7:]}{number}{i}", name, json.dumps(args)) for i, (name, args) in called
        )
        return Reply(Message("assistant", "", calls, reasoning="Hm."), Usage(prompt=10, completion=1))


def flow_with(compaction: Compaction | None) -> Flow:
    return Flow(
        name="test",
        stages=(
            Stage(id="look", view=SHARED, tools=ToolScope(allow=("read",))),
            Stage(id="plan", view=SHARED, advance="rules", checks={"plan_written": True}, needs=("look",)),
            Stage(id="work", view=SHARED, needs=("plan",)),
        ),
        checks={"verify": True},
        compaction=compaction,
    )


COMPACTIONS = {
    "comprehensive": Compaction(strategy="comprehensive"),
    "batch": Compaction(trigger="batch", batch_size=2),
    "agent": Compaction(agent=CompactionAgent()),
}


def compacted(store: Store) -> list[tuple[str, str, int, int, str]]:
    return [
        (event.path, body.strategy, body.start, body.end, masked(store.contents("t1")[event.seq]))
        for event in store.events("t1")
        if isinstance(body := event.body, StageCompacted)
    ]


@pytest.mark.parametrize(
    ("name", "before", "stride"), [("comprehensive", True, 1), ("batch", False, 3), ("agent", True, 3)]
)
def test_a_crash_anywhere_leaves_the_same_views(tmp_path: Path, name: str, before: bool, stride: int) -> None:
    flow = flow_with(COMPACTIONS[name])
    worker = Worker()
    with place(tmp_path / "whole") as store:
        counter = CrashingStore(store, commits=-1, before=before)
        decision = asyncio.run(start(Case(flow, worker, {}, (1, 0, 1)), store, counter))
        whole, commits = compacted(store), counter.seen
    assert decision == Decision("advance", "done")
    assert len(worker.seen) == 7
    assert len(whole) >= 2
    for number in range(1, commits + 1, stride):
        again = Worker(seen={})
        case = Case(flow, again, {}, (1, 0, 1))
        with place(tmp_path / f"{number}") as store:
            with pytest.raises(Crash):
                asyncio.run(start(case, store, CrashingStore(store, number, before)))
            assert asyncio.run(take_up(case, store, store)) == decision
            assert compacted(store) == whole, f"crashed at commit {number}"
        for asked, messages in again.seen.items():
            assert said(messages) == said(worker.seen[asked]), f"crashed at commit {number}: {asked}"


def said(messages: Sequence[Message]) -> list[tuple[str, str, str]]:
    """What a view says, without what differs from run to run.

    A write that was done when the process died is answered in other words.
    """
    return [
        (
            message.role,
            "" if "n.txt" in message.content and message.role == "tool" else masked(message.content),
            message.call_id,
        )
        for message in messages
    ]


def masked(text: str) -> str:
    return re.sub(r"run_\w+|  result: .*n\.txt.*", "X", text)


def run(
    tmp_path: Path, flow: Flow, worker: Worker, prepare: Callable[[Job, Bus], None] | None = None
) -> list[Event]:
    with place(tmp_path) as store:
        bus = Bus()
        log = TaskLog(store, bus, TASK, lambda: 0.0)
        tree = TaskTree(Snapshots(store.path.parent / "repo"), lambda: log.state.first_hashes)

        async def carry_out() -> Decision:
            await tree.begin()
            job = make_job(Case(flow, worker, {}, (1, 0, 1)), store, log, tree)
            if prepare:
                prepare(job, bus)
            return await run_flow(job)

        assert asyncio.run(carry_out()) == Decision("advance", "done")
        return store.events("t1")


def bodies(events: Sequence[Event]) -> list[StageCompacted]:
    return [event.body for event in events if isinstance(event.body, StageCompacted)]


def test_the_task_and_the_plan_stay_in_view(tmp_path: Path) -> None:
    worker = Worker()
    run(tmp_path, flow_with(Compaction(strategy="aggressive")), worker)
    last = worker.seen["Verification failed 0"]
    assert [message.role for message in last].count("system") == 1
    texts = [message.content for message in last]
    assert texts[1].startswith("Task:\nMake n 4.")
    assert texts[2:5] == [f"Task {name} completed: success" for name in ("LOOK", "PLAN", "WORK")]
    assert texts[5].startswith("Verification failed")
    assert "The plan:" in texts[6]
    assert "Do it" in texts[6]
    assert texts[6].endswith("Stage: WORK")
    assert "Files changed so far: n.txt." in texts[6]
    assert len(texts) == 7


def test_a_long_stage_is_summarised_in_parts(tmp_path: Path) -> None:
    worker, cheap, window = Worker(), Worker(), 2_500

    def prepare(job: Job, bus: Bus) -> None:
        job.models.clients = {None: worker, "cheap": cheap}
        settings = ModelSettings(model="openai/cheap", context_window=window, price=Price(input=1, output=1))
        job.models.settings = {**job.models.settings, "cheap": settings}
        (job.place.context.workspace.root / "n.txt").write_text("".join(f"line {n}\n" for n in range(1_500)))

    agent = CompactionAgent(model="cheap")
    found = bodies(run(tmp_path, flow_with(Compaction(agent=agent)), worker, prepare))
    of_parts = [
        request for request in cheap.asked if "Summaries of the parts" in request.messages[-1].content
    ]
    assert [body.strategy for body in found] == ["agent"] * 4
    assert (len(worker.asked), len(of_parts)) == (0, 2)
    assert found[0].requests > 3
    assert found[0].cost > 0
    assert any("line 0" in request.messages[-1].content for request in cheap.asked)
    for request in cheap.asked:
        tokens = size_of(request.messages) / CHARS_PER_CODE_TOKEN + (request.max_tokens or 0)
        assert tokens + len(json.dumps(request.form)) / CHARS_PER_CODE_TOKEN < window
        assert not request.tools


def test_every_request_for_a_summary_counts(tmp_path: Path) -> None:
    worker = Worker()
    events = run(tmp_path, flow_with(Compaction(agent=CompactionAgent())), worker)
    found = bodies(events)
    assert [body.strategy for body in found] == ["agent"] * 4
    assert sum(body.requests for body in found) == len(worker.asked) == 4
    state = fold(events)
    assert (state.accounts.replies, state.accounts.requests) == (7, 11)
    assert state.accounts.usage == Usage(prompt=7 * 10 + 4 * 7, completion=7 + 4 * 2)


@pytest.mark.parametrize(
    ("answers", "faults", "requests"),
    [
        (["no", "never"], ["unreadable"] * 4, 8),
        ([ModelUnavailable("gone")], ["unavailable"] * 4, 4),
        (["no", json.dumps(ANSWER)], [""] * 4, 5),
    ],
)
def test_a_model_that_fails_to_summarise(
    tmp_path: Path, answers: list[str | Exception], faults: list[str], requests: int
) -> None:
    worker = Worker(answers=answers)
    found = bodies(run(tmp_path, flow_with(Compaction(agent=CompactionAgent())), worker))
    assert [body.fault for body in found] == faults
    assert all(body.strategy == ("moderate" if body.fault else "agent") for body in found)
    assert len(worker.asked) == requests


def test_a_program_asks_for_it(tmp_path: Path) -> None:
    worker = Worker()

    def prepare(job: Job, bus: Bus) -> None:
        def ask(event: Event) -> None:
            if event.kind == "stage_started" and event.path == "plan":
                compact_later(job, "look")
                with pytest.raises(ConfigError, match='unknown stage "lok": did you mean "look"'):
                    compact_later(job, "lok")

        bus.on_event.append(ask)

    events = run(tmp_path, flow_with(Compaction(trigger="manual", strategy="aggressive")), worker, prepare)
    assert [(body.stage, body.start) for body in bodies(events)] == [("look", 2)]
    texts = [message.content for message in worker.seen["Stage: PLAN 0"]]
    assert texts[2:4] == ["Task LOOK completed: success", "Stage: PLAN"]


def test_a_program_asks_for_everything_in_a_flow_that_says_nothing(tmp_path: Path) -> None:
    kept: list[Job] = []
    events = run(tmp_path, flow_with(None), Worker(), lambda job, bus: kept.append(job))
    assert not bodies(events)

    with place(tmp_path / "other") as store:
        (job,) = kept
        job.log = TaskLog(store, Bus(), TASK, lambda: 0.0)
        job.log.state = fold(events)
        for _ in range(2):  # the second time, there is nothing left to replace
            asyncio.run(compact_stages(job))
        found = bodies(store.events(TASK.id))
    assert [body.stage for body in found] == ["look", "plan", "work", "work"]
    assert all(body.strategy == "moderate" for body in found)
    assert len(job.memory.transcripts[""].messages) == 6

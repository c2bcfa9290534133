"""The loop with fakes passed in: windows, per-stage models, and how much of the prompt stays the same."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headgate.core import (
    Budget,
    Constraints,
    Decision,
    Flow,
    Limits,
    Message,
    Model,
    ModelSettings,
    Reply,
    ReplyFailed,
    Request,
    Stage,
    Task,
    TaskStatusGiven,
    Timeouts,
    ToolCall,
    ToolFinished,
    ToolScope,
    Usage,
    ViewPolicy,
    expand_flow,
)
from headgate.engine import CHECK_SPECS
from headgate.errors import CallUnknown
from headgate.library.surroundings import NoTree
from headgate.log import Bus, Store, TaskLog
from headgate.models import ScriptedModel
from headgate.run import Job, run_flow
from headgate.tools import STATUS_TOOL, ToolContext, ls, read_file, task_status
from headgate.tree import DiskWorkspace
from jobs import job_of, other_job

TASK = Task(id="t1", text="Look.", goal="Look.", constraints=Constraints(keep=("the API",)))


@dataclass
class Reader:
    """A model that reads on in a large file, then stops."""

    reads: int
    name: str = "reader"

    def __post_init__(self) -> None:
        self.requests: list[tuple[Message, ...]] = []

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.requests.append(tuple(request.messages))
        size = sum(len(message.content) for message in request.messages)
        usage = Usage(prompt=size // 4, completion=10)
        if len(self.requests) > self.reads:
            return Reply(Message("assistant", "Seen."), usage)
        number = len(self.requests)  # no two results are the same: they would be shown once
        call = ToolCall(f"c{number}", "read_file", f'{{"path": "big.txt", "start_line": {number}}}')
        return Reply(Message("assistant", "", (call,)), usage, "calls")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "headgate.db")
    opened.add_task(lambda task_id: TASK, 0.0)
    yield opened
    opened.close()


def make_job(store: Store, flow: Flow, models: dict[str | None, Model], window: int | None = None) -> Job:
    bus = Bus()
    repo = store.path.parent / "repo"
    repo.mkdir()
    (repo / "big.txt").write_text("a line of text\n" * 200)

    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    return job_of(
        task=TASK,
        flow=expand_flow(flow, [ls.spec, read_file.spec], CHECK_SPECS),
        log=TaskLog(store, bus, TASK, time.time),
        models=models,
        model_settings={
            name: ModelSettings(model=f"openai/{model.name}", context_window=window)
            for name, model in models.items()
        },
        tools={tool.name: tool for tool in (ls, read_file)},
        context=ToolContext(workspace=DiskWorkspace(repo), save_output=lambda text: "saved"),
        verifier=None,
        tree=NoTree(),
        redact=lambda text: text,
        now=time.time,
        sleep=no_sleep,
        pulse=bus.pulse,
    )


def work(**fields: object) -> Flow:
    stage = {"id": "work", "allow_missing_done": True, "budget": Budget(turns=60), **fields}
    return Flow(name="test", stages=(Stage.model_validate(stage),))


async def test_the_view_is_cut_before_the_window_is_full_and_then_stays(store: Store) -> None:
    model = Reader(reads=40)
    window = 6_000
    job = make_job(store, work(prompt="Read on."), {None: model}, window)
    assert await run_flow(job) == Decision("advance", "done")
    sizes = [sum(len(message.content) for message in request) // 4 for request in model.requests]
    assert max(sizes) < window
    assert all("the API" in request[1].content for request in model.requests)
    for request in model.requests:
        said = [message.content for message in request if message.role == "user"]
        assert sum("Stage: WORK\nRead on." in text for text in said) == 1
        assert sum("Older messages were cut" in text for text in said) <= 1
    cuts = sum(not same_start(*pair) for pair in zip(model.requests, model.requests[1:], strict=False))
    assert 3 <= cuts <= 14


def same_start(earlier: tuple[Message, ...], later: tuple[Message, ...]) -> bool:
    return later[: len(earlier)] == earlier


async def test_without_a_known_window_every_request_extends_the_one_before(store: Store) -> None:
    model = Reader(reads=20)
    job = make_job(store, work(), {None: model})
    await run_flow(job)
    assert all(same_start(*pair) for pair in zip(model.requests, model.requests[1:], strict=False))
    assert all(
        mine is theirs
        for earlier, later in zip(model.requests, model.requests[1:], strict=False)
        for mine, theirs in zip(earlier, later, strict=False)
    )


LIST, READ, DONE = ("ls", "{}"), ("read_file", '{"path": "big.txt"}'), ("stage_done", '{"summary": "Seen."}')


@dataclass
class Caller:
    """A model that makes these calls, one in each reply, then stops.

    It keeps what it was offered, what was withheld of that, and what each call brought.
    """

    calls: Sequence[tuple[str, str]]
    name: str = "caller"

    def __post_init__(self) -> None:
        self.withheld: list[set[str]] = []
        self.offered: list[list[str]] = []
        self.listed: list[list[str]] = []
        self.results: dict[str, str] = {}

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.withheld.append(set(request.withheld))
        self.offered.append([tool.name for tool in request.tools])
        self.listed.append([tool.name for tool in request.listed])
        for message in request.messages:
            if message.role == "tool":
                self.results.setdefault(message.call_id, message.content)
        number = len(self.withheld)
        if number > len(self.calls):
            return Reply(Message("assistant", "Seen."))
        call = ToolCall(f"c{number}", *self.calls[number - 1])
        return Reply(Message("assistant", "", (call,)), finish="calls")


async def test_the_tool_that_a_model_goes_in_circles_with_is_withheld_for_a_turn(store: Store) -> None:
    model = Caller([LIST, LIST, LIST, LIST, READ, LIST])
    assert await run_flow(make_job(store, work(), {None: model})) == Decision("advance", "done")
    assert model.withheld == [set(), set(), {"ls"}, {"ls"}, {"ls"}, set(), {"ls"}]


async def test_tools_that_a_model_circles_with_in_turn_are_withheld_together(store: Store) -> None:
    model = Caller([LIST, READ, LIST, READ, DONE])
    assert await run_flow(make_job(store, work(), {None: model})) == Decision("advance", "done")
    assert model.withheld == [set(), set(), set(), {"ls"}, {"ls", "read_file"}]


async def test_one_call_is_no_circle_however_strict_the_stage_is(store: Store) -> None:
    model = Caller([LIST, READ])
    flow = work(budget=Budget(turns=60, identical_calls=1))
    await run_flow(make_job(store, flow, {None: model}))
    assert model.withheld == [set(), set(), set()]


async def test_the_signal_of_the_end_is_not_withheld_in_a_final_turn(store: Store) -> None:
    model = Caller([DONE, DONE])
    flow = work(checks={"files_read": 1}, budget=Budget(turns=1, retries=0), allow_missing_done=False)
    job = make_job(store, flow, {None: model})
    await run_flow(job)
    assert model.withheld[:2] == [set(), set()]


@dataclass
class Stray:
    """A model whose first reply calls a tool as text that it was not offered."""

    tool: str
    name: str = "stray"
    told: list[str] = field(default_factory=list)

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.told.append(request.messages[-1].content)
        if len(self.told) == 1:
            raise CallUnknown(f'There is no tool "{self.tool}".', self.tool)
        return Reply(Message("assistant", "Seen."))


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (
            "read_file",
            'read_file was not run: it is not available in stage "work"; no stage of this flow allows it',
        ),
        ("rm", 'There is no tool "rm"'),
    ],
)
async def test_a_call_as_text_to_a_tool_of_elsewhere_is_answered_like_any_other(
    store: Store, tool: str, told: str
) -> None:
    model = Stray(tool)
    await run_flow(make_job(store, work(tools=ToolScope(allow=("ls",))), {None: model}))
    assert told in model.told[1]
    assert "Tools here: ls, stage_done. Answer with one tool call" in model.told[1]


NUMBERS = "".join(f"line {number}\n" for number in range(1, 60))
NUMBERED = ("read_file", '{"path": "n.txt"}')
THE_SAME = "Same result as the last call: nothing has changed since."


def with_numbers(job: Job, text: str = NUMBERS) -> Job:
    (job.place.context.workspace.root / "n.txt").write_text(text)
    return job


async def results_of(job: Job, model: Caller) -> list[bool]:
    """Of each call, whether its result was sent whole."""
    await run_flow(job)
    return [result != THE_SAME for result in model.results.values()]


async def test_a_result_is_not_sent_twice(store: Store) -> None:
    model = Caller([NUMBERED, NUMBERED])
    assert await results_of(with_numbers(make_job(store, work(), {None: model})), model) == [True, False]


async def test_a_short_result_is_sent_again(store: Store) -> None:
    model = Caller([NUMBERED, NUMBERED])
    assert (
        await results_of(with_numbers(make_job(store, work(), {None: model}), "one\n"), model) == [True] * 2
    )


async def test_a_result_that_another_call_brought_is_sent(store: Store) -> None:
    # The file may have been otherwise in between.
    model = Caller([NUMBERED, ("read_file", '{"path": "n.txt", "start_line": 1}'), NUMBERED])
    assert await results_of(with_numbers(make_job(store, work(), {None: model})), model) == [
        True,
        True,
        False,
    ]


async def test_a_result_that_was_cut_from_the_view_is_sent_again(store: Store) -> None:
    others = [("read_file", f'{{"path": "big.txt", "start_line": {start}}}') for start in range(1, 20)]
    model = Caller([NUMBERED, *others, NUMBERED])
    flow = work(view=ViewPolicy(history="tail", max_messages=8))
    assert (await results_of(with_numbers(make_job(store, flow, {None: model})), model)) == [True] * 21


async def test_a_model_that_is_not_done_cannot_say_so_twice_in_a_row(store: Store) -> None:
    model = Caller([DONE, LIST, DONE, READ, DONE])
    flow = work(checks={"files_read": 1})
    assert await run_flow(make_job(store, flow, {None: model})) == Decision("advance", "done")
    assert model.withheld == [set(), {"stage_done"}, set(), {"stage_done"}, set()]


async def test_a_list_that_stays_the_same_is_beside_what_may_be_called(store: Store) -> None:
    stages = (
        Stage(id="list", tools=ToolScope(allow=("ls",))),
        Stage(id="read", tools=ToolScope(allow=("read_file",))),
    )
    model = Caller([LIST, DONE, READ, DONE])
    job = make_job(store, Flow(name="test", stages=stages), {None: model})
    job.pinned.keeping_lists = frozenset({None})
    await run_flow(job)
    assert model.offered == [["ls", "stage_done"]] * 2 + [["read_file", "stage_done"]] * 2
    assert model.listed == [["ls", "read_file", "stage_done"]] * 4


async def test_the_tools_of_two_lists_are_sent_with_the_tasks_of_both(store: Store) -> None:
    lists = [
        Stage(id=f"list{n}", kind="drive", stages=(Stage(id=f"task{n}", kind="driven"),)) for n in (1, 2)
    ]
    job = make_job(store, Flow(name="test", stages=tuple(lists)), {None: Caller([])})
    (start,) = [spec for spec in job.listed_specs if spec.name == "start_task"]
    assert start.parameters["properties"]["id"]["enum"] == ["task1", "task2"]


async def test_a_tail_is_cut_when_a_stage_is_entered(store: Store) -> None:
    shared = ViewPolicy(transcript="parent")
    tail = ViewPolicy(transcript="parent", history="tail", max_messages=6)
    flow = Flow(
        name="test",
        stages=(
            Stage(id="look", view=shared, allow_missing_done=True),
            Stage(id="think", view=tail, allow_missing_done=True, prompt="Now think."),
        ),
    )
    model = Reader(reads=10)
    await run_flow(make_job(store, flow, {None: model}))
    assert len(model.requests[10]) == 23
    last = model.requests[11]
    assert len(last) == 6
    assert (last[0].role, last[1].content.startswith("Task:"), last[-1].content) == (
        "system",
        True,
        "Stage: THINK\nNow think.",
    )


async def test_a_stage_may_have_its_own_model(store: Store) -> None:
    flow = Flow(
        name="test",
        stages=(
            Stage(id="a", allow_missing_done=True),
            Stage(id="b", model="cheap", allow_missing_done=True),
        ),
    )
    look = Reply(Message("assistant", "", (ToolCall("c", "ls", "{}"),)))
    first = ScriptedModel([look, Reply(Message("assistant", "One."))])
    second = ScriptedModel([look, Reply(Message("assistant", "Two."))])
    job = make_job(store, flow, {None: first, "cheap": second})
    await run_flow(job)
    assert (len(first.requests), len(second.requests)) == (2, 2)
    assert "- a: One." in second.requests[0].messages[1].content
    assert {stage: note.summary for stage, note in job.state.notes.items()} == {"a": "One.", "b": "Two."}


@dataclass
class Endless:
    """A model whose first replies have not ended when the test is over."""

    name: str = "endless"
    requests: int = 0
    cut_off: bool = False
    endless: int = 1
    """How many replies never end."""

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.requests += 1
        if self.requests <= self.endless:
            try:
                await asyncio.Event().wait()
            finally:
                self.cut_off = True
        return Reply(Message("assistant", "", (ToolCall("c1", "stage_done", '{"summary": "Seen."}'),)))


async def test_a_reply_that_takes_too_long_is_cut_off_and_asked_for_again(store: Store) -> None:
    model = Endless()
    job = make_job(store, Flow(name="one", stages=(Stage(id="look"),)), {None: model})
    short = ModelSettings(model="openai/endless", timeouts=Timeouts(reply=0.05))
    decision = await run_flow(other_job(job, model_settings={None: short}))
    assert (decision.action, model.requests, model.cut_off) == ("advance", 2, True)
    (failed,) = [event.body for event in store.events("t1") if isinstance(event.body, ReplyFailed)]
    assert (failed.error, failed.detail) == ("invalid", "The reply took longer than 0.05 s and was cut off.")


async def test_last_replies_share_one_time_once_the_task_is_out_of_time(store: Store) -> None:
    model = Endless(endless=9)
    job = other_job(make_job(store, work(), {None: model}), limits=Limits(seconds=0.2), last_seconds=0.3)
    job.state.clock.started_at = job.clock.now()
    decision = await run_flow(job)
    assert (decision.action, decision.reason) == ("stuck", "limit_seconds")
    # One reply that ran out of time, and one in the final turn, which took the rest: no third is asked for.
    assert (model.requests, job.models.last_seconds) == (2, 0.0)


def calling(name: str, arguments: str) -> Reply:
    return Reply(Message("assistant", "", (ToolCall(name, name, arguments),)), finish="calls")


async def test_a_long_status_is_cut_in_the_log_and_the_limit_is_the_stage_s_own(store: Store) -> None:
    said = {"status": "in_progress", "done": "word " * 10_000, "pending": "b", "now": "c"}
    flags = {"ready_for_final_report": False, "need_to_run_more_tools": True}
    model = ScriptedModel([calling(STATUS_TOOL, json.dumps(said | flags)), calling(*DONE)])
    job = make_job(store, work(budget=Budget(standalone_status=4)), {None: model})
    job.parts.tools = {**job.parts.tools, STATUS_TOOL: task_status}
    await run_flow(job)
    given = [event.body for event in store.events(TASK.id) if isinstance(event.body, TaskStatusGiven)]
    assert [(len(body.done), body.done[-1], body.now) for body in given] == [(200, "\u2026", "c")]
    told = next(spec for spec in model.requests[0].tools if spec.name == STATUS_TOOL)
    assert "call it alone 4 times, or report completed," in told.description


async def test_a_file_that_changed_from_outside_is_read_again(store: Store) -> None:
    file = store.path.parent / "repo" / "big.txt"

    def read_when_changed(request: Request) -> Reply:
        file.write_text("another line\n" * 200)
        return calling(*READ)

    def conclude(request: Request) -> Reply:
        told.append(request.messages[-1].content)
        return calling(*DONE)

    told: list[str] = []
    model = ScriptedModel([*[calling(*READ)] * 4, read_when_changed, conclude])
    await run_flow(make_job(store, work(), {None: model}))
    finished = [event.body for event in store.events(TASK.id) if isinstance(event.body, ToolFinished)]
    assert [body.error for body in finished] == ["", "", "", "repeated", "", ""]
    assert "another line" in told[0]

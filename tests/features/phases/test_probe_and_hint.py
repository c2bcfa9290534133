"""The probe and the hint: what a classifier is asked, what becomes of its answer, what stays untouched."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from headgate.config import PhaseControl
from headgate.core import (
    Flow,
    Message,
    ModelSettings,
    Reply,
    Request,
    Stage,
    Task,
    ToolCall,
    Usage,
    expand_flow,
)
from headgate.engine import CHECK_SPECS
from headgate.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable, ReplyInvalid
from headgate.features.phases.classifier import Digest, ask_classifier, digest_turn, probe_request
from headgate.features.phases.events import PhaseChanged, PhaseProbed, Phases, PhaseState
from headgate.features.phases.feature import (
    SILENCES,
    PhaseSettings,
    add_hint,
    follow_phase,
    hint_of,
    with_hint,
)
from headgate.library.surroundings import NoTree
from headgate.log import Bus, Store, TaskLog
from headgate.models import ScriptedModel
from headgate.run import Entrance, StageRun, run_flow
from headgate.tools import ToolContext, ls, read_file
from headgate.tree import DiskWorkspace
from jobs import job_of, other_job

USAGE = Usage(40, 2)
SETTINGS = ModelSettings(model="openai/script")
LLM = PhaseControl(mode="llm")
DIGEST = Digest(tools="ls", files_read="a.py", text="I see.")
FIRST = Entrance()
DONE = Reply(Message("assistant", "Done."))
TASK = Task(id="t1", text="Look.", goal="Look.")

Answer = Callable[[Request], Awaitable[Reply]]


@dataclass
class Oracle:
    """A model that answers as it is told to and keeps the requests."""

    answer: Answer
    name: str = "oracle"
    requests: list[Request] = field(default_factory=list)

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.requests.append(request)
        return await self.answer(request)


def says(text: str, *calls: ToolCall) -> Oracle:
    async def answer(request: Request) -> Reply:
        return Reply(Message("assistant", text, calls), USAGE)

    return Oracle(answer)


def fails(error: Exception) -> Oracle:
    async def answer(request: Request) -> Reply:
        raise error

    return Oracle(answer)


def hangs() -> Oracle:
    async def answer(request: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    return Oracle(answer)


async def ask(model: Oracle, control: PhaseControl = LLM, seconds: float = 20) -> PhaseProbed:
    return await ask_classifier(model, SETTINGS, control, "plan", DIGEST, seconds)


async def test_the_probe_has_no_tools_and_no_history() -> None:
    probe = {
        "temperature": 0.2,
        "max_tokens": 9,
        "system_prompt": "One of {states}.",
        "user_prompt": '{phase}/{tools}/{text} {other} {"phase": "{phase}"}',
    }
    model = says("plan")
    assert (await ask(model, PhaseControl.model_validate({"mode": "llm", "probe": probe}))).answer == "plan"
    asked = (
        Message("system", "One of context, plan, implement."),
        Message("user", 'plan/ls/I see. {other} {"phase": "plan"}'),
    )
    assert model.requests == [Request(asked, (), 0.2, 9)]


def test_the_built_in_question_is_filled_in_whole() -> None:
    digest = Digest("ls, read_file (failed)", "a.py", "b.py", "I {will} edit {phase}.")
    request = probe_request(LLM, "plan", digest)
    assert (request.tools, request.temperature, request.max_tokens) == ((), 0, 64)
    system, question = request.messages
    assert (system.role, question.role) == ("system", "user")
    assert question.content == (
        "Phases, in order: context, plan, implement\n"
        "Current phase: plan\n"
        "Tools called in the last turn: ls, read_file (failed)\n"
        "Files read so far: a.py\n"
        "Files changed so far: b.py\n"
        "The agent's last message: I {will} edit {phase}.\n\n"
        "Which phase comes next? Answer with one of: context, plan, implement"
    )


def test_no_empty_system_message_is_sent() -> None:
    control = PhaseControl.model_validate({"probe": {"system_prompt": "", "user_prompt": "?"}})
    assert probe_request(control, "plan", DIGEST).messages == (Message("user", "?"),)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ModelUnavailable("It is down.", retry_after=5), "unavailable"),
        (ModelRefused("It will not."), "refused"),
        (ReplyInvalid("It is garbled."), "invalid"),
        (ContextOverflow("It is full."), "overflow"),
        (ModelError("It is odd."), "refused"),
    ],
)
async def test_a_failing_model_is_no_answer(error: ModelError, fault: str) -> None:
    probe = await ask(fails(error))
    assert (probe.answer, probe.fault, probe.detail) == ("", fault, str(error))
    assert (probe.prompt_tokens, probe.model) == (0, SETTINGS.model)


async def test_a_model_that_hangs_is_left() -> None:
    probe = await ask(hangs(), seconds=0.01)
    assert (probe.fault, probe.detail) == ("timeout", "no answer within 0.01 s")


@pytest.mark.parametrize(
    ("model", "detail"),
    [
        (says(""), "it said: nothing"),
        (says("Sure!\nLet me\tthink."), "it said: Sure! Let me think."),
        (says("", ToolCall("c1", "plan", '{"phase": "plan"}')), "it said: nothing"),
        (says("z" * 100_000 + " plan"), "it said: " + "z" * 120),
        (says("lone \ud800"), "it said: lone \ufffd"),
    ],
)
async def test_nonsense_is_no_answer_and_still_costs(model: Oracle, detail: str) -> None:
    probe = await ask(model)
    assert (probe.answer, probe.fault, probe.detail, probe.prompt_tokens) == ("", "unreadable", detail, 40)


async def test_tool_calls_in_an_answer_are_ignored() -> None:
    assert (await ask(says("plan", ToolCall("c1", "shell", '{"command": "false"}')))).answer == "plan"


async def test_a_cancelled_task_stays_cancelled() -> None:
    asking = asyncio.create_task(ask(hangs()))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_an_error_of_our_own_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        await ask(fails(ZeroDivisionError()))


@pytest.mark.parametrize(
    ("prompts", "phase", "hint"),
    [
        ({}, "context", "Before making changes, read the relevant files."),
        ({}, "plan", "Outline a short plan before editing."),
        ({}, "implement", "Make the code changes now."),
        ({"plan": " Think.\n"}, "plan", "Think."),
        ({"plan": ""}, "plan", ""),
        ({}, "review", ""),
    ],
)
def test_a_phase_has_at_most_one_hint(prompts: dict[str, str], phase: str, hint: str) -> None:
    assert hint_of(PhaseControl(prompts=prompts), phase) == hint


def test_the_hint_goes_last_and_what_is_stored_stays() -> None:
    stored = [Message("system", "You work."), Message("user", "Do it.")]
    stored[0].wire["json"] = b"as it was encoded"
    before = deepcopy(stored)
    sent = with_hint(stored, "Read.", "tail")
    assert list(sent) == [*stored, Message("user", "Read.")]
    assert all(mine is theirs for mine, theirs in zip(sent, stored, strict=False))
    assert stored == before


def test_the_hint_may_join_the_system_prompt_without_its_old_encoding() -> None:
    stored = [Message("system", "You work."), Message("user", "Do it.")]
    stored[0].wire["json"] = b"as it was encoded"
    sent = with_hint(stored, "Read.", "system")
    assert list(sent) == [Message("system", "You work.\n\nRead."), stored[1]]
    assert sent[0].wire == {}
    assert sent[1] is stored[1]
    assert stored[0] == Message("system", "You work.")
    assert list(with_hint(stored[1:], "Read.", "system")) == [Message("system", "Read."), stored[1]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "headgate.db")
    opened.add_task(lambda task_id: TASK, 0.0)
    yield opened
    opened.close()


async def stage_after(
    store: Store, turns: list[Reply], entrance: Entrance = FIRST, control: PhaseControl = LLM
) -> StageRun:
    """A stage after these turns of a real run."""
    repo = store.path.parent / "repo"
    repo.mkdir()
    for number in range(12):
        (repo / f"f{number:02}.txt").write_text("text\n")
    stage = Stage(id="work", allow_missing_done=True)
    bus = Bus()

    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    job = job_of(
        task=TASK,
        flow=expand_flow(Flow(name="test", stages=(stage,)), [ls.spec, read_file.spec], CHECK_SPECS),
        log=TaskLog(store, bus, TASK, time.time),
        models={None: ScriptedModel(turns)},
        model_settings={None: SETTINGS},
        tools={tool.name: tool for tool in (ls, read_file)},
        context=ToolContext(workspace=DiskWorkspace(repo), save_output=lambda text: "saved"),
        verifier=None,
        tree=NoTree(),
        redact=lambda text: text.replace("hunter2", "[secret]"),
        now=time.time,
        sleep=no_sleep,
        pulse=bus.pulse,
        of_features={PhaseSettings: PhaseSettings(control=control)},
        features=(),
    )
    await run_flow(job)
    return StageRun(job, stage, "work", entrance)


def reads(*names: str, text: str = "") -> Reply:
    calls = tuple(
        ToolCall(f"{name}-{number}", "read_file", f'{{"path": "{name}"}}')
        for number, name in enumerate(names)
    )
    return Reply(Message("assistant", text, calls), USAGE, "calls")


async def test_a_digest_tells_the_last_turn_without_secrets(store: Store) -> None:
    said = "old words " * 100 + "The password is hunter2.\nNow I look."
    turns = [reads("f00.txt"), reads("f01.txt", "gone.txt", text=said)]
    run = await stage_after(store, [*turns, DONE])
    del run.transcript.messages[-1]
    digest = digest_turn(run)
    assert (digest.tools, digest.files_read) == ("read_file, read_file (failed)", "f00.txt, f01.txt")
    assert digest.files_changed == "none"
    assert digest.text.endswith("old words The password is [secret]. Now I look.")
    assert len(digest.text) <= 600


async def test_a_digest_is_bounded_however_much_happened(store: Store) -> None:
    many = reads(*(f"f{number:02}.txt" for number in range(12)))
    last = ToolCall("c", "t" * 500 + "\n", "{}")
    run = await stage_after(store, [many, DONE])
    run.transcript.add(Message("assistant", "", (last,) * 30, reasoning="thought " * 1_000))
    digest = digest_turn(run)
    listed = ", ".join(f"f{number:02}.txt" for number in range(2, 12))
    assert digest.files_read == f"2 others, {listed}"
    assert digest.tools == "20 others, " + ", ".join(["t" * 120] * 10)
    assert digest.text.endswith("thought thought")
    assert len(probe_request(LLM, "context", digest).messages[1].content) < 4_000


async def test_before_the_first_reply_a_digest_is_empty(store: Store) -> None:
    run = await stage_after(store, [reads("f00.txt"), DONE])
    run.transcript.messages.clear()
    assert digest_turn(run) == Digest()


def now(run: StageRun) -> PhaseState:
    return run.job.state[Phases].now


async def follow(store: Store, run: StageRun, model: Oracle) -> list[PhaseProbed | PhaseChanged]:
    """What is recorded after a turn if this is the classifier."""
    run = StageRun(other_job(run.job, models={None: model}), run.stage, run.path, run.entrance)
    before = len(list(store.events(TASK.id)))
    await follow_phase(run)
    recorded = [event.body for event in list(store.events(TASK.id))[before:]]
    return [body for body in recorded if isinstance(body, PhaseProbed | PhaseChanged)]


CHANGED = PhaseChanged(before="context", phase="implement", by="llm", reason="the classifier chose it")
BY_RULES = PhaseChanged(before="context", phase="plan", by="rules", reason="1 file was read")


@pytest.mark.parametrize(
    ("mode", "read", "change", "asked"),
    [
        ("off", True, [], 0),
        ("rules", True, [BY_RULES], 0),
        ("rules", False, [], 0),
        ("hybrid", True, [BY_RULES], 0),
        ("hybrid", False, [CHANGED], 1),
        ("llm", True, [CHANGED], 1),
    ],
)
async def test_each_mode_asks_only_where_it_should(
    store: Store, mode: str, read: bool, change: list[PhaseChanged], asked: int
) -> None:
    control = PhaseControl.model_validate({"mode": mode})
    run = await stage_after(store, [DONE], control=control)
    run.job.state[Phases].now = PhaseState(files_read=frozenset({"a.py"} if read else ()))
    model = says("implement")
    recorded = await follow(store, run, model)
    assert [body for body in recorded if isinstance(body, PhaseChanged)] == change
    assert (len(recorded) - len(change), len(model.requests)) == (asked, asked)


async def test_the_classifier_may_go_back_and_may_let_it_be(store: Store) -> None:
    run = await stage_after(store, [DONE], control=PhaseControl(mode="hybrid"))
    run.job.state[Phases].now = PhaseState("implement", frozenset({"a.py"}), wrote=True, silences=1)
    assert len(await follow(store, run, says("Implement."))) == 1
    assert now(run) == PhaseState("implement", frozenset({"a.py"}), wrote=True)
    await follow(store, run, says('{"phase": "plan"}'))
    assert now(run) == PhaseState("plan")


async def test_one_state_leaves_nothing_to_classify(store: Store) -> None:
    run = await stage_after(store, [DONE], control=PhaseControl(mode="llm", states=("context",)))
    assert await follow(store, run, says("context")) == []


async def test_a_silent_classifier_is_not_asked_for_ever(store: Store) -> None:
    run = await stage_after(store, [DONE], control=PhaseControl(mode="hybrid"))
    model = says("The password is hunter2.")
    for _ in range(SILENCES + 3):
        for body in await follow(store, run, model):
            assert isinstance(body, PhaseProbed)
            assert body.detail == "it said: The password is [secret]."
    assert (len(model.requests), now(run).silences) == (SILENCES, SILENCES)
    run.job.state[Phases].now = replace(now(run), files_read=frozenset({"a.py"}))
    assert (await follow(store, run, model), now(run).silences) == ([BY_RULES], 0)
    await follow(store, run, model)
    assert len(model.requests) == SILENCES + 1


async def test_a_probe_leaves_the_transcript_untouched(store: Store) -> None:
    run = await stage_after(store, [reads("f00.txt"), DONE])
    before, model = deepcopy(run.transcript), says("plan")
    await follow(store, run, model)
    view = run.transcript.view
    assert list(add_hint(run, view)) == [*view, Message("user", "Outline a short plan before editing.")]
    assert run.transcript == before
    said = {message.content for message in run.transcript.messages if message.content}
    assert not any(message.content in said for message in model.requests[0].messages)


@pytest.mark.parametrize(
    ("entrance", "granted", "control"),
    [
        (FIRST, True, LLM),
        (Entrance("replan"), False, LLM),
        (FIRST, False, PhaseControl(prompts={"context": "Read."})),
        (FIRST, False, PhaseControl(mode="rules", prompts={"context": ""})),
    ],
    ids=["a final turn", "a new plan", "off", "no hint"],
)
async def test_without_a_hint_the_view_itself_is_sent(
    store: Store, entrance: Entrance, granted: bool, control: PhaseControl
) -> None:
    run = await stage_after(store, [DONE], entrance, control)
    run.state.counts.granted = granted
    assert add_hint(run, run.transcript.view) is run.transcript.view

"""The probe and the hint: what a classifier is asked, what becomes of its answer, what stays untouched."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headgate.core import (
    SILENCES,
    Flow,
    Message,
    ModelSettings,
    PhaseControl,
    PhaseState,
    Reply,
    Request,
    Stage,
    Task,
    ToolCall,
    Usage,
    expand_flow,
)
from headgate.core.phases import PhaseProbe, Signals
from headgate.engine import CHECK_SPECS
from headgate.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable, ReplyInvalid
from headgate.library.surroundings import NoTree
from headgate.log import Bus, Store, TaskLog
from headgate.models import ScriptedModel
from headgate.run import KINDS, Entrance, StageRun
from headgate.run.attempts import complete_stage
from headgate.run.phases import (
    Digest,
    PhaseStep,
    ProbeResult,
    digest_turn,
    hint_message,
    messages_to_send,
    next_phase,
    probe_request,
    with_hint,
)
from headgate.tools import ToolContext, ls, read_file
from headgate.tree import DiskWorkspace
from jobs import job_of

USAGE = Usage(40, 2)
LLM = PhaseControl(mode="llm")
HYBRID = PhaseControl(mode="hybrid")
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


async def test_the_classifier_names_the_phase() -> None:
    model = says("implement")
    step = await next_phase(model, LLM, PhaseState(), DIGEST)
    state, probe = PhaseState("implement"), ProbeResult("implement", USAGE)
    assert step == PhaseStep(state, "context", "implement", "llm", "the classifier chose it", probe)


async def test_the_classifier_may_go_back_and_may_let_it_be() -> None:
    state = PhaseState("implement", frozenset({"a.py"}), wrote=True, silences=1)
    back = await next_phase(says('{"phase": "plan"}'), HYBRID, state, DIGEST)
    assert (back.state, back.phase) == (PhaseState("plan"), "plan")
    same = await next_phase(says("Implement."), HYBRID, state, DIGEST)
    heard = PhaseState("implement", frozenset({"a.py"}), wrote=True)
    assert same == PhaseStep(heard, "implement", "implement", probe=ProbeResult("implement", USAGE))


async def test_the_probe_has_no_tools_and_no_history() -> None:
    control = PhaseControl(
        mode="llm",
        probe=PhaseProbe(
            temperature=0.2,
            max_tokens=9,
            system_prompt="One of {states}.",
            user_prompt="{phase}/{tools}/{text}",
        ),
    )
    model = says("plan")
    await next_phase(model, control, PhaseState("implement"), DIGEST)
    asked = (
        Message("system", "One of context, plan, implement."),
        Message("user", "implement/ls/I see."),
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
    control = PhaseControl(mode="llm", probe=PhaseProbe(system_prompt="", user_prompt="?"))
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
async def test_a_failing_model_changes_nothing(error: ModelError, fault: str) -> None:
    state = PhaseState("plan", frozenset({"a.py"}))
    step = await next_phase(fails(error), LLM, state, DIGEST)
    assert step.probe is not None
    assert (step.probe.fault, step.probe.detail, step.probe.usage) == (fault, str(error), Usage())
    assert (step.phase, step.by, step.state) == ("plan", None, state.hear(False))


async def test_a_model_that_hangs_is_left() -> None:
    step = await next_phase(hangs(), LLM, PhaseState("plan"), DIGEST, seconds=0.01)
    probe = ProbeResult(fault="timeout", detail="no answer within 0.01 s")
    assert step == PhaseStep(PhaseState("plan", silences=1), "plan", "plan", probe=probe)


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
async def test_nonsense_changes_nothing_and_still_costs(model: Oracle, detail: str) -> None:
    step = await next_phase(model, LLM, PhaseState(), DIGEST)
    probe = ProbeResult(None, USAGE, "unreadable", detail)
    assert step == PhaseStep(PhaseState(silences=1), "context", "context", probe=probe)


async def test_tool_calls_in_an_answer_are_ignored() -> None:
    model = says("plan", ToolCall("c1", "shell", '{"command": "false"}'))
    assert (await next_phase(model, LLM, PhaseState(), DIGEST)).phase == "plan"


async def test_a_cancelled_task_stays_cancelled() -> None:
    asking = asyncio.create_task(next_phase(hangs(), LLM, PhaseState(), DIGEST))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert asking.cancelled()


async def test_an_error_of_our_own_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        await next_phase(fails(ZeroDivisionError()), LLM, PhaseState(), DIGEST)


async def test_a_silent_classifier_is_not_asked_for_ever() -> None:
    model, state = says("?"), PhaseState()
    for _ in range(SILENCES + 3):
        state = (await next_phase(model, HYBRID, state, DIGEST)).state
    assert (len(model.requests), state.silences) == (SILENCES, SILENCES)
    step = await next_phase(model, HYBRID, state.count(Signals(read=("a.py",))), DIGEST)
    assert (step.phase, step.by, step.state.silences) == ("plan", "rules", 0)
    await next_phase(model, HYBRID, step.state, DIGEST)
    assert len(model.requests) == SILENCES + 1


@pytest.mark.parametrize(
    ("mode", "read", "phase", "by", "asked"),
    [
        ("off", True, "context", None, 0),
        ("rules", True, "plan", "rules", 0),
        ("rules", False, "context", None, 0),
        ("hybrid", True, "plan", "rules", 0),
        ("hybrid", False, "implement", "llm", 1),
        ("llm", True, "implement", "llm", 1),
    ],
)
async def test_each_mode_asks_only_where_it_should(
    mode: str, read: bool, phase: str, by: str | None, asked: int
) -> None:
    model = says("implement")
    state = PhaseState().count(Signals(read=("a.py",) if read else ()))
    step = await next_phase(model, PhaseControl.model_validate({"mode": mode}), state, DIGEST)
    assert (step.phase, step.by, len(model.requests)) == (phase, by, asked)


@pytest.mark.parametrize(
    ("fields", "phase", "hint"),
    [
        ({"mode": "off"}, "context", None),
        ({"mode": "off", "prompts": {"context": "Read."}}, "context", None),
        ({"mode": "rules"}, "context", "Before making changes, read the relevant files."),
        ({"mode": "llm"}, "plan", "Outline a short plan before editing."),
        ({"mode": "hybrid"}, "implement", "Make the code changes now."),
        ({"mode": "rules", "prompts": {"plan": " Think.\n"}}, "plan", "Think."),
        ({"mode": "rules", "prompts": {"plan": ""}}, "plan", None),
        ({"mode": "rules", "states": ["review"], "default": "review"}, "review", None),
    ],
)
def test_a_phase_has_at_most_one_hint(fields: dict[str, object], phase: str, hint: str | None) -> None:
    message = hint_message(PhaseControl.model_validate(fields), phase)
    assert message == (Message("user", hint) if hint else None)


def test_the_hint_goes_last_and_what_is_stored_stays() -> None:
    stored = [Message("system", "You work."), Message("user", "Do it.")]
    stored[0].wire["json"] = b"as it was encoded"
    before = deepcopy(stored)
    control = PhaseControl(mode="rules", prompts={"context": "Read."})
    sent = with_hint(stored, control, "context", "tail")
    assert list(sent) == [*stored, Message("user", "Read.")]
    assert all(mine is theirs for mine, theirs in zip(sent, stored, strict=False))
    assert stored == before


def test_the_hint_may_join_the_system_prompt_without_its_old_encoding() -> None:
    stored = [Message("system", "You work."), Message("user", "Do it.")]
    stored[0].wire["json"] = b"as it was encoded"
    control = PhaseControl(mode="rules", prompts={"context": "Read."})
    sent = with_hint(stored, control, "context", "system")
    assert list(sent) == [Message("system", "You work.\n\nRead."), stored[1]]
    assert sent[0].wire == {}
    assert sent[1] is stored[1]
    assert stored[0] == Message("system", "You work.")
    assert list(with_hint(stored[1:], control, "context", "system")) == [
        Message("system", "Read."),
        stored[1],
    ]


def test_without_a_hint_the_view_itself_is_sent() -> None:
    stored = [Message("user", "Do it.")]
    assert with_hint(stored, PhaseControl(), "context", "tail") is stored


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "headgate.db")
    opened.add_task(lambda task_id: TASK, 0.0)
    yield opened
    opened.close()


async def stage_after(store: Store, turns: list[Reply], entrance: Entrance = FIRST) -> StageRun:
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
        kinds=KINDS,
        log=TaskLog(store, bus, TASK, time.time),
        models={None: ScriptedModel(turns)},
        model_settings={None: ModelSettings(model="openai/script")},
        tools={tool.name: tool for tool in (ls, read_file)},
        context=ToolContext(workspace=DiskWorkspace(repo), save_output=lambda text: "saved"),
        verifier=None,
        tree=NoTree(),
        redact=lambda text: text.replace("hunter2", "[secret]"),
        now=time.time,
        sleep=no_sleep,
        pulse=bus.pulse,
    )
    await complete_stage(job, stage, "", FIRST)
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


async def test_a_probe_leaves_transcript_and_log_untouched(store: Store) -> None:
    run = await stage_after(store, [reads("f00.txt"), DONE])
    before = deepcopy((run.transcript, run.job.state))
    model = says("plan")
    step = await next_phase(model, LLM, PhaseState(), digest_turn(run))
    sent = messages_to_send(run, run.transcript.view, LLM, step.state, "tail")
    assert sent[-1] == Message("user", "Outline a short plan before editing.")
    assert list(sent[:-1]) == run.transcript.view
    assert (run.transcript, run.job.state) == before
    said = {message.content for message in run.transcript.messages if message.content}
    assert not any(message.content in said for message in model.requests[0].messages)


async def test_a_final_turn_has_no_hint(store: Store) -> None:
    run = await stage_after(store, [reads("f00.txt"), DONE])
    run.state.counts.granted = True
    view = run.transcript.view
    assert messages_to_send(run, view, LLM, PhaseState("implement"), "tail") is view


async def test_a_replan_has_no_hint(store: Store) -> None:
    run = await stage_after(store, [reads("f00.txt"), DONE], Entrance("replan"))
    view = run.transcript.view
    assert messages_to_send(run, view, LLM, PhaseState("implement"), "tail") is view

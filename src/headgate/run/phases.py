"""Phase control at work: what the classifier is asked after a turn, and where the hint goes."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from headgate.config import prompt
from headgate.core import (
    CONTEXT,
    IMPLEMENT,
    PLAN,
    SILENCES,
    Message,
    Model,
    Mover,
    PhaseChanged,
    PhaseControl,
    PhaseProbed,
    Phases,
    PhaseState,
    PromptPlace,
    Request,
    Usage,
    advance,
    clean_text,
    current_phase,
    estimate_missing,
    fill_question,
    read_answer,
    spent,
)
from headgate.errors import ContextOverflow, ModelError, ModelUnavailable, ReplyInvalid
from headgate.run.stage import StageRun

PROBE_SECONDS = 20.0
TEXT_CHARS, NAME_CHARS, LISTED = 600, 120, 10
_BUILT_IN = {name: f"phase_{name}" for name in (CONTEXT, PLAN, IMPLEMENT)}

Fault = Literal["", "unavailable", "refused", "invalid", "overflow", "timeout", "unreadable"]


@dataclass(frozen=True, slots=True)
class Digest:
    """What a classifier is told: the last turn in a few lines, never the history."""

    tools: str = "none"
    files_read: str = "none"
    files_changed: str = "none"
    text: str = "nothing"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe returned. Its tokens count, also when its answer does not."""

    answer: str | None = None
    """The state that was named."""
    usage: Usage = field(default_factory=Usage)
    fault: Fault = ""
    """Why there is no answer."""
    detail: str = ""
    estimated: bool = False
    """Whether some of the tokens were estimated."""


@dataclass(frozen=True, slots=True)
class PhaseStep:
    """What a turn did to the phase: what is to be recorded."""

    state: PhaseState
    before: str
    phase: str
    by: Mover | None = None
    """Who moved it; None where it stays."""
    reason: str = ""
    probe: ProbeResult | None = None
    """None where the model was not asked."""


async def follow_phase(run: StageRun) -> None:
    """Works out the phase after a turn that is already committed: nothing here can undo or end it."""
    job = run.job
    model = job.models.clients[run.stage.model]
    left = [seconds for seconds in (run.seconds_left(), job.seconds_left()) if seconds is not None]
    seconds = max(min([PROBE_SECONDS, *left]), 0.0)
    step = await next_phase(model, job.pinned.phase_control, job.state[Phases].now, digest_turn(run), seconds)
    if probe := step.probe:
        cost = spent(probe.usage, job.models.settings[run.stage.model], estimated=probe.estimated)
        detail = job.place.redact(probe.detail)
        run.record(PhaseProbed(answer=probe.answer or "", fault=probe.fault, detail=detail, **cost))
    if step.by:
        run.record(PhaseChanged(before=step.before, phase=step.phase, by=step.by, reason=step.reason))
    await job.log.commit()


async def next_phase(
    model: Model, control: PhaseControl, state: PhaseState, digest: Digest, seconds: float = PROBE_SECONDS
) -> PhaseStep:
    """The phase after a turn. `state` has counted the turn; whatever becomes of a probe, the task goes on."""
    before = current_phase(control, state)
    state, reason = advance(control, state)
    if reason:
        return PhaseStep(state, before, current_phase(control, state), "rules", reason)
    if not control.uses_probe or state.silences >= SILENCES:
        return PhaseStep(state, before, before)
    probe = await ask_classifier(model, control, before, digest, seconds)
    state = state.hear(probe.answer is not None)
    if probe.answer is None or probe.answer == before:
        return PhaseStep(state, before, before, probe=probe)
    moved = state.move(probe.answer, "llm")
    return PhaseStep(moved, before, probe.answer, "llm", "the classifier chose it", probe)


async def ask_classifier(
    model: Model, control: PhaseControl, phase: str, digest: Digest, seconds: float = PROBE_SECONDS
) -> ProbeResult:
    """One request without tools and without history. Only cancelling it gets out of here."""
    try:
        async with asyncio.timeout(seconds):
            request = probe_request(control, phase, digest)
            reply = estimate_missing(await model.reply(request), request)
    except TimeoutError:
        return ProbeResult(fault="timeout", detail=f"no answer within {seconds:g} s")
    except ModelError as error:
        return ProbeResult(fault=_fault_of(error), detail=_one_line(str(error), NAME_CHARS))
    answer = read_answer(control, reply.message.content)
    if answer is None:
        said = _one_line(reply.message.content, NAME_CHARS) or "nothing"
        told = f"it said: {said}"
        return ProbeResult(None, reply.usage + reply.aside, "unreadable", told, reply.estimated)
    return ProbeResult(answer, reply.usage + reply.aside, estimated=reply.estimated)


def probe_request(control: PhaseControl, phase: str, digest: Digest) -> Request:
    """What the classifier is asked."""
    probe = control.probe
    system = prompt("phase_probe_system") if probe.system_prompt is None else probe.system_prompt
    question = prompt("phase_probe") if probe.user_prompt is None else probe.user_prompt
    values = {"phase": phase, "states": ", ".join(control.states), **asdict(digest)}
    asked = Message("user", fill_question(question, values))
    # An empty system message is an error to some servers.
    messages = (Message("system", fill_question(system, values)), asked) if system.strip() else (asked,)
    return Request(messages, (), probe.temperature, probe.max_tokens)


def digest_turn(run: StageRun) -> Digest:
    """The last turn of a stage, with secrets replaced: the calls, the last words, and the task's files."""
    results: dict[str, bool] = {}
    for message in reversed(run.transcript.messages):
        if message.role == "tool":
            results[message.call_id] = message.failed
        elif message.role == "assistant":
            redact, state = run.job.place.redact, run.job.state
            calls = [f"{call.name}{' (failed)' if results.get(call.id) else ''}" for call in message.calls]
            said = redact(message.content.strip() or message.reasoning.strip())
            return Digest(
                tools=_list(calls, redact),
                files_read=_list(state.files_read, redact),
                files_changed=_list(state.files_changed, redact),
                # What an agent says last is what it is about to do.
                text=_one_line(said[-TEXT_CHARS:], TEXT_CHARS) or "nothing",
            )
    return Digest()


def hint_of(control: PhaseControl, phase: str) -> str:
    """The hint of a phase; empty where there is none, or phase control is off."""
    if control.mode == "off":
        return ""
    own = control.prompts.get(phase)
    if own is None:
        own = prompt(_BUILT_IN[phase]) if phase in _BUILT_IN else ""
    return own.strip()


def hint_message(control: PhaseControl, phase: str) -> Message | None:
    """The hint as the last message of a request. It is sent and never stored."""
    hint = hint_of(control, phase)
    return Message("user", hint) if hint else None


def messages_to_send(
    run: StageRun, view: Sequence[Message], control: PhaseControl, state: PhaseState, place: PromptPlace
) -> Sequence[Message]:
    """What the model is sent of a transcript, with the hint of the task's phase.

    A final turn and a new plan have instructions of their own, which no hint may contradict.
    """
    if run.state.counts.granted or run.entrance.reason == "replan":
        return view
    return with_hint(view, control, current_phase(control, state), place)


def with_hint(
    messages: Sequence[Message], control: PhaseControl, phase: str, place: PromptPlace
) -> Sequence[Message]:
    """The messages of a request, with the hint. What is stored stays as it is, and so does all it shares."""
    hint = hint_message(control, phase)
    if hint is None:
        return messages
    if place == "tail":
        return [*messages, hint]
    if not messages or messages[0].role != "system":
        return [Message("system", hint.content), *messages]
    # A message of its own: a copy would share the encoded form of the one without the hint.
    return [Message("system", f"{messages[0].content}\n\n{hint.content}"), *messages[1:]]


def _fault_of(error: ModelError) -> Fault:
    kinds: Mapping[type[ModelError], Fault] = {
        ModelUnavailable: "unavailable",
        ReplyInvalid: "invalid",
        ContextOverflow: "overflow",
    }
    return next((fault for kind, fault in kinds.items() if isinstance(error, kind)), "refused")


def _list(names: Collection[str], redact: Callable[[str], str]) -> str:
    """The latest names, and how many came before them."""
    shown = ", ".join(_one_line(redact(name), NAME_CHARS) for name in [*names][-LISTED:])
    left_out = len(names) - LISTED
    return f"{left_out} others, {shown}" if left_out > 0 else shown or "none"


def _one_line(text: str, chars: int) -> str:
    return clean_text(" ".join(text[: 4 * chars].split()))[:chars]

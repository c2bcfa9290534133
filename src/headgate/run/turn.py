"""One turn: a request, the reply, and the calls in it."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from headgate.config import fill
from headgate.core import (
    DONE_TOOL,
    TOOL_ALIASES,
    DecisionMade,
    Delta,
    DiagnosisGiven,
    Fault,
    Image,
    ImageAdded,
    Message,
    MessageAdded,
    Note,
    PromptCut,
    Reply,
    ReplyFailed,
    ReplyReceived,
    Request,
    Servers,
    ToolCall,
    VerifyRuns,
    bound_note,
    clean_text,
    cut_text,
    due_nudge,
    shorten,
    size_of,
)
from headgate.errors import (
    CallUnknown,
    ContextOverflow,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    ReplyInvalid,
)
from headgate.run.asking import ReplyTooLong, reply_in_time
from headgate.run.calls import answer_call, explain_refusal
from headgate.run.exits import clean_value, keep_refused_note, try_exit
from headgate.run.first_messages import context_block
from headgate.run.stage import StageRun
from headgate.run.transcript import reply_content

DIAGNOSIS_CHARS = 1_000
BROKEN_CHARS = 1_300
"""What is kept of a reply that cannot be used."""


async def take_turn(run: StageRun) -> None:
    """Asks the model once and carries out what it answers. Everything that happens is recorded."""
    run.turn += 1
    reply = await _ask(run)
    if reply is not None:
        message = reply.message
        asked = run.job.models.settings[run.stage.model]
        run.record(ReplyReceived.of(reply, asked), reply_content(message))
        run.transcript.add(message)
        if run.entrance.reason == "check_failed" and run.turn == 1 and run.job.state[VerifyRuns].failures:
            run.record(DiagnosisGiven(loop=run.job.state[VerifyRuns].loops, text=_diagnosis(run, message)))
        await _carry_out(run, message, cut_off=reply.finish == "length")
    await run.job.log.commit()
    if reply is None or run.state.ending is not None:
        return
    await _nudge(run)
    for feature in run.job.parts.features:
        if feature.after_turn:
            await feature.after_turn(run)


async def _nudge(run: StageRun) -> None:
    """Tells the model, once for each kind, that it goes in circles."""
    due = due_nudge(run.state.memory, run.stage.budget, run.state.can_write)
    if due is None or due[0] in run.state.nudged or run.state.counts.granted or run.state.counts.done:
        return
    kind, count = due
    name = run.state.memory.names.get(run.state.memory.latest, "The call")
    text = fill(f"nudge_{kind}", count=count, tool=name, done=run.scope.done.name)
    run.record(DecisionMade(action="nudge", reason=kind, detail=text.split(". ", maxsplit=1)[0].rstrip(".")))
    tell(run, f"nudge_{kind}", text, loop=kind)
    await run.job.log.commit()


async def finish_turn(run: StageRun, cut_off: bool) -> None:
    """After a crash: answers what the last reply asked for and nobody answered."""
    answered: set[str] = set()
    last = None
    for message in reversed(run.transcript.messages):
        if message.role != "tool":
            last = message
            break
        answered.add(message.call_id)
    if last is None or last.role != "assistant" or run.state.counts.verdict is not None:
        return
    open_calls = tuple(call for call in last.calls if call.id not in answered)
    if open_calls or not last.calls:
        await _carry_out(run, replace(last, calls=open_calls), cut_off)
    else:
        await _try_rules(run)
    await run.job.log.commit()


def tell(
    run: StageRun,
    slug: str,
    text: str,
    *,
    images: Sequence[tuple[str, Image]] = (),
    **facts: Any,
) -> None:
    """Puts a message of the runtime into the transcript; it is committed with what caused it.

    `images` go with it, by path. `facts`: what else `MessageAdded` says of it.
    """
    for path, image in images:
        run.record(ImageAdded(path=path, media_type=image.media_type), image.data)
    shown = tuple(image for _, image in images)
    message = Message("user", run.job.place.redact(clean_text(text)), images=shown)
    told = MessageAdded(role="user", slug=slug, **facts)
    run.record(told, message.content)
    run.transcript.add(message)
    run.transcript.note_lines(told.said, message)


async def _carry_out(run: StageRun, message: Message, cut_off: bool) -> None:
    """Answers the calls of a reply, or its silence."""
    # The closing signal is judged last, when the other calls of the same reply have run.
    for call in sorted(message.calls, key=lambda call: TOOL_ALIASES.get(call.name, call.name) == DONE_TOOL):
        await answer_call(await run.conversation.acting(run), call, cut_off)
    if not message.calls:
        await _answer_text(run, message, cut_off)
    await _try_rules(run)


async def _try_rules(run: StageRun) -> None:
    """A stage that needs no signal ends as soon as its checks hold."""
    if run.stage.advance == "rules":
        await run.job.log.commit()
        if run.state.counts.done is None and run.state.ending is None:
            await try_exit(run, _note_of_rules(run), by="rules")


def _note_of_rules(run: StageRun) -> Note:
    """The note of a stage that ends by its rules. In a part of the work, it holds what its tools returned."""
    if not run.stage.execution:
        return Note()
    ids = {
        message.call_id
        for message in run.transcript.messages
        if message.role == "tool" and not message.failed
    }
    results = [message.content for message in run.transcript.messages if message.call_id in ids]
    return bound_note(Note(summary="\n".join(results)))


async def _ask(run: StageRun) -> Reply | None:
    """The model's reply, fit for the transcript; None if there is none, with the reason in the log."""
    job = run.job
    sent = _messages(run)
    job.people.pulse("reading", total=int(run.transcript.tokens()))
    options = dict(run.stage.agent.options) if run.stage.agent else {}
    chars = run.transcript.view_chars + size_of(sent[len(run.transcript.view) :])
    scope = run.scope
    withheld = scope.withheld()
    request = Request(sent, scope.open, listed=scope.listed, withheld=withheld, chars=chars, **options)
    return await ask_model(run, request)


def _messages(run: StageRun) -> Sequence[Message]:
    """What the model is sent of the conversation."""
    view: Sequence[Message] = run.transcript.view
    if run.stage.variables and run.stage.view.transcript != "own":
        # In a conversation of several stages, they must be gone when the stage ends.
        view = [*view, Message("user", context_block(run.stage))]
    for feature in run.job.parts.features:
        view = feature.sends(run, view) if feature.sends else view
    return view


async def ask_model(run: StageRun, request: Request) -> Reply | None:
    """The reply to a request, fit for the log; None if there is none, with the reason in the log."""
    try:
        reply = await reply_in_time(
            run.job, run.stage.model, request, lambda delta: _pulse(run, delta), run.seconds_left()
        )
    except ModelUnavailable as error:
        run.retry_after = error.retry_after
        run.record(ReplyFailed(error="unavailable", detail=str(error), server=error.server))
    except ModelRefused as error:
        run.record(ReplyFailed(error="refused", detail=str(error)))
    except ContextOverflow as error:
        run.record(ReplyFailed(error="overflow", detail=str(error)))
    except ReplyInvalid as error:
        failed = ReplyFailed.unusable(error, run.job.models.settings[run.stage.model])
        # The model's side knows what was offered, not what there is elsewhere.
        if isinstance(error, CallUnknown) and (refusal := explain_refusal(run, error.name)):
            failed = failed.model_copy(update={"detail": refusal})
        if not request.tools:  # whole answers enter no conversation
            run.record(failed)
            return None
        _keep_broken(run, failed, error.said)
        if isinstance(error, ReplyTooLong):
            tell(run, "correct_too_long", fill("too_long"), fault="too_long")
        else:
            tell(
                run,
                "correct_bad_reply",
                fill("bad_reply", reason=failed.detail.rstrip(".")),
                fault="bad_reply",
            )
    except ModelError as error:
        run.record(ReplyFailed(error="refused", detail=str(error)))
    else:
        run.retry_after = None
        if reply.usage.prompt:
            run.transcript.measured(reply.cut.sent if reply.cut else reply.usage.prompt)
        if reply.cut and run.job.state[Servers].cut is None:
            model = run.job.models.settings[run.stage.model].model
            run.record(PromptCut(model=model, **asdict(reply.cut)))
        message = _encodable(reply.message)
        return reply if message is reply.message else replace(reply, message=message)
    return None


def _keep_broken(run: StageRun, failed: ReplyFailed, said: str) -> None:
    """Puts a reply that cannot be used into the conversation, as text: the correction is about it.

    A part of a call is no call, and a server may refuse it as one. A model copies what it sees, so of a long
    reply only the beginning and the end are kept.
    """
    kept = cut_text(run.job.place.redact(clean_text(said)).strip(), BROKEN_CHARS, "your reply")
    message = Message("assistant", kept)
    run.record(failed, reply_content(message) if kept else None)
    if kept:
        run.transcript.add(message)


def _diagnosis(run: StageRun, message: Message) -> str:
    """What the model said first after a failure, at most 80 words of it."""
    words = run.job.place.redact(message.content.strip() or message.reasoning.strip()).split()
    return shorten(" ".join(words[:80]), DIAGNOSIS_CHARS) or "No diagnosis was given."


def _encodable(message: Message) -> Message:
    """The message without lone surrogates, which neither the log nor a request can hold."""
    texts = [message.content, message.reasoning]
    for call in message.calls:
        texts += (call.id, call.name, call.arguments)
    whole = "".join(texts)
    if clean_text(whole) is whole:
        return message
    calls = tuple(ToolCall(*map(clean_text, (call.id, call.name, call.arguments))) for call in message.calls)
    content, reasoning = clean_text(message.content), clean_text(message.reasoning)
    return replace(message, content=content, reasoning=reasoning, calls=calls)


async def _answer_text(run: StageRun, message: Message, cut_off: bool) -> None:
    """A reply without calls: the end of the stage where that is allowed and true, otherwise a correction."""
    await run.job.log.commit()
    if run.state.counts.granted and not run.stage.allow_missing_done:
        if message.content.strip():
            keep_refused_note(run, _note_of(run, message))
        if run.state.counts.final_turns == 1:
            tell(run, "correct_final", fill("final_again", call=run.scope.final_call), fault="final")
        return
    if cut_off:
        tell(run, "correct_cut_off", fill("cut_off"), fault="cut_off")
        return
    # A model that tells what it will do before it has done anything has not ended; said twice, it has.
    meant = (
        bool(run.state.calls) or run.state.counts.faults[Fault("text_only")] > 0 or run.state.counts.granted
    )
    if run.stage.allow_missing_done and message.content.strip() and meant:
        note, answer = _note_of(run, message), run.job.place.redact(message.content.strip())
        missing = await try_exit(run, note, answer=answer, by="words")
        if missing and run.state.counts.granted:
            keep_refused_note(run, note)
        elif missing:
            tell(
                run,
                "correct_not_done",
                fill("not_done", stage=run.stage.id, reason=missing),
                fault="not_done",
            )
        return
    tell(
        run,
        "correct_text_only",
        fill("text_only", stage=run.stage.id, done=run.scope.done.name),
        fault="text_only",
    )


def _note_of(run: StageRun, message: Message) -> Note:
    """A reply in words as the note of the stage."""
    return bound_note(Note(summary=clean_value(run, message.content.strip())))


def _pulse(run: StageRun, delta: Delta) -> None:
    pulse = run.job.people.pulse
    if delta.read:
        pulse("reading", "", *delta.read)
    for source, text in (("text", delta.text), ("thinking", delta.reasoning), ("written", delta.arguments)):
        if text:
            pulse(source, text)
    if delta.tool:
        pulse("call", delta.tool)

"""The kind `talk`: a conversation with tools. Decide, ask, act, judge, until something else is decided.

Each step ends with one commit, so that what was counted up to there is all that the next one needs.
"""

import asyncio
from collections.abc import Awaitable, Callable

from headgate.config import fill
from headgate.core import (
    AWAY_SECONDS,
    RAN_OUT,
    Body,
    Decision,
    DecisionMade,
    Image,
    ImageAdded,
    Message,
    MessageAdded,
    Note,
    Person,
    ReplyFailed,
    ReplyReceived,
    Role,
    StageEnded,
    StageStarted,
    StopAsked,
    ToolFinished,
    VerifyRuns,
    ViewCompacted,
    bound_note,
    decide,
    list_names,
    parse_path,
    place_of,
    say_duration,
    say_reason,
    show_path,
    wait_seconds,
)
from headgate.run.asking import known_window
from headgate.run.exits import fail_if_too_little_done, try_exit
from headgate.run.first_messages import (
    NAMES_CHARS,
    find_missing_docs,
    nested_guides,
    open_task,
    opening_message,
    plan_message,
    results_elsewhere,
    said_before,
    stage_message,
    system_message,
)
from headgate.run.person import deliver_user_messages, record_user_messages
from headgate.run.stage import Conversation, Entrance, StageEnd, StageRun
from headgate.run.transcript import read_reply
from headgate.run.turn import finish_turn, take_turn, tell

COMPACT_AT, COMPACT_TO = 0.8, 0.5
GAVE_UP = ("failed_calls", "retry_exhaustion", "loop", "task_status_standalone_limit", "task_status_stuck")
"""Why a model is made to conclude whose work may be done all the same."""


_GOES_ON = ("advance", "skip", "fail")
"""The decisions after which other stages may read the conversation."""
Take = Callable[[StageRun], Awaitable[None]]


async def take_turns(run: StageRun, take: Take) -> StageEnd:
    """Decides, takes a turn, and so on, until something other than going on is decided."""
    while True:
        if end := await take_step(run, take):
            return end


async def take_step(run: StageRun, take: Take) -> StageEnd | None:
    """Decides, and takes a turn if that is decided; returns how the attempt ends, None if it goes on."""
    if run.job.people.stopping() and not run.state.counts.stopped:
        run.record(StopAsked())
        await run.job.log.commit()
    if run.job.people.lines():
        await record_user_messages(run)
    decision = decide(run.state.counts, run.around(), run.stage.budget)
    if decision.action == "advance":
        decision = await fail_if_too_little_done(run, decision)
    match decision.action:
        case "continue":
            await _make_room(run)
            await _take(run, take)
        case "wait":
            await _wait(run, decision)
            if not run.job.people.stopping():
                await _take(run, take)
        case "compact":
            await _compact(run, decision.reason, run.transcript.view_chars * COMPACT_TO)
        case "final_turn":
            await _grant_final_turn(run, decision)
        case _ if await _completes_without_signal(run, decision):
            pass
        case _:
            return StageEnd(decision, run.state.note or _note_of_runtime(run, decision))
    return None


async def _take(run: StageRun, take: Take) -> None:
    if run.job.state[Person].said:
        deliver_user_messages(run)
    await take(run)


async def open_conversation(run: StageRun, entry: Entrance, last: str = "") -> None:
    """What the model is told when a stage is entered; `last` comes at the end."""
    job, stage = run.job, run.stage
    run.transcript.begin_stage(place_of(run.path), run.path)
    if not run.transcript.messages:
        system = system_message(job, stage)
        run.record(MessageAdded(role="system", slug="system"), system)
        run.transcript.add(Message("system", system))
        await _tell_task(run)
        if stage.agent and stage.agent.context_transfer == "full" and (said := said_before(job, stage)):
            tell(run, "transfer", f"What was said in earlier stages:\n{said}")
    if stage.view.transcript == "parent":
        for name, text in results_elsewhere(job, stage, run.transcript):
            tell(run, f"result {name}", text, result_of=name)
    if entry.reason == "next":
        tell(run, "stage", stage_message(stage))
        run.transcript.rebuild(stage.view)
    if entry.cuts_view:
        await _compact(run, "replan", run.transcript.view_chars * COMPACT_TO)
    elif entry.message:
        tell(run, entry.reason, entry.message)
    if last:
        tell(run, "tasks", last)
    await job.log.commit()


async def say_stages_ended(run: StageRun) -> None:
    """Lets features know that stages of a conversation have ended."""
    for feature in run.job.parts.features:
        if feature.stages_ended:
            await feature.stages_ended(run)


async def _tell_task(run: StageRun) -> None:
    """The task, with what features attach to it."""
    lines = tuple(run.job.state[Person].said)
    opening = await asyncio.to_thread(open_task, run.job, run.stage)
    text = opening.text
    files = tuple(path for each in opening.attached for path in each.files)
    images = [image for each in opening.attached for image in each.images]
    guides: dict[str, str] = {}
    if run.job.pinned.agents_md and files:
        workspace = run.job.place.context.workspace
        guides = await asyncio.to_thread(nested_guides, workspace, run.transcript, files)
        run.transcript.guides_given.update(guides)
    text += "".join(guides.values())
    tell(run, "task", text, said=lines, images=images, guides=tuple(map(show_path, guides)))
    for each in opening.attached:
        if each.event:
            run.record(each.event)


async def _make_room(run: StageRun) -> None:
    """Cuts the view before the context window is full, by a lot at once, so that the prefix then stays."""
    for feature in run.job.parts.features:
        if feature.before_turn:
            await feature.before_turn(run)
    window = known_window(run.job, run.stage.model)
    if most := run.stage.view.max_tokens:
        window = min(window or most, most)
    tokens = run.transcript.tokens()
    # What a cut leaves may itself be large; cutting again at once would only cost the prefix.
    has_grown = run.transcript.view_chars > 1.2 * run.transcript.cut_to
    if window and tokens > COMPACT_AT * window and has_grown:
        await _compact(run, "window", run.transcript.view_chars * COMPACT_TO * window / tokens)
    elif cut := run.transcript.due_cut(run.stage.view):
        await _compact(run, cut.reason, cut.chars)
    if run.transcript.has_summaries and not run.transcript.has_notice:
        await _remind(run)


async def _compact(run: StageRun, reason: str, chars: float) -> None:
    transcript = run.transcript
    before = len(transcript.view)
    transcript.rebuild(run.stage.view, int(chars))
    run.record(
        ViewCompacted(
            reason=reason,
            messages_before=before,
            messages_after=len(transcript.view),
            chars=int(chars),
        )
    )
    message = Message("user", _notice(run, "compacted", _assignment(run)))
    said = tuple(run.job.state[Person].said) if _repeats_task(run) else ()
    run.record(MessageAdded(role="user", slug="compacted", said=said), message.content)
    transcript.add_notice(message)
    transcript.note_lines(said, message)
    await run.job.log.commit()


async def _remind(run: StageRun) -> None:
    """Says again what was in messages that summaries stand for: the plan, and what the stage is about."""
    asked = stage_message(run.stage)
    in_view = any(message.content == asked for message in reversed(run.transcript.view))
    message = Message("user", _notice(run, "stages_compacted", "" if in_view else asked))
    said = tuple(run.job.state[Person].said) if _repeats_task(run) else ()
    run.record(MessageAdded(role="user", slug="stages_compacted", said=said), message.content)
    run.transcript.add_reminder(message)
    run.transcript.note_lines(said, message)
    await run.job.log.commit()


def _notice(run: StageRun, name: str, assignment: str) -> str:
    """What the model is told when it no longer sees all that was said."""
    state, plan = run.job.state, plan_message(run.job, run.stage)
    plan = "\n".join(filter(None, (plan, run.conversation.recap(run))))
    text = fill(
        name,
        task=_task_again(run),
        files_read=list_names(list(state.files_read), 30, NAMES_CHARS) or "none",
        files_changed=list_names(list(state.files_changed), 100, NAMES_CHARS) or "none",
        plan=plan and f"\n{plan}",
        assignment=assignment,
    )
    return text.rstrip()


def _task_again(run: StageRun) -> str:
    """The task and its constraints, where the view does not keep the message that holds them."""
    if _repeats_task(run):
        return f"The task and its constraints still apply:\n\n{opening_message(run.job, run.stage)}\n"
    return "The task and its constraints above still apply."


def _repeats_task(run: StageRun) -> bool:
    return run.stage.view.history == "tail" and not run.stage.view.keep_first


def _assignment(run: StageRun) -> str:
    """What the model was last asked to do: said again when that has been cut from view."""
    entered = run.job.state.nodes.get(run.path)  # None while the stage is being entered
    if entered and entered.counts.granted:
        return _ask_to_conclude(run, entered.final_reason)
    return f"{stage_message(run.stage)}\n\n{run.entrance.message}".strip()


async def _wait(run: StageRun, decision: Decision) -> None:
    counts, around, budget = run.state.counts, run.around(), run.stage.budget
    seconds = wait_seconds(counts, around, budget, run.retry_after)
    for left in (run.seconds_left(), run.job.seconds_left()):
        seconds = seconds if left is None else min(seconds, max(left, 0.0))
    detail = f"asking again in {seconds:g} s ({counts.unanswered.count} of {budget.waits})"
    if decision.reason == "model_away":
        most = say_duration(around.model_wait)
        is_at = "is loading the model" if run.state.counts.unanswered.server == "loading" else "is away"
        detail = f"the model server {is_at}: waiting up to {most}, asking every {AWAY_SECONDS:g} s"
    run.record(DecisionMade(action="wait", reason=decision.reason, detail=detail))
    await run.job.log.commit()
    await run.job.rest(seconds)


async def _grant_final_turn(run: StageRun, decision: Decision) -> None:
    run.record(DecisionMade(action="final_turn", reason=decision.reason, detail=decision.detail))
    tell(run, "final_turn", _ask_to_conclude(run, decision.reason))
    await run.job.log.commit()


def _ask_to_conclude(run: StageRun, reason: str) -> str:
    tools = " and ".join(spec.name for spec in run.scope.final)
    return fill(
        "final_turn", stage=run.stage.id, reason=say_reason(reason), tools=tools, call=run.scope.final_call
    )


async def _completes_without_signal(run: StageRun, decision: Decision) -> bool:
    """Whether a stage that needs no signal has run out of turns or time, and what it requires is there.

    It may have run out of anything else, too, where verification approves of the work or is to judge it.
    """
    stage, reason, state = run.stage, decision.reason, run.job.state
    if reason == "final_turn_spent":
        reason = run.state.final_reason
    judged = (
        state[VerifyRuns].passing_run
        or state[VerifyRuns].asked_pass
        or (stage.execution and run.state.files_changed)
    )
    if reason not in RAN_OUT and not (judged and reason in GAVE_UP):
        return False
    if not stage.allow_missing_done or not any(stage.checks.values()):
        return False
    changed = tuple(run.job.state.files_changed)
    missing = await try_exit(run, Note(files_changed=changed), by="rules")
    await run.job.log.commit()
    return not missing


def _note_of_runtime(run: StageRun, decision: Decision) -> Note:
    # What the environment did is said by the summary of the task, which it ends.
    detail = "" if decision.action == "infra" else decision.detail
    why = (detail or say_reason(decision.reason)).removesuffix(".")
    how = "Handed back" if decision.reason == "escalated" else "Ended without an accepted closing signal"
    note = Note(
        summary=f"{how}: {why}.",
        files_read=tuple(run.state.files_read),
        files_changed=tuple(run.job.state.files_changed),
    )
    return bound_note(note)


class Talk(Conversation):
    """The kind `talk`."""

    name = "talk"
    roles = frozenset[Role]({"conversation", "receives_failures", "runs_beside"})

    async def run(self, run: StageRun) -> StageEnd:
        """A conversation with tools: what the model is told first, then turn after turn."""
        if run.interrupted:
            await finish_turn(run, run.interrupted.cut_off)
        elif missing := find_missing_docs(run.job, run.stage):
            return StageEnd(Decision("fail", "input_missing", missing), Note(summary=missing))
        else:
            await open_conversation(run, run.entrance)
        return await take_turns(run, take_turn)

    async def after_end(self, run: StageRun, end: StageEnd, ended: StageEnded) -> None:
        """Where the flow ends with the stage, its last question still needs what was said."""
        await super().after_end(run, end, ended)
        action = end.decision.action
        if action in _GOES_ON and (action != "fail" or not run.stage.required):
            await say_stages_ended(run)

    def replay(self, run: StageRun, body: Body, content: str) -> None:
        replay_conversation(run, body, content)


def replay_conversation(run: StageRun, body: Body, content: str) -> None:
    """Does to the transcript what an event did to it when it happened."""
    stage, transcript = run.stage, run.transcript
    match body:
        case StageStarted():
            transcript.begin_stage(place_of(run.path), run.path)
        case StageEnded():
            transcript.end_stage(place_of(run.path), body)
        case ImageAdded():
            transcript.coming_images.append(Image(body.media_type, content))
        case MessageAdded(slug=slug):
            message = Message(body.role, content, images=tuple(transcript.coming_images))
            transcript.coming_images.clear()
            match slug:
                case "compacted":
                    transcript.add_notice(message)
                case "stages_compacted":
                    transcript.add_reminder(message)
                case _:
                    transcript.add(message)
            transcript.note_lines(body.said, message)
            transcript.guides_given.update(map(parse_path, body.guides))
            if body.result_of:
                transcript.results_given.add(body.result_of)
            if body.slug == "stage":
                transcript.rebuild(stage.view)
        case ReplyFailed() if content:
            transcript.add(read_reply(content))
        case ReplyReceived():
            if measured := body.prompt_tokens - body.aside_tokens:
                transcript.measured(measured)
            transcript.add(read_reply(content))
        case ToolFinished():
            transcript.add(Message("tool", content, call_id=body.call, failed=not body.ok))
            transcript.guides_given.update(map(parse_path, body.guides))
        case ViewCompacted():
            transcript.rebuild(stage.view, body.chars)
        case _:
            for feature in run.job.parts.features:
                if replay := feature.replays.get(type(body)):
                    replay(run, body, content)

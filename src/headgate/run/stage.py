"""One attempt at a stage: decide, ask, act, judge, until something other than going on is decided.

Each step ends with one commit, so that what was counted up to there is all that the next one needs.
"""

import asyncio

from headgate.config import fill
from headgate.core import (
    RAN_OUT,
    Action,
    Checks,
    Decision,
    DecisionMade,
    Ending,
    Message,
    MessageAdded,
    Note,
    Stage,
    StageEnded,
    StageStarted,
    StopAsked,
    Tally,
    ViewCompacted,
    bound_note,
    decide,
    list_names,
    say_reason,
    wait_seconds,
)
from headgate.models import find_window
from headgate.run.candidates import settle, take_candidate
from headgate.run.exits import judge_exhausted, try_exit
from headgate.run.first_messages import (
    NAMES_CHARS,
    opening_message,
    plan_message,
    stage_message,
    system_message,
)
from headgate.run.job import Entrance, Job, StageRun
from headgate.run.turn import finish_turn, take_turn, tell

COMPACT_AT, COMPACT_TO = 0.8, 0.5
_ENDINGS: dict[Action, Ending] = {"advance": "completed", "skip": "skipped"}


async def run_stage(job: Job, stage: Stage, entry: Entrance) -> Decision:
    """Enters the stage, loops, leaves it; returns the decision that ended it."""
    run = await _reenter(job, stage, entry) or await _enter(job, stage, entry)
    while True:
        if job.stopping() and not run.state.stopped:
            run.record(StopAsked())
            await job.log.commit()
        decision = await judge_exhausted(run, decide(run.tally(), stage.budget))
        match decision.action:
            case "continue":
                await _make_room(run)
                await _take(run)
            case "wait":
                await _wait(run, decision)
                await _take(run)
            case "compact":
                await _compact(run, decision.reason, run.transcript.view_chars * COMPACT_TO)
            case "final_turn":
                await _grant_final_turn(run, decision)
            case _ if await _completes_unsaid(run, decision):
                continue
            case _:
                await _leave(run, decision)
                return decision


async def _take(run: StageRun) -> None:
    """A turn, in whichever form the stage has them."""
    await (take_turn(run) if run.stage.candidates is None else take_candidate(run))


async def _reenter(job: Job, stage: Stage, entry: Entrance) -> StageRun | None:
    """Goes on with an attempt that a crash cut short, beginning with what its last reply asked for."""
    under_way = job.state.open_attempt(stage.id)
    if under_way is None or job.interrupted is None:
        return None
    left, job.interrupted = job.interrupted, None
    transcript = entry.transcript or job.transcript_of(stage)
    run = StageRun(job, stage, under_way.path, transcript, left.entrance, turn=under_way.turns)
    await (finish_turn(run, left.cut_off) if stage.candidates is None else settle(run, left))
    return run


async def _enter(job: Job, stage: Stage, entry: Entrance) -> StageRun:
    attempt = job.state.attempts_at(stage.id) + 1
    path = stage.id if attempt == 1 else f"{stage.id}#{attempt}"
    run = StageRun(job, stage, path, entry.transcript or job.transcript_of(stage), entry)
    tools = () if stage.candidates else tuple(spec.name for spec in run.all_specs)
    job.log.record(
        path,
        0,
        StageStarted(
            stage=stage.id,
            title=stage.title,
            attempt=attempt,
            reason=entry.reason,
            tools=tools,
            turns=stage.budget.turns,
            item=stage.item,
        ),
    )
    if stage.candidates is None:
        await _open_conversation(run, entry)
    await job.log.commit()
    return run


async def _open_conversation(run: StageRun, entry: Entrance) -> None:
    """What the model is told when a stage is entered."""
    job, stage = run.job, run.stage
    if not run.transcript.messages:
        system = system_message(job, stage)
        run.record(MessageAdded(role="system", slug="system"), system)
        run.transcript.add(Message("system", system))
        tell(run, "task", await asyncio.to_thread(opening_message, job, stage))
    if entry.reason == "next":
        tell(run, "stage", stage_message(stage))
        run.transcript.rebuild(stage.view)
    if entry.cut:
        await _compact(run, "replan", run.transcript.view_chars * COMPACT_TO)
    elif entry.message:
        tell(run, entry.reason, entry.message)


async def _make_room(run: StageRun) -> None:
    """Cuts the view before the context window is full, by a lot at once, so that the prefix then stays."""
    name = run.stage.model
    window = find_window(run.job.models[name], run.job.model_settings[name])
    found = run.job.state.cut
    if found and found.window and found.model == run.job.model_settings[name].model:
        window = min(window or found.window, found.window)
    tokens = run.transcript.tokens()
    # What a cut leaves may itself be large; cutting again at once would only cost the prefix.
    has_grown = run.transcript.view_chars > 1.2 * run.transcript.cut_to
    if window and tokens > COMPACT_AT * window and has_grown:
        await _compact(run, "window", run.transcript.view_chars * COMPACT_TO * window / tokens)
    elif cut := run.transcript.due_cut(run.stage.view):
        await _compact(run, cut.reason, cut.chars)


async def _compact(run: StageRun, reason: str, chars: float) -> None:
    transcript, state = run.transcript, run.job.state
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
    plan = plan_message(run.job, run.stage)
    files_read = list_names(list(state.files_read), 30, NAMES_CHARS) or "none"
    changed = list_names(list(state.files_changed), 100, NAMES_CHARS) or "none"
    text = fill(
        "compacted",
        task=_task_again(run),
        files_read=files_read,
        files_changed=changed,
        plan=plan and f"\n{plan}",
        assignment=_assignment(run),
    )
    run.record(MessageAdded(role="user", slug="compacted"), text)
    transcript.add_notice(Message("user", text))
    await run.job.log.commit()


def _task_again(run: StageRun) -> str:
    """The task and its constraints, where the view does not keep the message that holds them."""
    view = run.stage.view
    if view.history == "tail" and not view.keep_first:
        return f"The task and its constraints still apply:\n\n{opening_message(run.job, run.stage)}\n"
    return "The task and its constraints above still apply."


def _assignment(run: StageRun) -> str:
    """What the model was last asked to do: said again when that has been cut from view."""
    entered = run.job.state.stages.get(run.path)  # None while the stage is being entered
    if entered and entered.final_granted:
        return _ask_to_conclude(run, entered.final_reason)
    return f"{stage_message(run.stage)}\n\n{run.entrance.message}".strip()


async def _wait(run: StageRun, decision: Decision) -> None:
    seconds = wait_seconds(run.state.unavailable, run.stage.budget, run.retry_after)
    detail = f"asking again in {seconds:g} s ({run.state.unavailable} of {run.stage.budget.waits})"
    run.record(DecisionMade(action="wait", reason=decision.reason, detail=detail))
    await run.job.log.commit()
    await run.job.sleep(seconds)


async def _grant_final_turn(run: StageRun, decision: Decision) -> None:
    run.record(DecisionMade(action="final_turn", reason=decision.reason, detail=decision.detail))
    tell(run, "final_turn", _ask_to_conclude(run, decision.reason))
    await run.job.log.commit()


def _ask_to_conclude(run: StageRun, reason: str) -> str:
    tools = [spec.name for spec in run.final_specs]
    return fill(
        "final_turn",
        stage=run.stage.id,
        reason=say_reason(reason),
        tools=" and ".join(tools),
        call=", then ".join(tools),
    )


async def _completes_unsaid(run: StageRun, decision: Decision) -> bool:
    """Whether a stage that needs no signal has run out of turns or time, and what it requires is there."""
    stage, reason = run.stage, decision.reason
    if reason == "final_turn_spent":
        reason = run.state.final_reason
    if reason not in RAN_OUT or not stage.allow_missing_done or stage.checks == Checks():
        return False
    changed = tuple(run.job.state.files_changed)
    missing = await try_exit(run, Note(files_changed=changed), implied=True, quiet=True)
    await run.job.log.commit()
    return not missing


async def _leave(run: StageRun, decision: Decision) -> None:
    """Stores what the stage leaves to the next ones: the model's note, or what the runtime itself knows."""
    ending = _ENDINGS.get(decision.action, "failed")
    if decision.action == "advance" and decision.reason != "done":
        ending = "exhausted"
    note = run.state.note or _own_note(run, decision)
    if decision.action not in ("advance", "infra"):
        run.record(DecisionMade(action=decision.action, reason=decision.reason, detail=decision.detail))
    run.record(StageEnded(stage=run.stage.id, ending=ending, reason=decision.reason, note=note))
    await run.job.log.commit()


def _own_note(run: StageRun, decision: Decision) -> Note:
    why = (decision.detail or say_reason(decision.reason)).removesuffix(".")
    note = Note(
        summary=f"Ended without an accepted closing signal: {why}.",
        files_read=tuple(run.state.files_read),
        files_changed=tuple(run.job.state.files_changed),
    )
    return bound_note(note)


# A stage with its retries.


async def complete_stage(job: Job, stage: Stage, entrance: Entrance) -> Decision | None:
    """Attempts a stage until it ends or its retries are spent; returns what ends the flow, if it does."""
    while True:
        if job.state.pending_retry and job.state.pending_retry[0] == stage.id:
            entrance = _retry(job, stage, entrance)
        decision = await run_stage(job, stage, entrance)
        if decision.action in ("infra", "stuck"):
            return decision
        if decision.action == "fail" and stage.required:
            return stage_failure(job, stage)
        if decision.action != "retry":
            return None


def stage_failure(job: Job, stage: Stage) -> Decision:
    """How a flow ends whose required stage did not complete."""
    latest = [entered for entered in job.state.stages.values() if entered.stage == stage.id][-1]
    why = say_reason(latest.why) if latest.why.isidentifier() else latest.why or "it was not finished"
    why = f'Stage "{stage.id}" did not complete: {why}.'
    if stage.candidates and (tried := len(job.state.candidates)):
        why = f"None of the {tried} answers passed." if tried > 1 else "The only answer failed."
    return decide(Tally(ended_flow=True, failed_stage=why), stage.budget)


def _retry(job: Job, stage: Stage, entrance: Entrance) -> Entrance:
    assert job.state.pending_retry is not None
    attempt = job.state.attempts_at(stage.id) + 1
    reason = say_reason(job.state.pending_retry[1])
    message = fill("retry", stage=stage.id, attempt=attempt, reason=reason)
    if not stage.retry_hints:
        message = stage_message(stage)
    return Entrance("retry", message, transcript=entrance.transcript)

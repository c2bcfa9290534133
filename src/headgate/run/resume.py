"""The conversations of a task that was interrupted, from its events and what was said in them."""

import re
from collections.abc import Iterable, Mapping

import orjson

from headgate.core import (
    AnyBody,
    CandidateTried,
    Event,
    Message,
    MessageAdded,
    ReplanStarted,
    ReplyFailed,
    ReplyReceived,
    Stage,
    StageEnded,
    StageStarted,
    SuspectsFound,
    ToolCall,
    ToolFinished,
    ToolStarted,
    VerifyFinished,
    ViewCompacted,
)
from headgate.run.evidence import read_evidence
from headgate.run.job import Entrance, Interrupted, Job
from headgate.run.transcript import Transcript
from headgate.workspace import OverlayWorkspace, decode_changes

_GUIDE = re.compile(r"^\[(.+), which applies to this file\]$", re.MULTILINE)


def restore(job: Job, events: Iterable[Event], contents: Mapping[int, str]) -> None:
    """Gives the job the transcripts, views and messages that the process that crashed had in memory."""
    stages: dict[str, Stage] = {stage.id: stage for stage in (*job.flow.stages, job.flow.replan)}
    fix = job.flow.fix_stage(tool.spec for tool in job.tools.values())
    places: dict[str, tuple[Stage, Transcript]] = {}
    entrance, cut_off = Entrance(), False
    answer: Message | None = None
    for_step = False
    for event in events:
        content = contents.get(event.seq, "")
        if isinstance(event.body, ReplanStarted):
            for_step = bool(event.body.item)
        if isinstance(event.body, StageStarted):
            stage = stages.get(event.body.stage) or _for_step(job, event.body)
            of_fix = event.body.stage == job.flow.replan.id and not for_step
            transcript = job.transcript_of(fix if of_fix and fix else stage)
            places[event.path] = (stage, transcript)
            entrance = Entrance(event.body.reason, transcript=transcript if of_fix else None)
        elif isinstance(event.body, VerifyFinished):
            job.failure_message = content
        elif isinstance(event.body, SuspectsFound) and content:
            job.evidence = read_evidence(content)
        elif isinstance(event.body, MessageAdded) and event.body.slug == entrance.reason:
            entrance = Entrance(entrance.reason, content, entrance.transcript)
        elif isinstance(event.body, ReplyReceived):
            cut_off = event.body.finish == "length"
        if event.path in places and places[event.path][0].candidates:
            answer = _unjudged(event.body, content, answer)  # whole answers enter no conversation
        elif event.path in places:
            _replay(event.body, content, *places[event.path])
    if job.state.open_attempt():
        job.interrupted = Interrupted(entrance, cut_off, answer)


def _unjudged(body: AnyBody, content: str, answer: Message | None) -> Message | None:
    """The latest answer, until it is known what came of it."""
    match body:
        case ReplyReceived():
            return _reply(content)
        case CandidateTried() | ReplyFailed() | StageEnded():
            return None
        case _:
            return answer


def _for_step(job: Job, started: StageStarted) -> Stage:
    """A stage that was made for a step of the plan: what matters here is its id and how it is viewed."""
    template = next(stage for stage in job.flow.stages if stage.foreach)
    return template.model_copy(update={"id": started.stage, "item": started.item, "foreach": None})


def restore_overlay(overlay: OverlayWorkspace, events: Iterable[Event], contents: Mapping[int, str]) -> None:
    """Gives a dry run what it had written: every change that was made, or was about to be made."""
    begun: dict[str, str] = {}
    for event in events:
        match event.body:
            case ToolStarted(changes=changes) as body if changes and event.seq in contents:
                begun[body.call] = contents[event.seq]
            case ToolFinished() as body if kept := begun.pop(body.call, ""):
                if body.ok:
                    overlay.remember(decode_changes(kept))
            case _:
                pass
    for kept in begun.values():
        overlay.remember(decode_changes(kept))


def _replay(body: AnyBody, content: str, stage: Stage, transcript: Transcript) -> None:
    """What each event did to a transcript when it happened."""
    match body:
        case MessageAdded(slug="compacted"):
            transcript.add_notice(Message("user", content))
        case MessageAdded():
            transcript.add(Message(body.role, content))
            if body.slug == "stage":
                transcript.rebuild(stage.view)
        case ReplyReceived():
            if measured := body.prompt_tokens - body.aside_tokens:
                transcript.measured(measured)
            transcript.add(_reply(content))
        case ToolFinished():
            transcript.add(Message("tool", content, call_id=body.call, failed=not body.ok))
            transcript.guides_given.update(_GUIDE.findall(content))
        case ViewCompacted():
            transcript.rebuild(stage.view, body.chars)
        case _:
            pass


def _reply(content: str) -> Message:
    kept = orjson.loads(content)
    calls = tuple(ToolCall(*call) for call in kept.get("calls", ()))
    reasoning, opaque = kept.get("reasoning", ""), kept.get("opaque", "")
    return Message("assistant", kept.get("content", ""), calls, reasoning=reasoning, opaque=opaque)

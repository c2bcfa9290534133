"""The conversations of a task that was interrupted, from its events and what was said in them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headgate.core import (
    AnyBody,
    Event,
    MessageAdded,
    ReplyReceived,
    StageStarted,
    ToolFinished,
    ToolStarted,
)
from headgate.run.job import Job
from headgate.run.leaf import Entrance, Interrupted, StageRun
from headgate.workspace import OverlayWorkspace, decode_changes


def restore(job: Job, events: Iterable[Event], contents: Mapping[int, str]) -> None:
    """Gives the job the transcripts, views and messages that the process that crashed had in memory."""
    runs: dict[str, StageRun] = {}
    left: dict[str, Interrupted] = {}
    for event in events:
        content = contents.get(event.seq, "")
        if isinstance(event.body, StageStarted) and (stage := job.stage_at(event.path)):
            runs[event.path] = StageRun(job, stage, event.path, Entrance(event.body.reason))
            left[event.path] = Interrupted(Entrance(event.body.reason))
        run = runs.get(event.path)
        if run is None:
            continue
        left[event.path] = _left_after(left[event.path], event.body, content)
        job.kinds[run.stage.kind].replay(run, event.body, content)
    still_open = [entered.path for entered in job.state.tree.open_attempts() if entered.path in left]
    job.interrupted = {path: left[path] for path in still_open}


def _left_after(left: Interrupted, body: AnyBody, content: str) -> Interrupted:
    """What is known about an attempt after one more event."""
    match body:
        case MessageAdded(slug=slug) if slug == left.entrance.reason:
            return replace(left, entrance=replace(left.entrance, message=content))
        case ReplyReceived(finish=finish):
            return replace(left, cut_off=finish == "length")
        case _:
            return left


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

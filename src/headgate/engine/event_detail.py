"""What is behind the lines about a task: `show --detail` and the page have it.

What the model was told, wrote and was answered is there only while it is kept.
"""

from pathlib import Path

from headgate.core import (
    CheckFinished,
    DiagnosisGiven,
    Event,
    FixAttempted,
    HypothesesGiven,
    MessageAdded,
    PlanWritten,
    ReplyReceived,
    StageSkipped,
    ToolFinished,
    ToolStarted,
    VerifyFinished,
    cut_text,
    plain,
)
from headgate.features.scouts import ScoutReported
from headgate.log import Folder
from headgate.regular_files import OwnFolder
from headgate.run import read_reply

LOG_LINES = 40
TEXT_CHARS = 4_000
"""Of one text of the conversation; a longer one is cut."""


def detail_lines(event: Event, kept: str, folder: Folder) -> list[str]:
    """What an event says besides its own line. `kept`: what the store has of the conversation with it."""
    match event.body:
        case MessageAdded(role=role, slug=slug):
            return _quote("System prompt" if role == "system" else f"To the model ({slug})", kept)
        case ReplyReceived() if kept:
            reply = read_reply(kept)
            parts = [("The model thinks", reply.reasoning), ("The model", reply.content)]
            parts += [(f"The model calls {call.name}", call.arguments) for call in reply.calls]
            return [line for title, text in parts for line in _quote(title, text)]
        case ToolStarted() as body:
            return [f"  {body.name} {body.target}".rstrip()]
        case ToolFinished() as body:
            said = (body.detail or body.error).removeprefix(f"{body.name}: ")
            return [*_quote(f"{body.name} returns", kept), *([] if body.ok else [f"  {body.name}: {said}"])]
        case CheckFinished() as body if body.verdict != "pass" and body.check != "verify":
            return [f"  Check {body.check}: {body.reason}"]
        case ScoutReported() as body:
            return _quote(f"{body.scout} reports", kept)
        case PlanWritten() as body:
            return [f"  {item.id}: {item.description}" for item in body.items]
        case StageSkipped() as body:
            return [f"  {body.stage}: not run ({body.reason})"]
        case VerifyFinished(passed=False) as body:
            return [f"| {line}" for line in _log_tail(folder.runs / body.run_id / "combined.log")]
        case DiagnosisGiven() as body:
            return [f"  Diagnosis: {body.text}"]
        case FixAttempted() as body:
            return [f"| {line}" for line in body.diff.splitlines()] or ["  Nothing was changed."]
        case HypothesesGiven() as body:
            return [f"  Hypotheses: {body.text}"]
        case _:
            return []


def _quote(title: str, text: str) -> list[str]:
    if not text.strip():
        return []
    lines = cut_text(plain(text), TEXT_CHARS).strip("\n").splitlines()
    return [f"  {title}:", *(f"  > {line}" for line in lines)]


def _log_tail(log: Path) -> list[str]:
    try:
        text = OwnFolder(log.parents[2]).read(log).decode("utf-8", "replace")
    except OSError:
        return ["(the log is missing)"]
    lines = plain(text).rstrip().splitlines()
    left_out = len(lines) - LOG_LINES
    if left_out <= 0:
        return lines
    return [f"[{left_out} earlier lines are in {'/'.join(log.parts[-4:])}]", *lines[-LOG_LINES:]]

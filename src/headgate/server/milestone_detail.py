"""What is behind a milestone: what the model said, its calls and their results, failures and fixes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import orjson

from headgate.core import (
    AnswerGiven,
    BaselineVerified,
    CandidateTried,
    CheckFinished,
    DecisionMade,
    DiagnosisGiven,
    Event,
    FixAttempted,
    HypothesesGiven,
    MessageAdded,
    PlanItem,
    PlanWritten,
    ReplyFailed,
    ReplyReceived,
    ScoutReported,
    StageDoneSignalled,
    StageSkipped,
    SuspectsFound,
    TaskStarted,
    ToolCall,
    ToolFinished,
    ToolStarted,
    VerifyFinished,
    cut_text,
    plain,
    say_reason,
)
from headgate.run import read_reply
from headgate.server.diff_page import ShownDiff, show_diff

RESULT_CHARS, TEXT_CHARS = 12_000, 40_000
"""What is shown of a call's result and of its arguments, and of what a model wrote."""
LOG_LINES = 40
FIX_LINES = 200
MOST_ENTRIES = 400
"""Of one milestone; the latest ones are shown."""
DELETED = (
    "What the model wrote and read was deleted. It is kept for the last ten tasks that ended STUCK and, with"
    " keep_conversations: true in agent.yaml, for every task."
)
Kind = Literal["said", "call", "text", "log", "fix", "plan", "fact"]
_MESSAGES = {
    "system": "System prompt",
    "task": "What the model was told about the task",
    "stage": "What the model was told about the stage",
    "check_failed": "What the model was told about the failure",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. Which fields say something depends on the kind."""

    id: str
    kind: Kind
    title: str
    text: str = ""
    more: str = ""
    """Shown when it is opened: thoughts, arguments."""
    result: str = ""
    status: Literal["", "ok", "failed", "running"] = ""
    run_id: str = ""
    diff: ShownDiff | None = None
    items: tuple[PlanItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything behind one milestone."""

    entries: tuple[Entry, ...]
    left_out: int = 0
    """Earlier entries that are not shown."""
    remark: str = ""


@dataclass
class _Reader:
    contents: Mapping[int, str]
    logs: Mapping[str, str]
    calls: dict[tuple[str, str], ToolCall] = field(default_factory=dict)
    missing: bool = False

    def learn(self, event: Event) -> None:
        """Takes in the calls of a reply, whose arguments are shown with their results."""
        if isinstance(event.body, ReplyReceived) and event.seq in self.contents:
            for call in read_reply(self.contents[event.seq]).calls:
                self.calls[event.path, call.id] = call

    def entries(self, event: Event) -> Iterable[Entry]:
        name, kept = f"e{event.seq}", self.contents.get(event.seq, "")
        match event.body:
            case ReplyReceived() as body:
                yield self._said(name, body, kept)
            case ReplyFailed() as body:
                yield Entry(name, "fact", "No usable reply", body.detail, status="failed")
            case ToolFinished() as body:
                yield self._call(event, body, kept)
            case VerifyFinished(passed=False) as body:
                tail = _tail(self.logs.get(body.run_id, "The log is missing."))
                yield Entry(name, "log", "Verification log", tail, run_id=body.run_id)
            case DiagnosisGiven() as body:
                yield Entry(name, "text", "Diagnosis", body.text)
            case FixAttempted() as body:
                yield _fix(name, body)
            case HypothesesGiven() as body:
                yield Entry(name, "text", "Hypotheses", body.text)
            case PlanWritten() as body:
                yield Entry(name, "plan", f"Plan, version {body.version}", items=body.items)
            case AnswerGiven() as body:
                yield Entry(name, "text", "Answer", body.text)
            case StageDoneSignalled() as body if body.note.summary:
                said = "Done, says the model" if body.note.accepted else "Not accepted"
                yield Entry(name, "text", said, body.note.summary)
            case CheckFinished() as body if body.verdict != "pass":
                status: Literal["failed"] = "failed"
                yield Entry(name, "fact", f"Check {body.check}", body.reason, status=status)
            case ScoutReported() as body:
                title = f"Asked: {body.question}" if body.question else "What it found"
                yield Entry(name, "text", title, body.problem or kept or "\n".join(body.found))
            case StageSkipped() as body:
                yield Entry(name, "fact", f"{body.stage} is not run", say_reason(body.reason))
            case _:
                yield from self._rest(name, event, kept)

    def _rest(self, name: str, event: Event, kept: str) -> Iterable[Entry]:
        match event.body:
            case TaskStarted() as body:
                yield Entry(name, "fact", f"Flow: {body.flow.name}", _describe_start(body))
            case MessageAdded() as body:
                title = _MESSAGES.get(body.slug, f"Message to the model ({body.slug.replace('_', ' ')})")
                if kept:
                    yield Entry(name, "said", title, more=_bound(kept, TEXT_CHARS))
            case DecisionMade() as body:
                reason = body.detail or say_reason(body.reason)
                yield Entry(name, "fact", f"Decision: {body.action.replace('_', ' ')}", reason)
            case BaselineVerified() as body if body.failed:
                failing = "\n".join(body.failing)
                yield Entry(name, "fact", f'Step "{body.failed}" failed before the task as well', failing)
            case SuspectsFound() as body if body.functions or body.files:
                yield Entry(name, "fact", "Suspect places", "\n".join(body.functions or body.files))
            case CandidateTried() as body:
                yield Entry(name, "fact", f"Tried: {body.place}", f"{body.verdict} {body.reason}".rstrip())
            case _:
                return

    def _said(self, name: str, body: ReplyReceived, kept: str) -> Entry:
        used = f"{body.prompt_tokens:,} tokens in, {body.completion_tokens:,} out"
        if not kept:
            self.missing = True
            called = f"It called {', '.join(body.calls)}." if body.calls else ""
            return Entry(name, "said", f"Model ({used})", called)
        message = read_reply(kept)
        text, thoughts = _bound(message.content, TEXT_CHARS), _bound(message.reasoning, TEXT_CHARS)
        return Entry(name, "said", f"Model ({used})", text, more=thoughts)

    def _call(self, event: Event, body: ToolFinished, kept: str) -> Entry:
        call = self.calls.get((event.path, body.call))
        return Entry(
            f"e{event.seq}",
            "call",
            body.name,
            "" if body.ok else body.detail or body.error,
            _bound(_show_arguments(call.arguments), RESULT_CHARS) if call else "",
            _bound(kept, RESULT_CHARS),
            "ok" if body.ok else "failed",
        )


def describe_events(
    behind: Sequence[Event],
    before: Iterable[Event],
    contents: Mapping[int, str],
    logs: Mapping[str, str],
) -> Detail:
    """What these events tell, with what models wrote and read, by event, and with logs, by run.

    `before`: earlier events, whose replies may have asked for calls among these.
    """
    reader = _Reader(contents, logs)
    for event in before:
        reader.learn(event)
    entries: list[Entry] = []
    open_calls: dict[tuple[str, str], ToolStarted] = {}
    targets: dict[str, str] = {}
    for event in behind:
        reader.learn(event)
        match event.body:
            case ToolStarted() as body:
                open_calls[event.path, body.call] = body
            case ToolFinished() as body:
                begun = open_calls.pop((event.path, body.call), None)
                targets[f"e{event.seq}"] = begun.target if begun else ""
            case _:
                pass
        entries += reader.entries(event)
    entries = [replace(one, title=f"{one.title} {targets.get(one.id, '')}".rstrip()) for one in entries]
    entries += [
        Entry(f"c{number}", "call", f"{begun.name} {begun.target}".rstrip(), status="running")
        for number, begun in enumerate(open_calls.values())
    ]
    left_out = max(len(entries) - MOST_ENTRIES, 0)
    return Detail(tuple(entries[left_out:]), left_out, DELETED if reader.missing else "")


def _describe_start(body: TaskStarted) -> str:
    """What a task runs with."""
    facts = [
        body.flow.description,
        f"Model: {body.model}",
        f"Tools: {', '.join(body.tools)}" if body.tools else "",
        f"Not written: {', '.join(body.boundaries)}" if body.boundaries else "",
        f"Not enforced: {'; '.join(body.unenforced)}" if body.unenforced else "",
        f"Sandbox for commands: {body.sandbox}" if body.sandbox else "",
    ]
    return "\n".join(filter(None, facts))


def _fix(name: str, body: FixAttempted) -> Entry:
    if not body.diff.strip():
        return Entry(name, "fact", "Fix", "Nothing was changed.")
    return Entry(name, "fix", "Fix", diff=show_diff(body.diff, FIX_LINES))


def _show_arguments(text: str) -> str:
    """The arguments of a call, indented if they are JSON."""
    try:
        value = orjson.loads(text)
    except ValueError:
        return text
    if not isinstance(value, dict):
        return text
    # Long texts are what people want to read: as they are, not as JSON writes them.
    lines = []
    for key, item in value.items():
        said = item if isinstance(item, str) else orjson.dumps(item, option=orjson.OPT_INDENT_2).decode()
        lines.append(f"{key}:\n{said}" if "\n" in said else f"{key}: {said}")
    return "\n".join(lines)


def _bound(text: str, chars: int) -> str:
    return cut_text(plain(text), chars).strip("\n")


def _tail(log: str) -> str:
    lines = log.rstrip().splitlines()
    left_out = len(lines) - LOG_LINES
    if left_out <= 0:
        return "\n".join(lines)
    return "\n".join([f"[{left_out} earlier lines]", *lines[-LOG_LINES:]])

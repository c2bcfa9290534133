"""One tool call: scope, arguments, run, record. Whatever goes wrong becomes an answer to the model."""

import asyncio
import json
import re
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

import json_repair

from headgate.core import (
    TOOL_ALIASES,
    FileHashes,
    Message,
    PlanItem,
    PlanWritten,
    TaskStatusGiven,
    ToolCall,
    ToolFinished,
    ToolStarted,
    clean_text,
    merge_plan,
    nearest,
    parse_path,
    show_path,
    skip_reading,
)
from headgate.errors import ToolArgsInvalid, ToolDenied, ToolError
from headgate.process import uninterrupted
from headgate.run.exits import answer_done, clean_value
from headgate.run.first_messages import nested_guides
from headgate.run.job import Job
from headgate.run.leaf import StageRun
from headgate.run.verification import run_verification
from headgate.tools import Args, Outcome, Tool, cap
from headgate.workspace import FileChange, encode_changes

# The arguments of a call: mended where nothing is lost, refused where something would be made up.


# A string, which is kept as it is, or a comma before a closing bracket, which is dropped.
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(\s*[}\]])', re.DOTALL)
_FENCE = re.compile(r"^```\w*\s*(.*?)\s*```$", re.DOTALL)


def parse_arguments(text: str, cut_off: bool = False) -> dict[str, Any]:
    """The object that a model wrote as a call's arguments; ToolArgsInvalid says what is wrong with it."""
    stripped = text.strip()
    if not stripped:
        return {}
    value = _load(stripped, cut_off)
    if isinstance(value, str):
        return parse_arguments(value, cut_off)
    if not isinstance(value, dict):
        raise ToolArgsInvalid("The arguments must be a JSON object.")
    return value


def _load(text: str, cut_off: bool) -> Any:
    try:
        # Not strict: line breaks inside strings are the most common fault, and taking them loses nothing.
        return json.loads(text, strict=False)
    except ValueError as error:
        problem = str(error)
    fenced = _FENCE.match(text)
    text = fenced[1] if fenced else text
    if cut_off or not text.endswith("}"):
        raise ToolArgsInvalid(
            "The arguments are incomplete, so the call was not run. Call again with shorter content."
        )
    try:
        return json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or match[2], text), strict=False)
    except ValueError:
        value = json_repair.loads(text, skip_json_loads=True, stream_stable=True)
    if not isinstance(value, dict) or not value or not all(_is_in(text, part) for part in _strings(value)):
        raise ToolArgsInvalid(f"The arguments are not a JSON object: {problem}.")
    return value


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield from (key, *_strings(item))
        case list():
            for item in value:
                yield from _strings(item)


def _is_in(text: str, value: str) -> bool:
    """Whether a repaired string stands in the text as it is, plainly or escaped: a repair must not invent."""
    escaped = json.dumps(value, ensure_ascii=False)[1:-1]
    return value in text or escaped in text or json.dumps(value)[1:-1] in text


SEEN = "Same result as the last call: nothing has changed since."
"""Stands for what the model has before it already: a local model would read it all again."""
LONG = 200
"""Characters from which on that is worth it."""


STATUS_CHARS = 200
"""How much of each field of a status the log keeps."""


class UnknownTool(ToolError):
    """The model called something that does not exist."""

    slug = "unknown_tool"


class CallInterrupted(ToolError):
    """A crash came between a call and its answer."""

    slug = "interrupted"


class CallRepeated(ToolError):
    """The same call has brought the same several times."""

    slug = "repeated"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call is answered with, and what the log keeps of it."""

    text: str
    error: str = ""
    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


async def answer_call(run: StageRun, call: ToolCall, cut_off: bool) -> None:
    """Runs one call, or says why not, and adds the result to the transcript."""
    name = TOOL_ALIASES.get(call.name, call.name)
    tool = run.tool(name)
    category = tool.spec.category if tool else None
    key = call_key(name, call.arguments) if category not in (None, "control") else ""
    try:
        answer = await _perform(run, call, name, key, cut_off)
    except ToolError as error:
        answer = Answer(str(error), error.slug)
    text = cap(
        run.job.redact(clean_text(answer.text)), run.job.context.result_chars, run.job.context.save_output
    )
    # Of this very call, since anything changed or was cut: the file may have been otherwise in between.
    same = category == "read" and run.state.memory.last_result(key) == _digest(text)
    if same and (refusal := _repetition(run, name, key)):
        # A read is refused only after it was made: somebody else may have changed the file meanwhile.
        text, answer = str(refusal), Answer(str(refusal), refusal.slug)
    shown = SEEN if same and not answer.error and len(text) > LONG else text
    run.record(
        ToolFinished(
            call=call.id,
            name=clean_text(name)[:80],
            ok=not answer.error,
            error=answer.error,
            detail=text[:300] if answer.error else "",
            read=tuple(map(show_path, answer.read)),
            changed=tuple(map(show_path, answer.changed)),
            restored=tuple(run.job.redact(clean_text(sentence)) for sentence in answer.restored),
            category=category,
            key=key,
            result=_digest(text),
        ),
        shown,
    )
    run.transcript.add(Message("tool", shown, call_id=call.id, failed=bool(answer.error)))


async def _perform(run: StageRun, call: ToolCall, name: str, key: str, cut_off: bool) -> Answer:
    tool = _admitted(run, name)
    args = tool.parse(parse_arguments(call.arguments, cut_off))
    if tool.spec.category != "read" and (refusal := _repetition(run, tool.name, key)):
        raise refusal
    begun = run.job.state.open_calls.get(call.id)
    if begun is not None and (done := _after_crash(run, begun)):
        return done
    outcome = await _run_tool(run, call, tool, args)
    if tool.spec.category == "run" and outcome.signal is None:
        run.job.forget_runs()
    if outcome.signal and outcome.signal.kind == "stage_done":
        verdict, text = await answer_done(run, outcome.signal.data)
        return Answer(text, "" if verdict else "not_done")
    if outcome.signal and outcome.signal.kind == "task_status":
        given = {key: _status_value(run, value) for key, value in outcome.signal.data.items()}
        run.record(TaskStatusGiven.model_validate(given))
    if outcome.signal and outcome.signal.kind == "run_tests":
        return Answer(await _run_tests(run))
    if outcome.signal and outcome.signal.kind == "plan_written":
        items = [clean_value(run, item.model_dump()) for item in outcome.signal.data["items"]]
        run.record(new_plan(run.job, [PlanItem.model_validate(item) for item in items]))
    text = outcome.text
    if run.job.agents_md and outcome.read:
        text += await asyncio.to_thread(
            nested_guides, run.job.context.workspace, run.transcript, outcome.read
        )
    changed = tuple(change.path for change in outcome.changes)
    return Answer(text, read=outcome.read, changed=changed, restored=outcome.restored)


def _status_value(run: StageRun, value: Any) -> Any:
    """A field of a status as the log keeps it: fifteen words were asked for."""
    clean = clean_value(run, value)
    too_long = isinstance(clean, str) and len(clean) > STATUS_CHARS
    return f"{clean[: STATUS_CHARS - 1]}…" if too_long else clean


async def _run_tests(run: StageRun) -> str:
    """Runs the verification steps because the model asked; not again while nothing has changed."""
    job = run.job
    tree = await job.tree.mark()
    if tree == job.last_tests[0]:
        return f"Not run again: nothing has changed since the last run. {job.last_tests[1]}"
    finding = await run_verification(job, run.path, run.turn, asked=True)
    text = finding.message or f"The tests pass ({finding.run_id})."
    job.last_tests = (tree, text)
    return text


def call_key(name: str, arguments: str) -> str:
    """Stands for a call: the same for the same arguments, however they are written."""
    try:
        written = json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        written = arguments
    return _digest(f"{name} {written}")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _repetition(run: StageRun, name: str, key: str) -> CallRepeated | None:
    """Why a call is refused that returned the same again and again: the model has that result already."""
    limit, count = run.stage.budget.identical_calls, run.state.memory.count(key)
    if not limit or count < limit:
        return None
    return CallRepeated(
        f"{name} was refused: this call has returned the same result {count} times in a row."
        " Use the result above or do something else."
    )


def explain_refusal(run: StageRun, name: str) -> str:
    """Why a tool cannot be called now; nothing if it can."""
    try:
        _admitted(run, TOOL_ALIASES.get(name, name))
    except ToolError as error:
        return str(error)
    return ""


def _admitted(run: StageRun, name: str) -> Tool:
    """The tool, if it exists and this stage has it. The gate: nothing past it depends on what was shown."""
    tool = run.tool(name)
    here = ", ".join(spec.name for spec in run.visible)
    if tool is None:
        close = nearest(name, (spec.name for spec in run.visible))
        hint = f' Did you mean "{close}"?' if close else ""
        raise UnknownTool(f'There is no tool "{name[:80]}".{hint} Tools here: {here}.')
    if tool.spec in run.visible:
        return tool
    if run.state.final_granted:
        raise ToolDenied(f"{name} was not run: this is the final turn; you can only call {here}.")
    having = [stage for stage in run.job.conversations if stage.tools.admits(tool.spec)]
    stages = [stage.id for stage in having if stage.when != "replan"]
    where = f"it is allowed in stage {' and '.join(stages)}" if stages else "no stage of this flow allows it"
    raise ToolDenied(
        f'{name} was not run: it is not available in stage "{run.stage.id}"; {where}. Tools here: {here}.'
    )


def _after_crash(run: StageRun, begun: ToolStarted) -> Answer | None:
    """The answer to a call that a crash interrupted; None if it left no mark and can simply be run."""
    if begun.category == "run":
        raise CallInterrupted(
            f"{begun.name} was interrupted by a crash and not run again: it may have partly taken effect."
        )
    now = [run.job.tree.hash_of(change.path) for change in begun.changes]
    if now == [change.before for change in begun.changes]:
        return None
    paths = tuple(change.path for change in begun.changes)
    if now == [change.after for change in begun.changes]:
        text = f"{begun.name} was interrupted by a crash after its change was made: {', '.join(paths)}."
        return Answer(text, changed=tuple(map(parse_path, paths)))
    raise CallInterrupted(
        f"{begun.name} was interrupted by a crash and {', '.join(paths)} is neither in its old nor in its"
        " intended state: read it again."
    )


async def _run_tool(run: StageRun, call: ToolCall, tool: Tool, args: Args) -> Outcome:
    """Runs a tool. Whatever leaves a mark outside is recorded, durably, before it happens."""
    context = run.job.context
    started = ToolStarted(call=call.id, name=tool.name, category=tool.spec.category, target=_target(args))
    if tool.is_async:
        run.record(started)
        await run.job.log.commit()
        return await cast("Awaitable[Outcome]", tool.function(context, args))
    outcome = await asyncio.to_thread(tool.function, context, args)
    assert isinstance(outcome, Outcome)
    await write_changes(run, started, outcome.changes)
    return outcome


async def write_changes(run: StageRun, started: ToolStarted, changes: Sequence[FileChange]) -> None:
    """Records what is about to be written, durably, and writes it. ToolError if that is refused."""
    hashes = tuple(map(hashes_of, changes))
    kept = encode_changes(changes) if changes and run.job.proposing else None
    run.record(started.model_copy(update={"changes": hashes}), kept)
    if changes:
        await run.job.log.commit()
        # A write that has begun is finished, so that a cancelled task's report is true.
        await uninterrupted(asyncio.to_thread(run.job.context.workspace.apply, changes))
    if any(one.before != one.after for one in hashes):
        run.job.forget_runs()


def new_plan(job: Job, items: list[PlanItem]) -> PlanWritten:
    """The plan that the model wrote, with what the runtime has to say about its steps."""
    if any(stage.foreach for stage in job.flow.leaves()):
        items = list(merge_plan(job.state.plan, items))
    if job.flow.skip_readonly:
        items = skip_reading(items)
    return PlanWritten(version=job.state.plan_version + 1, items=tuple(items))


def hashes_of(change: FileChange) -> FileHashes:
    """What the log keeps of a change, to tell later whether it was made."""
    return FileHashes(path=show_path(change.path), before=change.before_hash, after=change.after_hash)


def _target(args: Args) -> str:
    """What a call is about, in a few words, for people who watch."""
    for name in ("command", "path", "pattern", "glob", "paths", "action", "stage"):
        value = getattr(args, name, None)
        if value:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            return clean_text(" ".join(text.split()))[:120]
    return ""

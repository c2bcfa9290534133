"""One tool call: scope, arguments, run, record. Whatever goes wrong becomes an answer to the model.

Arguments are repaired where nothing is lost, and refused where something would be made up.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import orjson

from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    ESCALATE_TOOL,
    Calls,
    Category,
    Message,
    ToolCall,
    ToolFinished,
    ToolStarted,
    clean_text,
    match_spelling,
    nearest,
    parse_path,
    show_path,
)
from headgate.errors import ToolArgsInvalid, ToolDenied, ToolError, ToolUnavailable
from headgate.first_use import dataclass, regex
from headgate.reading import repair_json
from headgate.run.stage import StageRun, leader_of
from headgate.run.tool_runs import run_tool
from headgate.tools import Tool, cap
from headgate.tree import FileChange

_FENCE = regex(r"^```\w*\s*(.*?)\s*```$", re.DOTALL)


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
    value = repair_json(text)
    if not isinstance(value, dict):
        raise ToolArgsInvalid(f"The arguments are not a JSON object: {problem}.")
    return value


SEEN = "Same result as the last call: nothing has changed since."
"""Stands for what the model has before it already: a local model would read it all again."""
LONG = 200
"""Characters from which on that is worth it."""


class UnknownTool(ToolError):
    """The model called something that does not exist."""

    slug = "unknown_tool"


class CallInterrupted(ToolError):
    """A crash came between a call and its answer."""

    slug = "interrupted"


class CalledTooOften(ToolError):
    """The tool was called as often as it may be in one attempt."""

    slug = "too_often"


class CallRepeated(ToolError):
    """The same call has returned the same result several times."""

    slug = "repeated"


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What a call is answered with, and what the log keeps of it."""

    text: str
    error: str = ""
    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tree: str = ""
    told: str = ""
    guides: tuple[str, ...] = ()


async def answer_call(run: StageRun, call: ToolCall, cut_off: bool) -> None:
    """Runs one call, or says why not, and adds the result to the transcript."""
    call = _as_tool(run, call)
    name = run.scope.name_of(call.name)
    tool = run.scope.tool(name)
    category = tool.spec.category if tool else None
    key = call_key(name, call.arguments) if category not in (None, "control") else ""
    try:
        answer = await _perform(run, call, name, key, cut_off)
    except ToolError as error:
        answer = CallAnswer(str(error), error.slug)
    answer = _fit_for_model(run, answer)
    # Of this very call, since anything changed or was cut: the file may have been otherwise in between.
    same = category == "read" and run.state.memory.last_result(key) == _digest(answer.text)
    if same and (refusal := _repetition(run, name, key)):
        # A read is refused only after it was made: somebody else may have changed the file meanwhile.
        answer = CallAnswer(str(refusal), refusal.slug)
    shown = SEEN if same and not answer.error and len(answer.text) > LONG else answer.text
    run.record(_finished(call, name, category, key, answer), shown)
    run.transcript.add(Message("tool", shown, call_id=call.id, failed=bool(answer.error)))
    leader = leader_of(run.job)
    if answer.error == ToolUnavailable.slug and leader and run.stage.execution:
        leader.take_unavailable(run, name, answer.text)


def _as_tool(run: StageRun, call: ToolCall) -> ToolCall:
    """The call, or that of the tool whose choice it names: `code_modify(goals)` means `execute`."""
    here = [spec.name for spec in run.scope.open]
    if run.scope.name_of(call.name) in here:
        return call
    for spec in run.scope.open:
        tool, variant = run.scope.tool(spec.name), match_spelling(call.name, spec.variants)
        if variant in spec.variants and tool and tool.from_variant:
            try:
                meant = tool.from_variant(variant, parse_arguments(call.arguments))
            except ToolArgsInvalid:
                return call
            return ToolCall(call.id, spec.name, json.dumps(meant, ensure_ascii=False))
    return call


async def _perform(run: StageRun, call: ToolCall, name: str, key: str, cut_off: bool) -> CallAnswer:
    """Runs a call that the stage, its arguments and its history allow. ToolError says why not."""
    tool = _admitted(run, name)
    args = tool.parse(parse_arguments(call.arguments, cut_off))
    if tool.spec.category != "read" and (refusal := _repetition(run, tool.name, key)):
        raise refusal
    if run.stage.budget.calls:
        await run.job.log.commit()  # other calls of the same reply count
        if earlier := _earlier_result(run, call, tool.name):
            return earlier
    begun = run.job.state[Calls].open.get((run.path, call.id))
    if begun is not None and (done := _after_crash(run, begun, tool)):
        return done
    outcome, tree, guides = await run_tool(run, call, tool, args)
    run.transcript.guides_given.update(guides)
    text = outcome.text + "".join(guides.values())
    changed = tuple(change.path for change in outcome.changes)
    told = outcome.told
    if outcome.changes and not told:
        told = await asyncio.to_thread(_count_lines, outcome.changes)
    return CallAnswer(
        text, "", outcome.read, changed, outcome.restored, outcome.sources, tree, told, tuple(guides)
    )


def _count_lines(changes: Sequence[FileChange]) -> str:
    """The lines that a write has added and removed, such as `+3 -1`; empty where there are none to count.

    In linear time: a line that only moved does not count.
    """
    added = removed = 0
    for change in changes:
        old, new = (Counter((side or b"").splitlines()) for side in (change.before, change.after))
        added, removed = added + (new - old).total(), removed + (old - new).total()
    return f"+{added} -{removed}" if added or removed else ""


def _earlier_result(run: StageRun, call: ToolCall, name: str) -> CallAnswer | None:
    """What a call returned that was made before in a stage with a limit on calls. ToolError at the limit.

    A tool that has done its work is not run again with the same arguments, unless something else has changed
    since. Signals do not count.
    """
    if name in (run.scope.done.name, ESCALATE_TOOL):
        return None
    if made := run.state.holding.get(call_key(name, call.arguments)):
        answers = {one.call_id: one.content for one in run.transcript.messages if one.role == "tool"}
        if made in answers:
            return CallAnswer(answers[made])
    limit = run.stage.budget.calls
    if run.state.called[name] >= limit:
        raise CalledTooOften(
            f"{name} was refused: it was called {limit} times in this stage, which is the limit. Use what it"
            f" returned, and call {run.scope.done.name}."
        )
    return None


def _fit_for_model(run: StageRun, answer: CallAnswer) -> CallAnswer:
    """The answer without secrets and what cannot be stored, and no longer than a result may be."""
    context, redact = run.job.place.context, run.job.place.redact
    most = context.result_chars
    if tokens := run.stage.view.max_tokens:
        most = min(most, int(tokens * CHARS_PER_CODE_TOKEN / 2))
    text = cap(redact(clean_text(answer.text)), most, context.save_output)
    restored = tuple(redact(clean_text(sentence)) for sentence in answer.restored)
    sources = tuple(redact(clean_text(source)) for source in answer.sources)
    return replace(answer, text=text, restored=restored, sources=sources)


def _finished(
    call: ToolCall, name: str, category: Category | None, key: str, answer: CallAnswer
) -> ToolFinished:
    return ToolFinished(
        call=call.id,
        name=clean_text(name)[:80],
        ok=not answer.error,
        error=answer.error,
        detail=answer.text[:300] if answer.error else "",
        read=tuple(map(show_path, answer.read)),
        changed=tuple(map(show_path, answer.changed)),
        restored=answer.restored,
        sources=answer.sources,
        category=category,
        key=key,
        result=_digest(answer.text),
        tree=answer.tree,
        told=answer.told,
        guides=tuple(map(show_path, answer.guides)),
    )


def call_key(name: str, arguments: str) -> str:
    """Stands for a call: the same for the same arguments, however they are written."""
    try:
        written = orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS).decode()
    except (ValueError, RecursionError, TypeError):
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
        _admitted(run, run.scope.name_of(name))
    except ToolError as error:
        return str(error)
    return ""


def _admitted(run: StageRun, name: str) -> Tool:
    """The tool, if it exists and this stage has it. The gate: nothing past it depends on what was shown."""
    tool = run.scope.tool(name)
    here = ", ".join(spec.name for spec in run.scope.open)
    if tool is None:
        close = nearest(name, (spec.name for spec in run.scope.open))
        hint = f' Did you mean "{close}"?' if close else ""
        raise UnknownTool(f'There is no tool "{name[:80]}".{hint} Tools here: {here}.')
    if tool.spec in run.scope.open:
        return tool
    if run.state.counts.granted:
        raise ToolDenied(f"{name} was not run: this is the final turn; you can only call {here}.")
    known = [*run.job.conversations, *run.job.conversing(run.job.stages_beside(run.path))]
    having = [stage for stage in known if stage.tools.admits(tool.spec)]
    stages = [stage.id for stage in having if stage.when != "replan"]
    where = f"it is allowed in stage {' and '.join(stages)}" if stages else "no stage of this flow allows it"
    raise ToolDenied(
        f'{name} was not run: it is not available in stage "{run.stage.id}"; {where}. Tools here: {here}.'
    )


def _after_crash(run: StageRun, begun: ToolStarted, tool: Tool) -> CallAnswer | None:
    """The answer to a call that a crash interrupted; None if it left no mark and can simply be run."""
    if begun.category == "run" or tool.acts_itself:
        raise CallInterrupted(
            f"{begun.name} was interrupted by a crash and not run again: it may have partly taken effect."
        )
    now = [run.job.place.tree.hash_of(change.path) for change in begun.changes]
    if now == [change.before for change in begun.changes]:
        return None
    paths = tuple(change.path for change in begun.changes)
    if now == [change.after for change in begun.changes]:
        text = f"{begun.name} was interrupted by a crash after its change was made: {', '.join(paths)}."
        return CallAnswer(text, changed=tuple(map(parse_path, paths)))
    raise CallInterrupted(
        f"{begun.name} was interrupted by a crash and {', '.join(paths)} is neither in its old nor in its"
        " intended state: read it again."
    )

"""The classifier: a model that is asked, after a turn, which phase the work is in."""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict

from headgate.config import PhaseControl, prompt
from headgate.core import Message, Model, ModelSettings, Request, Usage, clean_text, estimate_missing, spent
from headgate.errors import ContextOverflow, ModelError, ModelUnavailable, ReplyInvalid
from headgate.features.phases.events import PhaseProbed
from headgate.first_use import dataclass, regex
from headgate.run import StageRun

PROBE_SECONDS = 20.0
TEXT_CHARS, NAME_CHARS, LISTED = 600, 120, 10
ANSWER_CHARS = 400
"""What is read of a classifier's answer: one word is enough."""
_JSON_PHASE = regex(r"""["']phase["']\s*:\s*["']([^"']*)["']""", re.IGNORECASE)
_FAULTS: Mapping[type[ModelError], str] = {
    ModelUnavailable: "unavailable",
    ReplyInvalid: "invalid",
    ContextOverflow: "overflow",
}


@dataclass(frozen=True, slots=True)
class Digest:
    """What a classifier is told: the last turn in a few lines, never the history."""

    tools: str = "none"
    files_read: str = "none"
    files_changed: str = "none"
    text: str = "nothing"


async def ask_classifier(
    model: Model, asked: ModelSettings, control: PhaseControl, phase: str, digest: Digest, seconds: float
) -> PhaseProbed:
    """One request without tools and without history. Only cancelling it gets out of here."""
    try:
        async with asyncio.timeout(seconds):
            request = probe_request(control, phase, digest)
            reply = estimate_missing(await model.reply(request), request)
    except TimeoutError:
        return PhaseProbed(fault="timeout", detail=f"no answer within {seconds:g} s", **spent(Usage(), asked))
    except ModelError as error:
        fault = next((fault for kind, fault in _FAULTS.items() if isinstance(error, kind)), "refused")
        detail = _one_line(str(error), NAME_CHARS)
        return PhaseProbed(fault=fault, detail=detail, **spent(Usage(), asked))
    cost = spent(reply.usage + reply.aside, asked, estimated=reply.estimated)
    if answer := read_answer(control.states, reply.message.content):
        return PhaseProbed(answer=answer, **cost)
    said = _one_line(reply.message.content, NAME_CHARS) or "nothing"
    return PhaseProbed(fault="unreadable", detail=f"it said: {said}", **cost)


def probe_request(control: PhaseControl, phase: str, digest: Digest) -> Request:
    """What the classifier is asked."""
    probe = control.probe
    system = prompt("phase_probe_system") if probe.system_prompt is None else probe.system_prompt
    question = prompt("phase_probe") if probe.user_prompt is None else probe.user_prompt
    values = {"phase": phase, "states": ", ".join(control.states), **asdict(digest)}
    asked = Message("user", _fill(question, values))
    # An empty system message is an error to some servers.
    messages = (Message("system", _fill(system, values)), asked) if system.strip() else (asked,)
    return Request(messages, (), probe.temperature, probe.max_tokens)


def _fill(template: str, values: Mapping[str, str]) -> str:
    """A text with its `{names}` replaced, also within other braces: a template may show JSON."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


def read_answer(states: Collection[str], text: str) -> str | None:
    """The state that a classifier names, as JSON `{"phase": ...}` or as the first that occurs as a word."""
    answer = text.rpartition("</think>")[2][:ANSWER_CHARS]
    if "<think>" in answer:
        return None
    found = _JSON_PHASE.search(answer)
    if found:
        answer = found[1]
    by_lower = {name.lower(): name for name in states}
    names = "|".join(sorted(map(re.escape, by_lower), key=len, reverse=True))
    word = re.search(rf"(?<![\w-])(?:{names})(?![\w-])", answer.lower())
    return by_lower[word[0]] if word else None


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


def _list(names: Collection[str], redact: Callable[[str], str]) -> str:
    """The latest names, and how many came before them."""
    shown = ", ".join(_one_line(redact(name), NAME_CHARS) for name in [*names][-LISTED:])
    left_out = len(names) - LISTED
    return f"{left_out} others, {shown}" if left_out > 0 else shown or "none"


def _one_line(text: str, chars: int) -> str:
    return clean_text(" ".join(text[: 4 * chars].split()))[:chars]

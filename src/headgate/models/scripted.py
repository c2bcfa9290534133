"""A model that says what a script tells it to, for scenarios, demonstrations and tests."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from headgate.core import Delta, Finish, Message, OnDelta, Price, Reply, Request, ToolCall, Usage
from headgate.errors import (
    ConfigError,
    ContextOverflow,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    ReplyInvalid,
)
from headgate.models.encoding import CallIds, call_ids, encode_json

_LOADER: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_DEPTH = 200


class ScriptError(ModelError):
    """The script does not fit what happened: it ran out, is left over, or expected another request."""


class ScriptExhausted(ScriptError):
    """The model was asked once more than the script has entries."""


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str) else value


Words = Annotated[list[str], BeforeValidator(_one_or_more)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Expectation(_Strict):
    """What a request must look like."""

    tools: Words | None = None
    """Exactly these tools are visible, in any order."""
    tools_include: Words = []
    """These tools are visible."""
    tools_exclude: Words = []
    """These tools are not visible."""
    seen: Words = []
    """Each of these texts is somewhere in the messages."""
    unseen: Words = []
    """None of these texts is in the messages."""
    last: Words = []
    """Each of these texts is in the messages after the last assistant message."""
    system: Words = []
    """Each of these texts is in a system message."""
    thoughts: Words = []
    """Each of these texts is in what the request passes back of the model's reasoning."""
    no_thoughts: Words = []
    """None of these texts is in it."""

    def find_fault(self, request: Request) -> str | None:
        """What is wrong with a request, or None."""
        visible = sorted(tool.name for tool in request.shown)
        if self.tools is not None and sorted(self.tools) != visible:
            return f"it expects the tools {sorted(self.tools)}, but the visible tools are {visible}"
        for name in self.tools_include:
            if name not in visible:
                return f'it expects the tool "{name}", but the visible tools are {visible}'
        for name in self.tools_exclude:
            if name in visible:
                return f'it expects that the tool "{name}" is not visible'
        everything = "\n".join(message.content for message in request.messages)
        system = "\n".join(message.content for message in request.messages if message.role == "system")
        last = _text_after_reply(request.messages)
        thoughts = "\n".join(message.reasoning for message in request.messages)
        for words, text, where in (
            (self.seen, everything, "the request"),
            (self.last, last, "the last messages"),
            (self.system, system, "the system message"),
            (self.thoughts, thoughts, "the reasoning"),
        ):
            for word in words:
                if word not in text:
                    return f'it expects "{word}" in {where}, which ends: {text[-500:]!r}'
        for words, text, where in (
            (self.unseen, everything, "the request"),
            (self.no_thoughts, thoughts, "the reasoning"),
        ):
            for word in words:
                if word in text:
                    return f'it expects that "{word}" is not in {where}'
        return None


class ScriptedUsage(_Strict):
    """The tokens that a scripted reply claims to have cost."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class ScriptedFailure(_Strict):
    """An error in place of a reply."""

    kind: Literal["unavailable", "refused", "invalid", "overflow"]
    message: str = "The script says so."
    retry_after: float | None = None
    """Kind `unavailable`: the seconds that the server asks to wait."""

    wrote: str = ""
    """Kind `invalid`: what the model wrote."""
    server: Literal["", "away", "loading"] = "away"
    """Kind `unavailable`: what its server is at; empty: it answers with an error."""

    def as_error(self) -> ModelError:
        """The error that this stands for."""
        if self.kind == "unavailable":
            unavailable = ModelUnavailable(self.message, retry_after=self.retry_after)
            unavailable.server = self.server
            return unavailable
        kinds = {"refused": ModelRefused, "invalid": ReplyInvalid, "overflow": ContextOverflow}
        error = kinds[self.kind](self.message)
        if isinstance(error, ReplyInvalid):
            error.said = self.wrote
        return error


class ScriptEntry(_Strict):
    """One entry of a script: a reply or an error."""

    text: str = ""
    """What the model says."""
    reasoning: str = ""
    """What it thinks before."""
    calls: list[dict[str, Any]] = []
    """Its calls, each `tool: arguments`; a string is the raw text of the arguments, broken or not."""
    usage: ScriptedUsage | None = None
    """Default: estimated, four characters a token."""
    finish: Finish | None = None
    """Default: `calls` with calls, else `stop`."""
    error: ScriptedFailure | None = None
    """Fail in place of replying."""
    expect: Expectation | None = None
    """What the request must look like."""
    delay: Annotated[float, Field(ge=0)] = 0
    """Seconds to wait before answering."""

    @model_validator(mode="after")
    def _check(self) -> "ScriptEntry":
        replies = {"text", "reasoning", "calls", "usage", "finish"} & self.model_fields_set
        if self.error is not None and replies:
            raise ValueError(f"an error has no {', '.join(sorted(replies))}")
        if self.error is None and not {"text", "reasoning", "calls"} & replies:
            raise ValueError("an entry needs text, calls or error")
        if any(len(call) != 1 for call in self.calls):
            raise ValueError("each call is one mapping such as `read_file: {path: a.py}`")
        return self


Step = Reply | Exception | ScriptEntry
Entry = Step | Callable[[Request], Step | Awaitable[Step]]


class ScriptedModel:
    """Answers each request with the next entry and records the requests."""

    def __init__(self, entries: Sequence[Entry], *, name: str = "script") -> None:
        self.name = name
        self.price = Price()
        """What it is taken to cost."""
        self.requests: list[Request] = []
        """Every request so far, as it was when it was made."""
        self.error: ScriptError | None = None
        """The first thing that did not fit, also where the caller got over it."""
        self._entries = list(entries)
        self._position = 0
        self._ids: set[str] = set()

    @classmethod
    def load(cls, path: Path) -> "ScriptedModel":
        """Reads a script from a YAML file: a list of entries, or a mapping with the list under `replies`."""
        return cls(_read_script(path), name=f"script:{path.name}")

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """What the next entry says."""
        request = replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        if self._position >= len(self._entries):
            count = len(self._entries)
            entries = f"{count} {'entry' if count == 1 else 'entries'}"
            raise self._fail(ScriptExhausted, f"has {entries} and was asked for one more")
        entry: object = self._entries[self._position]
        self._position += 1
        number = self._position
        while callable(entry):
            entry = entry(request)
            if inspect.isawaitable(entry):
                entry = await entry
        if isinstance(entry, ScriptEntry):
            entry = await self._play(entry, request, number)
        if isinstance(entry, Exception):
            raise entry
        if not isinstance(entry, Reply):
            raise self._fail(
                ScriptError, f"entry {number} gave a {type(entry).__name__}, which is not a reply"
            )
        self._ids.update(call.id for call in entry.message.calls)
        if on_delta:
            _emit(entry.message, on_delta)
        return entry

    def skip(self, count: int) -> None:
        """Goes on behind entries that an earlier process has played."""
        self._position = min(self._position + count, len(self._entries))

    def leftover(self) -> list[int]:
        """The numbers of the entries that nobody asked for, from 1."""
        return list(range(self._position + 1, len(self._entries) + 1))

    def check_finished(self) -> None:
        """Raises ScriptError where the script did not fit: the first fault, or entries that are left over."""
        if self.error is not None:
            raise self.error
        if left := self.leftover():
            numbers = ", ".join(map(str, left))
            raise self._fail(ScriptError, f"has entries that were never requested: {numbers}")

    async def _play(self, entry: ScriptEntry, request: Request, number: int) -> Reply | ModelError:
        if entry.expect and (fault := entry.expect.find_fault(request)):
            raise self._fail(ScriptError, f"entry {number} does not fit the request: {fault}")
        if entry.delay:
            await asyncio.sleep(entry.delay)
        if entry.error:
            return entry.error.as_error()
        ids = CallIds(call_ids(request.messages), self._ids)
        calls = [
            ToolCall(ids.take(""), name, _argument_text(value))
            for call in entry.calls
            for name, value in call.items()
        ]
        message = Message("assistant", entry.text, tuple(calls), reasoning=entry.reasoning)
        usage = Usage(**entry.usage.model_dump()) if entry.usage else _estimate(request, message)
        finish: Finish = entry.finish or ("calls" if calls else "stop")
        return Reply(message, usage, finish, estimated=entry.usage is None)

    def _fail(self, kind: type[ScriptError], what: str) -> ScriptError:
        error = kind(f"The script {self.name} {what}.")
        self.error = self.error or error
        return error


def _load(text: str) -> Any:
    """The document in a text; RecursionError if it is nested deeply, of which the C parser would die."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_DEPTH:
            raise RecursionError
    return yaml.load(text, Loader=_LOADER)


def _read_script(path: Path) -> list[ScriptEntry]:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ConfigError(f"The script {path} is not a regular file.")  # a pipe has no end
    try:
        document = _load(path.read_text("utf-8-sig"))
    except RecursionError:
        raise ConfigError(f"The script {path} is nested too deeply.") from None
    except FileNotFoundError as error:
        raise ConfigError(f"The script {path} does not exist.") from error
    except OSError as error:
        raise ConfigError(
            f"The script {path} cannot be read: {error.strerror or 'it is not a file'}."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"The script {path} is not UTF-8 text.") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"The script {path} is not valid YAML{_yaml_fault(error)}.") from error
    if isinstance(document, dict):
        if unknown := sorted(str(key) for key in document if key != "replies"):
            raise ConfigError(
                f"The script {path} has unknown keys: {', '.join(unknown)}. Write replies: [...]."
            )
        document = document.get("replies")
    if not isinstance(document, list):
        raise ConfigError(f"The script {path} must contain a list of entries under replies.")
    return [_read_entry(path, number, fields) for number, fields in enumerate(document, 1)]


def _read_entry(path: Path, number: int, fields: object) -> ScriptEntry:
    try:
        entry = ScriptEntry.model_validate(fields)
        for call in entry.calls:
            _argument_text(next(iter(call.values())))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].removeprefix('Value error, ')}".removeprefix(
                ": "
            )
            for fault in error.errors()
        )
        raise ConfigError(f"The script {path}, entry {number}: {faults}.") from error
    except TypeError as error:
        raise ConfigError(f"The script {path}, entry {number}: {error}; quote it.") from error
    except (ValueError, RecursionError):
        raise ConfigError(f"The script {path}, entry {number}: a value contains itself.") from None
    return entry


def _yaml_fault(error: yaml.YAMLError) -> str:
    """Where the fault is and what, without the piece of the file that the library quotes."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return ""
    return f" in line {error.problem_mark.line + 1}: {error.problem or 'it cannot be read'}"


def _argument_text(value: object) -> str:
    if value is None:
        return "{}"
    return value if isinstance(value, str) else encode_json(value).decode()


def _text_after_reply(messages: Sequence[Message]) -> str:
    texts: list[str] = []
    for message in reversed(messages):
        if message.role == "assistant":
            break
        texts.append(message.content)
    return "\n".join(reversed(texts))


def _estimate(request: Request, message: Message) -> Usage:
    return Usage(sum(_size(sent) for sent in request.messages) // 4, _size(message) // 4)


def _size(message: Message) -> int:
    return len(message.content) + len(message.reasoning) + sum(len(call.arguments) for call in message.calls)


def _emit(message: Message, on_delta: OnDelta) -> None:
    for delta in (
        Delta(reasoning=message.reasoning),
        Delta(text=message.content),
        *(Delta(arguments=call.arguments) for call in message.calls),
    ):
        if delta != Delta():
            on_delta(delta)

"""One request and its reply, streamed or whole: what all wire formats over HTTP have in common."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core import CHARS_PER_TOKEN
from headgate.errors import ModelRefused, ModelUnavailable, ReplyInvalid
from headgate.models.wire.assembly import Assembly
from headgate.models.wire.encoding import decode_json
from headgate.models.wire.failures import ServerTrouble, explain_event, show_address
from headgate.models.wire.http import Answer, HttpClient

# Server-sent events, parsed as the HTML standard says, from bytes that arrive in any pieces.


_LINE_END = re.compile(rb"\r\n|\n|\r")
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event. `id` is the last event id, which stays until another one is sent."""

    data: str
    type: str = "message"
    id: str = ""


class SseParser:
    """Feed it bytes; it returns the events that they complete. An event without its blank line is dropped."""

    def __init__(self) -> None:
        self.retry: int | None = None
        """The reconnection time in milliseconds, where the server named one."""
        self._line: list[bytes] = []
        self._first_line = True
        self._skip_newline = False
        self._data: list[str] = []
        self._type = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that are complete with this chunk."""
        if not chunk:
            return []
        # A carriage return ends its line at once; the newline of a split CR LF comes with the next chunk.
        start = 1 if self._skip_newline and chunk.startswith(b"\n") else 0
        self._skip_newline = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk[start:])
        events = []
        for line in lines:
            if self._line:
                line = b"".join((*self._line, line))
                self._line.clear()
            if event := self._take(line):
                events.append(event)
        if rest:
            self._line.append(rest)
        return events

    def _take(self, line: bytes) -> SseEvent | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value)
        return None

    def _dispatch(self) -> SseEvent | None:
        data, kind = self._data, self._type
        self._data, self._type = [], ""
        return SseEvent("\n".join(data), kind or "message", self._id) if data else None


def is_event_stream(content_type: str) -> bool:
    """Whether a Content-Type header announces an event stream, which is UTF-8 and nothing else."""
    essence, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charset = next((part[8:].strip('"') for part in parameters if part.startswith("charset=")), "utf-8")
    return essence == "text/event-stream" and charset in ("utf-8", "utf8")


# JSON values, one per line, from bytes that arrive in any pieces.


class LineParser:
    """Feed it bytes; it returns the lines that they complete, each as an event."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The lines that are complete with this chunk; an empty chunk completes the last one."""
        if not chunk:
            chunk = b"\n"
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return [SseEvent(line.decode("utf-8", "replace")) for line in lines if line.strip()]


def is_line_stream(content_type: str) -> bool:
    """Whether a Content-Type header announces one JSON value per line."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence in ("application/x-ndjson", "application/ndjson", "application/jsonl")


_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_TWO_LINES = re.compile(rb'\s*\{".*\}\r?\n\{"')


async def exchange(client: HttpClient, path: str, body: bytes, assembly: Assembly) -> None:
    """Posts the body and puts the answer into the assembly; any failure is one of the model errors."""
    try:
        await _exchange(client, path, body, assembly)
    except ReplyInvalid as error:
        # The server did not come to counting, but it has read all of it.
        prompt, completion, cached = error.tokens
        error.tokens = (prompt or len(body) // CHARS_PER_TOKEN, completion, cached)
        raise


async def _exchange(client: HttpClient, path: str, body: bytes, assembly: Assembly) -> None:
    async with client.post(path, body) as answer:
        if is_event_stream(answer.content_type):
            await _read_stream(answer, SseParser(), assembly)
            return
        if is_line_stream(answer.content_type):
            await _read_stream(answer, LineParser(), assembly)
            return
        start = await answer.chunk()
        answer.started = True
        whole = await answer.body(start)
        parser = _parser_for(whole)
        if parser is not None:
            _feed(answer, parser, whole, assembly)
            _feed(answer, parser, b"", assembly)
            _require_end(answer, assembly)
        else:
            _read_whole(answer, whole, assembly)


def _parser_for(body: bytes) -> SseParser | LineParser | None:
    """What reads a stream that was announced as something else; None for a body that is no stream."""
    if body.removeprefix(BOM).lstrip().startswith(_STREAM_STARTS):
        return SseParser()
    return LineParser() if _TWO_LINES.match(body) else None


async def _read_stream(answer: Answer, parser: SseParser | LineParser, assembly: Assembly) -> None:
    while not assembly.done:
        try:
            chunk = await answer.chunk()
        except ModelUnavailable:
            if assembly.ended:
                return  # the reply is complete; only counts of tokens can be missing
            raise
        if not chunk:
            _feed(answer, parser, chunk, assembly)  # a last line may lack its end
            break
        _feed(answer, parser, chunk, assembly)
        answer.started = assembly.started
    _require_end(answer, assembly)


def _require_end(answer: Answer, assembly: Assembly) -> None:
    if not assembly.ended:
        server = show_address(answer.endpoint)
        raise ServerTrouble(f"{server} closed the connection in the middle of a reply.", "cut")


def _feed(answer: Answer, parser: SseParser | LineParser, chunk: bytes, assembly: Assembly) -> None:
    for event in parser.feed(chunk):
        data = event.data.strip()
        if data == "[DONE]":
            assembly.ended = assembly.done = True
        if assembly.done:
            return
        if not data:
            continue
        try:
            payload = decode_json(data)
        except ValueError:
            payload = None
        if not isinstance(payload, Mapping):
            server = show_address(answer.endpoint)
            raise ServerTrouble(f"{server} sent an event that is not part of a reply.", "broken")
        # Some servers report a reached limit as an error although the reply is complete.
        if payload.get("error") and not assembly.ended:
            raise explain_event(answer.endpoint, payload)
        assembly.add(payload)


def _read_whole(answer: Answer, body: bytes, assembly: Assembly) -> None:
    payload = answer.decode(body)
    if isinstance(payload, Mapping):
        if payload.get("error"):
            raise explain_event(answer.endpoint, payload)
        try:
            assembly.load(payload)
        except ValueError as error:
            raise ModelRefused(
                f"{show_address(answer.endpoint)} does not answer like a model API: {error}. Check base_url."
            ) from error
        return
    raise ModelRefused(f"{show_address(answer.endpoint)} does not answer like a model API. Check base_url.")

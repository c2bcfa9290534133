"""One request and its reply, streamed or whole: what all wire formats over HTTP have in common."""

import re
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping
from typing import Any

from headgate.core import (
    CHARS_PER_TOKEN,
    Delta,
    Enough,
    ModelSettings,
    OnDelta,
    Reply,
    Request,
    clean_text,
    written,
)
from headgate.errors import ModelRefused, ModelUnavailable, ReplyInvalid
from headgate.first_use import regex
from headgate.models.encoding import CallIds, decode_json, repair_text
from headgate.models.wire.failures import ServerTrouble, endpoint_label, explain_event
from headgate.models.wire.http import HttpAnswer, HttpClient

REPLY_TOKENS = 32_768
"""The longest reply where nobody sets a limit."""
_WIDEST_TOKEN = 6
"""In characters, on average: a server that keeps to a limit on tokens never has its reply cut off here."""
_LEAST_CHARACTERS = 4_000
MOST_CHARACTERS = REPLY_TOKENS * _WIDEST_TOKEN + _LEAST_CHARACTERS
WINDOW = 6_000
"""How much of a reply must be nothing but one piece repeated."""
MAX_PERIOD = 400
BLANK_LINES, BLANKS = 200, 1_000
"""How many line breaks, or characters that are not seen, may come with nothing else in between."""
_CHECK_EVERY = 500
_ESCAPE = regex(r"\\+(?:u([0-9a-fA-F]{4})|([nrt]))")
"""A character in a JSON string, perhaps one that is itself in a JSON string."""
_HALF_ESCAPE = regex(r"\\+(?:u[0-9a-fA-F]{0,3})?\Z")
_SHORT_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
MOST_TOKENS = 10_000_000
"""No server counts more in one request."""


def read_count(value: object) -> int:
    """A number of tokens that a server told; 0 where it is none."""
    return value if isinstance(value, int) and 0 < value <= MOST_TOKENS else 0


def reply_limit(request: Request, settings: ModelSettings) -> int | None:
    """The most tokens of a reply: the request's limit or the model's own, whichever is less."""
    given = [limit for limit in (request.max_tokens, settings.max_tokens) if limit]
    return min(given, default=None)


def most_characters(request: Request, settings: ModelSettings) -> int:
    """The characters after which a reply is cut off, whatever its server makes of limits."""
    window = settings.num_ctx or settings.context_window or REPLY_TOKENS
    tokens = reply_limit(request, settings) or min(window, REPLY_TOKENS)
    return tokens * _WIDEST_TOKEN + _LEAST_CHARACTERS


class EndlessReplyDetector:
    """Sees every piece of a reply once and raises ReplyInvalid when it has seen enough."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._tail = ""
        self._fresh: list[str] = []
        self._fresh_size = 0

    def see(self, *pieces: str) -> None:
        for piece in pieces:
            self._fresh.append(piece)
            self._fresh_size += len(piece)
        if self._fresh_size >= _CHECK_EVERY:
            self._check()

    def _check(self) -> None:
        self._total += self._fresh_size
        if self._total > self._most:
            raise self._cut_off(f"The reply was longer than {self._most:,} characters and was cut off.")
        fresh = "".join(self._fresh)
        half = _HALF_ESCAPE.search(fresh, max(len(fresh) - MAX_PERIOD, 0))
        rest = fresh[half.start() :] if half else ""
        self._tail = (self._tail + _ESCAPE.sub(_read_escape, fresh[: len(fresh) - len(rest)]))[-WINDOW:]
        self._fresh = [rest] if rest else []
        self._fresh_size = 0
        is_periodic = len(self._tail) == WINDOW and repeats_itself(self._tail)
        if is_periodic or _ends_blank(self._tail):
            raise self._cut_off("The reply repeated itself endlessly and was cut off.")

    def _cut_off(self, reason: str) -> ReplyInvalid:
        error = ReplyInvalid(reason)
        error.tokens, error.estimated = (0, self._total // CHARS_PER_TOKEN, 0), True
        return error


def _read_escape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _SHORT_ESCAPES[found[2]]


def _ends_blank(text: str) -> bool:
    """Whether a text ends with more blank space than anybody means."""
    blank = text[len(text.rstrip()) :]
    return len(blank) >= BLANKS or blank.count("\n") >= BLANK_LINES


def repeats_itself(text: str) -> bool:
    """Whether the whole text is one piece of at most MAX_PERIOD characters over and over."""
    # A text that repeats a piece has its own end once more that piece earlier.
    end = text[-MAX_PERIOD:]
    before = text.rfind(end, 0, len(text) - 1)
    period = len(text) - MAX_PERIOD - before
    return before >= 0 and period <= MAX_PERIOD and text[period:] == text[:-period]


class Assembly(ABC):
    """Takes the pieces of a reply as they arrive, or one whole body."""

    def __init__(
        self,
        on_delta: OnDelta | None = None,
        enough: Enough | None = None,
        most: int = MOST_CHARACTERS,
    ) -> None:
        self.started = False
        """A token has come."""
        self.ended = False
        """The reply is complete; what follows can add usage, and nothing else."""
        self.done = False
        """Nothing more is to come."""
        self.stopped = False
        """It was long enough before the model had ended it."""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._on_delta = on_delta
        self._enough = enough
        self._watch = EndlessReplyDetector(most)
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Sets what is to be collected."""

    @abstractmethod
    def add(self, chunk: Mapping[str, Any]) -> None:
        """Takes one event of a stream."""

    @abstractmethod
    def load(self, body: Mapping[str, Any]) -> None:
        """Takes a whole reply. ValueError where the body is none."""

    @abstractmethod
    def reply(self, ids: CallIds, sent: int = 0) -> Reply:
        """The reply, as far as it has come, to a request of this size."""

    @property
    @abstractmethod
    def calls_tools(self) -> bool:
        """Whether a call has begun: text after it is no reason to stop."""

    @property
    def text(self) -> str:
        return repair_text("".join(self._text))

    @property
    def reasoning(self) -> str:
        return repair_text("".join(self._reasoning))

    def take_piece(self, text: str = "", reasoning: str = "", arguments: str = "") -> None:
        """Keeps a piece, checks that a reply with it will end, and shows it."""
        if not (text or reasoning or arguments):
            return
        self.started = True
        self._text.append(text)
        self._reasoning.append(reasoning)
        if text and self._enough and not self.calls_tools and self._enough(text):
            self.ended = self.done = self.stopped = True
        if not self.stopped:
            self._watch.see(text, reasoning, arguments)
        if self._on_delta:
            self._on_delta(Delta(clean_text(text), clean_text(reasoning), clean_text(arguments)))


# Server-sent events, parsed as the HTML standard says, from bytes that arrive in any pieces.


_LINE_END = regex(rb"\r\n|\n|\r")
BOM = b"\xef\xbb\xbf"


class SseParser:
    """Feed it bytes; it returns the data of the events that they complete."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._first_line = True
        self._skip_newline = False
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that are complete with this chunk."""
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
            if (data := self._take(line)) is not None:
                events.append(data)
        if rest:
            self._line.append(rest)
        return events

    def _take(self, line: bytes) -> str | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(BOM)
        if not line:
            data, self._data = self._data, []
            return "\n".join(data) if data else None
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
        elif line == b"data":
            self._data.append("")
        return None


# JSON values, one per line, from bytes that arrive in any pieces.


class LineParser:
    """Feed it bytes; it returns the lines that they complete."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that are complete with this chunk; an empty chunk completes the last one."""
        if not chunk:
            chunk = b"\n"
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]


def announced_parser(content_type: str) -> SseParser | LineParser | None:
    """What reads a stream that a Content-Type header announces. An event stream is UTF-8 and nothing else."""
    essence, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charset = next((part[8:].strip('"') for part in parameters if part.startswith("charset=")), "utf-8")
    if essence == "text/event-stream" and charset in ("utf-8", "utf8"):
        return SseParser()
    is_lines = essence in ("application/x-ndjson", "application/ndjson", "application/jsonl")
    return LineParser() if is_lines else None


_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_TWO_LINES = regex(rb'\s*\{".*\}\r?\n\{"')


async def exchange(
    client: HttpClient, path: str, body: bytes, assembly: Assembly, sent: int, used: Container[str]
) -> Reply:
    """Posts the body and returns the reply; any failure is one of the model errors.

    A reply that was cut off has cost something all the same: all that was sent, and all that came. `sent` is
    the size of the request, in which images count as what they cost; `used`, the ids of earlier calls.
    """
    ids = CallIds(used)
    try:
        await _exchange(client, path, body, assembly)
    except ReplyInvalid as error:
        prompt, completion, cached = error.tokens
        error.tokens = (prompt or sent // CHARS_PER_TOKEN, completion, cached)
        error.estimated = error.estimated or not prompt
        error.said = error.said or written(assembly.reply(ids, sent).message)
        raise
    return assembly.reply(ids, sent)


async def _exchange(client: HttpClient, path: str, body: bytes, assembly: Assembly) -> None:
    async with client.post(path, body) as answer:
        parser = announced_parser(answer.content_type)
        if parser is not None:
            await _read_stream(answer, parser, assembly)
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


async def _read_stream(answer: HttpAnswer, parser: SseParser | LineParser, assembly: Assembly) -> None:
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


def _require_end(answer: HttpAnswer, assembly: Assembly) -> None:
    if not assembly.ended:
        server = endpoint_label(answer.endpoint)
        raise ServerTrouble(f"{server} closed the connection in the middle of a reply.", "cut")


def _feed(answer: HttpAnswer, parser: SseParser | LineParser, chunk: bytes, assembly: Assembly) -> None:
    for data in parser.feed(chunk):
        data = data.strip()
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
        if not isinstance(payload, dict):
            server = endpoint_label(answer.endpoint)
            raise ServerTrouble(f"{server} sent an event that is not part of a reply.", "broken")
        # Some servers report a reached limit as an error although the reply is complete.
        if payload.get("error") and not assembly.ended:
            raise explain_event(answer.endpoint, payload)
        assembly.add(payload)


def _read_whole(answer: HttpAnswer, body: bytes, assembly: Assembly) -> None:
    payload = answer.decode(body)
    if isinstance(payload, dict):
        if payload.get("error"):
            raise explain_event(answer.endpoint, payload)
        try:
            assembly.load(payload)
        except ValueError as error:
            server = endpoint_label(answer.endpoint)
            raise ModelRefused(
                f"{server} does not answer like a model API: {error}. Check base_url."
            ) from error
        return
    raise ModelRefused(f"{endpoint_label(answer.endpoint)} does not answer like a model API. Check base_url.")

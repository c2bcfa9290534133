"""One request and its reply, streamed or whole: what all wire formats over HTTP have in common."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from headgate.errors import ModelRefused, ModelUnavailable, ReplyInvalid
from headgate.models.endless import CHARACTERS_PER_TOKEN
from headgate.models.failures import ServerTrouble, explain_event, show_address
from headgate.models.http import Answer, HttpClient
from headgate.models.jsontext import decode_json
from headgate.models.ndjson import LineParser, is_line_stream
from headgate.models.sse import BOM, SseParser, is_event_stream

_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_TWO_LINES = re.compile(rb'\s*\{".*\}\r?\n\{"')


class Assembly(Protocol):
    """A reply in the making."""

    started: bool
    """A token has come."""
    ended: bool
    """The reply is complete; what follows can add usage, and nothing else."""
    done: bool
    """Nothing more is to come."""

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Takes one event of a stream."""
        ...

    def load(self, body: Mapping[str, Any]) -> None:
        """Takes a whole reply. ValueError where the body is none."""
        ...


async def exchange(client: HttpClient, path: str, body: bytes, assembly: Assembly) -> None:
    """Posts the body and puts the answer into the assembly; any failure is one of the model errors."""
    try:
        await _exchange(client, path, body, assembly)
    except ReplyInvalid as error:
        # The server did not come to counting, but it has read all of it.
        prompt, completion, cached = error.tokens
        error.tokens = (prompt or len(body) // CHARACTERS_PER_TOKEN, completion, cached)
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

"""Servers that fail, and streams that are none."""

import json
from dataclasses import replace
from typing import Any

from bestiary.rows import SHORT, Theme
from bestiary.server import Behave
from bestiary.speech import Answer, Asked, Say, Send, done, fix, use, work_and_claim
from models.model_server import chunk, stream

SERVERS = Theme("Servers and streams")
row = SERVERS.row
QUICK: dict[str, Any] = {"timeouts": {"connect": 5, "first_token": 0.3, "idle": 0.15}}
"""Limits for servers that stay silent: each costs its time in full."""
ERRORS = {
    400: ("bad_request", "Invalid request."),
    401: ("invalid_api_key", "Incorrect API key provided."),
    402: ("insufficient_quota", "You exceeded your current quota."),
    404: ("model_not_found", "The model does not exist."),
    413: ("request_too_large", "The request exceeds the maximum size."),
    429: ("rate_limit_exceeded", "Rate limit reached."),
    500: ("server_error", "The server had an error."),
    503: ("overloaded_error", "The server is overloaded."),
}
HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"


def _error(status: int, code: str, message: str) -> Send:
    body = json.dumps({"error": {"message": message, "type": code, "code": code}}).encode()
    return Send(body, status, "application/json", {"Retry-After": "3600"} if status == 429 else None)


def _always(reply: Send) -> Behave:
    return lambda asked: reply


for number, (slug, told) in ERRORS.items():
    SERVERS.add(
        f"http_{number}_for_ever",
        f"Every request is answered with HTTP {number}: {told}",
        _always(_error(number, slug, told)),
        SHORT,
    )


@row(SHORT)
def http_500_every_other_time(asked: Asked) -> Answer:
    """Every second request fails; the work in between is good."""
    return _error(500, "server_error", "Try again.") if asked.number % 2 else work_and_claim(asked, fix())


@row(SHORT)
def context_overflow_for_ever(asked: Asked) -> Answer:
    """No request fits the context window, however short it is."""
    return _error(400, "context_length_exceeded", "This model's maximum context length is 10 tokens.")


@row(SHORT)
def html_error_page(asked: Asked) -> Answer:
    """A proxy answers with a web page instead of the model."""
    return Send(HTML, 502, "text/html")


@row(SHORT)
def html_page_as_success(asked: Asked) -> Answer:
    """A login page arrives with status 200."""
    return Send(HTML, 200, "text/html")


@row(SHORT)
def connection_reset(asked: Asked) -> Answer:
    """The connection is reset before the answer."""
    return Send(ending="reset")


@row(SHORT)
def json_of_another_kind(asked: Asked) -> Answer:
    """The answer is JSON, but not a reply."""
    return Send(b'{"detail": [1, 2, {"choices": "none"}]}', 200, "application/json")


@row(SHORT)
def json_broken_off(asked: Asked) -> Answer:
    """The answer is the beginning of a reply, marked as complete."""
    return Send(b'{"choices": [{"index": 0, "message": {"role": "assi', 200, "application/json")


@row(SHORT)
def choices_of_wrong_types(asked: Asked) -> Answer:
    """The reply has the right keys with values of the wrong types."""
    odd: tuple[Any, ...] = (
        {"choices": []},
        {"choices": [None, 3, "x"]},
        {"choices": [{"message": {"content": 5, "tool_calls": {"a": 1}}, "finish_reason": 7}]},
        {"choices": [{"message": {"tool_calls": [{"function": None}, {"function": {"name": 3}}, 4]}}]},
    )
    return Send(json.dumps(odd[asked.number % 4]).encode(), 200, "application/json")


@row(SHORT)
def stream_of_garbage(asked: Asked) -> Answer:
    """The stream's events are not JSON."""
    return Send(b"data: {]\n\ndata: hello\n\n")


@row(SHORT)
def stream_with_invalid_utf8(asked: Asked) -> Answer:
    """The text and the path of each call contain bytes that are not UTF-8."""
    call = {"index": 0, "id": "c", "function": {"name": "read_file", "arguments": '{"path": "XX"}'}}
    text = stream(chunk({"content": "Caf?? XX"}), chunk({"tool_calls": [call]}), chunk(finish="tool_calls"))
    return Send(text.encode().replace(b"XX", b"\xff\xfe\xc3"))


@row(SHORT)
def stream_that_ends_in_the_middle(asked: Asked) -> Answer:
    """The connection is closed halfway through each reply."""
    return replace(use("read_file", path="calc.py"), piece=3, broken_off=True)


@row(SHORT)
def stream_that_breaks_off_once(asked: Asked) -> Answer:
    """One reply breaks off; the next one is good."""
    work = work_and_claim(asked, fix())
    return replace(work, piece=3, broken_off=True) if asked.number == 1 else work


@row(SHORT, model=QUICK)
def stream_that_falls_silent(asked: Asked) -> Answer:
    """The stream stops without an end marker, and the connection stays open."""
    return Send(stream(chunk({"content": "Let me"}), done=False).encode(), ending="silent")


@row(SHORT, model=QUICK)
def server_that_never_answers(asked: Asked) -> Answer:
    """The server accepts the request and never answers."""
    return Send(ending="silent")


@row(SHORT)
def stream_that_never_ends(asked: Asked) -> Answer:
    """The same words arrive without end."""
    return Send(stream(chunk({"content": "and then " * 100}), done=False).encode(), ending="endless")


@row(SHORT)
def stream_of_ever_new_calls(asked: Asked) -> Answer:
    """New calls arrive without end in one reply."""
    call = {"index": None, "function": {"name": "read_file", "arguments": '{"path": "calc.py"}'}}
    return Send(stream(*[chunk({"tool_calls": [call]})] * 100, done=False).encode(), ending="endless")


@row(SHORT, model=QUICK)
def stream_of_comments(asked: Asked) -> Answer:
    """Keep-alive comments arrive without end, and never a token."""
    return Send((": keep-alive\n\n" * 200).encode(), ending="endless")


@row(SHORT)
def slow_drip(asked: Asked) -> Answer:
    """A valid reply arrives a few characters at a time."""
    return replace(work_and_claim(asked, fix()), piece=4, pause=0.003)


@row(SHORT)
def usage_missing(asked: Asked) -> Answer:
    """The server counts no tokens; the work is good."""
    return replace(work_and_claim(asked, fix()), usage=None)


@row(SHORT, model={"context_window": 8_000})
def usage_absurd(asked: Asked) -> Answer:
    """The server's counts are negative, enormous or not numbers; the work is good."""
    counts = (10**30, -5, "many", 1.5, True, None, [1])
    usage = {"prompt_tokens": counts[asked.number % 7], "completion_tokens": counts[(asked.number + 1) % 7]}
    looks = use("read_file", path="calc.py", start_line=asked.number)
    work = looks if asked.number < 7 else fix() if asked.number == 7 else done(asked)
    return replace(work, usage=usage)


@row(SHORT)
def finished_for_a_strange_reason(asked: Asked) -> Answer:
    """The reply is filtered, or ends for an unknown reason."""
    return Say("I can", finish=("content_filter", "recitation", "error", "safety")[asked.number % 4])


@row(SHORT)
def error_in_the_middle_of_a_stream(asked: Asked) -> Answer:
    """An error arrives as an event after the reply has begun."""
    error = {"error": {"message": "CUDA out of memory", "code": 500}}
    return Send(stream(chunk({"content": "I will"}), error).encode())

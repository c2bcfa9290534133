"""Servers that fail, and streams that are none."""

import json
from dataclasses import replace
from typing import Any

from bestiary.rows import Theme
from bestiary.server import Behave
from bestiary.speech import Answer, Asked, Say, Send, done, fix, use, work_and_claim
from models.model_server import chunk, stream

SERVERS = Theme("Servers and streams")
row, add = SERVERS.row, SERVERS.add
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
    )


add(
    "http_500_every_other_time",
    "Every second request fails; the work in between is good.",
    lambda asked: (
        _error(500, "server_error", "Try again.") if asked.number % 2 else work_and_claim(asked, fix())
    ),
)
add(
    "context_overflow_for_ever",
    "No request fits the context window, however short it is.",
    _error(400, "context_length_exceeded", "This model's maximum context length is 10 tokens."),
)
add("html_error_page", "A proxy answers with a web page instead of the model.", Send(HTML, 502, "text/html"))
add("html_page_as_success", "A login page arrives with status 200.", Send(HTML, 200, "text/html"))
add("connection_reset", "The connection is reset before the answer.", Send(ending="reset"))
add(
    "json_of_another_kind",
    "The answer is JSON, but not a reply.",
    Send(b'{"detail": [1, 2, {"choices": "none"}]}', 200, "application/json"),
)
add(
    "json_broken_off",
    "The answer is the beginning of a reply, marked as complete.",
    Send(b'{"choices": [{"index": 0, "message": {"role": "assi', 200, "application/json"),
)


@row()
def choices_of_wrong_types(asked: Asked) -> Answer:
    """The reply has the right keys with values of the wrong types."""
    odd: tuple[Any, ...] = (
        {"choices": []},
        {"choices": [None, 3, "x"]},
        {"choices": [{"message": {"content": 5, "tool_calls": {"a": 1}}, "finish_reason": 7}]},
        {"choices": [{"message": {"tool_calls": [{"function": None}, {"function": {"name": 3}}, 4]}}]},
    )
    return Send(json.dumps(odd[asked.number % 4]).encode(), 200, "application/json")


add("stream_of_garbage", "The stream's events are not JSON.", Send(b"data: {]\n\ndata: hello\n\n"))


@row()
def stream_with_invalid_utf8(asked: Asked) -> Answer:
    """The text and the path of each call contain bytes that are not UTF-8."""
    call = {"index": 0, "id": "c", "function": {"name": "read_file", "arguments": '{"path": "XX"}'}}
    text = stream(chunk({"content": "Caf?? XX"}), chunk({"tool_calls": [call]}), chunk(finish="tool_calls"))
    return Send(text.encode().replace(b"XX", b"\xff\xfe\xc3"))


add(
    "stream_that_ends_in_the_middle",
    "The connection is closed halfway through each reply.",
    replace(use("read_file", path="calc.py"), piece=3, broken_off=True),
)


@row()
def stream_that_breaks_off_once(asked: Asked) -> Answer:
    """One reply breaks off; the next one is good."""
    work = work_and_claim(asked, fix())
    return replace(work, piece=3, broken_off=True) if asked.number == 1 else work


add(
    "stream_that_falls_silent",
    "The stream stops without an end marker, and the connection stays open.",
    Send(stream(chunk({"content": "Let me"}), done=False).encode(), ending="silent"),
    model=QUICK,
)
add(
    "server_that_never_answers",
    "The server accepts the request and never answers.",
    Send(ending="silent"),
    model=QUICK,
)
add(
    "stream_that_never_ends",
    "The same words arrive without end.",
    Send(stream(chunk({"content": "and then " * 100}), done=False).encode(), ending="endless"),
)


@row()
def stream_of_ever_new_calls(asked: Asked) -> Answer:
    """New calls arrive without end in one reply."""
    call = {"index": None, "function": {"name": "read_file", "arguments": '{"path": "calc.py"}'}}
    return Send(stream(*[chunk({"tool_calls": [call]})] * 100, done=False).encode(), ending="endless")


add(
    "stream_of_comments",
    "Keep-alive comments arrive without end, and never a token.",
    Send((": keep-alive\n\n" * 200).encode(), ending="endless"),
    model=QUICK,
)
add(
    "slow_drip",
    "A valid reply arrives a few characters at a time.",
    lambda asked: replace(work_and_claim(asked, fix()), piece=4, pause=0.003),
)
add(
    "usage_missing",
    "The server counts no tokens; the work is good.",
    lambda asked: replace(work_and_claim(asked, fix()), usage=None),
)


@row(model={"context_window": 8_000})
def usage_absurd(asked: Asked) -> Answer:
    """The server's counts are negative, enormous or not numbers; the work is good."""
    counts = (10**30, -5, "many", 1.5, True, None, [1])
    usage = {"prompt_tokens": counts[asked.number % 7], "completion_tokens": counts[(asked.number + 1) % 7]}
    looks = use("read_file", path="calc.py", start_line=asked.number)
    work = looks if asked.number < 7 else fix() if asked.number == 7 else done(asked)
    return replace(work, usage=usage)


add(
    "finished_for_a_strange_reason",
    "The reply is filtered, or ends for an unknown reason.",
    lambda asked: Say("I can", finish=("content_filter", "recitation", "error", "safety")[asked.number % 4]),
)


@row()
def error_in_the_middle_of_a_stream(asked: Asked) -> Answer:
    """An error arrives as an event after the reply has begun."""
    error = {"error": {"message": "CUDA out of memory", "code": 500}}
    return Send(stream(chunk({"content": "I will"}), error).encode())

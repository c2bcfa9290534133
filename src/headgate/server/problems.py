"""What goes wrong with a request: one sentence that says what to do.

Programs get it as problem details (RFC 9457), and people as a page.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import compile_path
from starlette.types import Scope

from headgate.core import plain
from headgate.errors import ConfigError, HeadgateError
from headgate.server.templating import error_page

MEDIA_TYPE = "application/problem+json"
NOTHING_HERE = "There is nothing at this address."
_BODY = "Send a JSON object, with the header Content-Type: application/json."


class Problem(BaseModel):
    """An error, in the form of RFC 9457."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not Found",
                    "status": 404,
                    "detail": 'There is no task "t99".',
                }
            ]
        }
    )
    type: str = "about:blank"
    title: str
    status: int
    detail: str
    """One sentence for the person who can do something about it."""


class RequestRefused(Exception):
    """A request that cannot be answered as it was meant."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The response."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=plain(detail))
    return JSONResponse(body.model_dump(), status, headers, MEDIA_TYPE)


def wants_page(scope: Scope) -> bool:
    """Whether a person waits for the answer: a browser asks for a page, and not for a part of the API."""
    return "text/html" in Headers(scope=scope).get("accept", "") and not scope["path"].startswith("/api/")


def answer_error(scope: Scope, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The answer to a request that went wrong: a page for a person, problem details for a program."""
    if wants_page(scope):
        return HTMLResponse(error_page(status, plain(detail)), status, headers)
    return problem(status, detail, headers)


def describe(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of a route: which errors it may answer with."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def judge_error(error: Exception) -> tuple[int, str]:
    """The status and the sentence that an error is answered with."""
    match error:
        case RequestRefused():
            return error.status, error.detail
        case RequestValidationError():
            return 422, say_invalid(error.errors())
        case ConfigError():
            return 422, str(error)
        case OSError():
            return 503, f"The system refused that: {error.strerror or type(error).__name__}."
        case _:
            return 503, str(error)


def add_problem_handlers(app: FastAPI) -> None:
    """Has every error answered in one of the two forms."""

    async def answer(request: Request, error: Exception) -> Response:
        return answer_error(request.scope, *judge_error(error))

    for known in (RequestRefused, RequestValidationError, HeadgateError, OSError):
        app.add_exception_handler(known, answer)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        status, headers, said = error.status_code, dict(error.headers or {}), str(error.detail)
        if status == 404:
            said = NOTHING_HERE
        elif status == 405:
            headers["Allow"] = ", ".join(_methods_at(request)) or headers.get("Allow", "")
            said = f"This address takes {headers['Allow']}."
        elif status == 400:  # what FastAPI says to a body that is no JSON; others that are wrong get 422
            status, said = 422, "The body is not JSON in UTF-8."
        return answer_error(request.scope, status, said, headers)


def say_invalid(errors: Sequence[Any]) -> str:
    """What is wrong with what was sent, as pydantic tells it: the first few faults in one line."""
    return "; ".join(map(_say, errors[:5]))


def _methods_at(request: Request) -> list[str]:
    """The methods that an address takes: each has its own route, which knows only of itself."""
    described: dict[str, dict[str, Any]] = request.app.state.describe()["paths"]
    return sorted(
        method.upper()
        for template, methods in described.items()
        if compile_path(template)[0].match(request.url.path)
        for method in methods
    )


def _say(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"] if part not in ("body", "path", "query"))
    if not place and error["type"] == "missing":
        return _BODY
    said = _SAID.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {said}" if place and error["type"] != "json_invalid" else said


_SAID = {
    "json_invalid": "The body is not valid JSON.",
    "model_attributes_type": _BODY,
    "missing": "it is missing",
    "extra_forbidden": "there is no such key",
    "string_pattern_mismatch": "it is blank, or not in the form that is asked for",
}

"""The page: HTML for people. Without scripts it works by reloading; with them, parts of it are replaced."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import FastAPI, Query
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from headgate.core import TEXT_CHARS
from headgate.errors import HeadgateError
from headgate.server.access import COOKIE, Access
from headgate.server.api import After
from headgate.server.problems import (
    NOTHING_HERE,
    RequestRefused,
    judge_error,
    say_invalid,
    wants_page,
)
from headgate.server.schemas import NewTask, Outcome
from headgate.server.service import Service
from headgate.server.task_pages import FIELDS, Pages
from headgate.server.templating import STATIC, render

LOGIN_SECONDS = 0.5
"""How long a wrong token takes to be refused."""
_STATIC_AGE = "public, max-age=31536000, immutable"
Words = Annotated[str, Query(max_length=500)]
Shown = Annotated[str, Query(max_length=20)]
Page = Annotated[int, Query(ge=1, le=100_000)]
Action = Callable[[str, str], Awaitable[Outcome]]
MOST_FIELDS = 40


def add_pages(app: FastAPI, service: Service, access: Access) -> None:
    """Adds the pages, what they are made of, and where their forms go."""
    pages = Pages(service, secured=bool(access.token))
    _add_static(app)
    _add_login(app, access)
    _add_home(app, service, pages)
    _add_task(app, pages)
    _add_actions(app, service, pages)


def _add_static(app: FastAPI) -> None:
    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        file = STATIC.get(name)
        if file is None:
            raise RequestRefused(404, NOTHING_HERE)
        return Response(file.content, media_type=file.media_type, headers={"Cache-Control": _STATIC_AGE})


def _add_login(app: FastAPI, access: Access) -> None:
    @app.get("/login", include_in_schema=False)
    async def ask() -> Response:
        if not access.token:
            return _go("/")
        return HTMLResponse(render("login.html", error=""))

    @app.post("/login", include_in_schema=False)
    async def log_in(request: Request) -> Response:
        form = await Form.read(request)
        if not access.token:
            return _go("/")
        if not access.is_token(form.text("token").strip()):
            await asyncio.sleep(LOGIN_SECONDS)
            return HTMLResponse(render("login.html", error="That is not the token."), 401)
        response = _go("/")
        secure = request.headers.get("origin", "").startswith("https:")  # a proxy with TLS is in between
        response.set_cookie(COOKIE, access.session, path="/", httponly=True, samesite="strict", secure=secure)
        return response

    @app.post("/logout", include_in_schema=False)
    async def log_out() -> Response:
        response = _go("/login")
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def _add_home(app: FastAPI, service: Service, pages: Pages) -> None:
    @app.get("/", include_in_schema=False)
    async def home(q: Words = "", state: Shown = "", page: Page = 1) -> Response:
        return HTMLResponse(pages.home(q, state, page))

    @app.get("/parts", include_in_schema=False)
    async def parts(q: Words = "", state: Shown = "", page: Page = 1) -> Response:
        return HTMLResponse(pages.home(q, state, page, parts_only=True))

    @app.get("/tasks", include_in_schema=False)
    async def tasks() -> Response:
        return _go("/")

    @app.post("/tasks", include_in_schema=False)
    async def submit(request: Request) -> Response:
        form = await Form.read(request)
        try:
            accepted = service.submit(new_task(form))
        except (RequestRefused, HeadgateError) as error:
            if not wants_page(request.scope):
                raise
            # Nothing that was typed is lost: it is all in the page that says what is wrong.
            status, said = judge_error(error)
            return HTMLResponse(pages.home(typed={**form.fields(FIELDS), "error": said}), status)
        pages.note(accepted.id, accepted.notices)
        return _go(f"/tasks/{accepted.id}", request)


def _add_task(app: FastAPI, pages: Pages) -> None:
    @app.get("/tasks/{task_id}", include_in_schema=False)
    async def show(task_id: str) -> Response:
        return HTMLResponse(await pages.task(task_id))

    @app.get("/tasks/{task_id}/live", include_in_schema=False)
    async def live(task_id: str, after: After = 0) -> Response:
        return HTMLResponse(await pages.task(task_id, after=after or 0))

    @app.get("/tasks/{task_id}/milestones/{seq}", include_in_schema=False)
    async def behind(request: Request, task_id: str, seq: int) -> Response:
        return HTMLResponse(await pages.milestone(task_id, seq, part_only="hx-request" in request.headers))

    @app.get("/tasks/{task_id}/diff", include_in_schema=False)
    async def diff(task_id: str) -> Response:
        return HTMLResponse(await pages.diff(task_id))

    @app.get("/tasks/{task_id}/runs/{run_id}", include_in_schema=False)
    async def log(task_id: str, run_id: str) -> Response:
        return HTMLResponse(await pages.log(task_id, run_id))


def _add_actions(app: FastAPI, service: Service, pages: Pages) -> None:
    actions: dict[str, Action] = {
        "say": service.say,
        "cancel": lambda name, text: service.cancel(name),
        "conclude": lambda name, text: service.cancel(name, conclude=True),
        "apply": lambda name, text: service.apply(name),
        "discard": lambda name, text: service.abort(name),
        "undo": lambda name, text: service.undo(name),
        "resume": lambda name, text: service.resume(name, text.strip()),
    }

    @app.post("/tasks/{task_id}/{action}", include_in_schema=False)
    async def act(request: Request, task_id: str, action: str) -> Response:
        if action not in actions:
            raise RequestRefused(404, NOTHING_HERE)
        form = await Form.read(request)
        from_home = form.text("from") == "home"
        try:
            outcome = await actions[action](task_id, form.text("text"))
        except (RequestRefused, HeadgateError) as error:
            status, said = judge_error(error)
            if status == 404 or not wants_page(request.scope):
                raise
            if from_home:
                return HTMLResponse(pages.home(problem=said), status)
            return HTMLResponse(await pages.task(task_id, problem=said, added=form.text("text")), status)
        where = "/" if from_home or outcome.outcome == "removed" else f"/tasks/{outcome.id}"
        return _go(where, request)


class Form:
    """The fields of a form."""

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._fields = fields

    @classmethod
    async def read(cls, request: Request) -> "Form":
        """The form that a request carries. RequestRefused (422) if it is none."""
        body = await request.body()
        try:
            fields = parse_qs(
                body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS
            )
        except ValueError:
            raise RequestRefused(422, "The form has too many fields.") from None
        return cls(fields)

    def text(self, name: str) -> str:
        """A field; empty if it is not there. Browsers send line ends as two characters."""
        return self._fields.get(name, [""])[0].replace("\r\n", "\n")

    def fields(self, names: Iterable[str]) -> dict[str, str]:
        """These fields as they were sent."""
        return {name: self.text(name) for name in names}

    def lines(self, name: str) -> list[str]:
        """The lines of a field that say something."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]


def new_task(form: Form) -> NewTask:
    """The task that a form asks for. RequestRefused (422) with a sentence if it asks for none."""
    text = form.text("text").strip()
    if not text:
        raise RequestRefused(422, "Say in plain words what to do.")
    if len(text) > TEXT_CHARS:
        raise RequestRefused(422, f"The text is longer than {TEXT_CHARS:,} characters.")
    try:
        return NewTask(
            text=text,
            keep=form.lines("keep"),
            non_goals=form.lines("non_goals"),
            boundaries=form.lines("boundaries"),
            flow=form.text("flow") or None,
            model=form.text("model") or None,
            dry_run=bool(form.text("dry_run")),
            follows=form.text("follows") or None,
        )
    except ValidationError as error:
        raise RequestRefused(422, say_invalid(error.errors())) from None


def _go(where: str, sent: Request | None = None) -> Response:
    """To another page, with GET, whatever the request was. The page's own script is told where."""
    if sent is not None and not wants_page(sent.scope):
        return JSONResponse({"go": where})
    return RedirectResponse(where, 303)

"""The page: HTML for people. Without scripts it works by reloading; with them, parts of it are replaced."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from headgate.errors import HeadgateError
from headgate.server.access import COOKIE, Access
from headgate.server.api import After
from headgate.server.page_forms import Form, new_task, typed_task
from headgate.server.problems import RequestRefused, wants_page
from headgate.server.schemas import Outcome
from headgate.server.service import Service
from headgate.server.task_pages import Pages
from headgate.server.templating import STATIC, render

LOGIN_SECONDS = 0.5
"""How long a wrong token takes to be refused."""
_STATIC_AGE = "public, max-age=31536000, immutable"
Words = Annotated[str, Query(max_length=500)]
Shown = Annotated[str, Query(max_length=20)]
Page = Annotated[int, Query(ge=1, le=100_000)]
Action = Callable[[str, Form], Awaitable[Outcome]]


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
            raise RequestRefused(404, "There is nothing at this address.")
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
            status = error.status if isinstance(error, RequestRefused) else 422
            return HTMLResponse(pages.home(typed=typed_task(form, str(error))), status)
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
    async def cancel(name: str, form: Form) -> Outcome:
        return service.cancel(name)

    async def conclude(name: str, form: Form) -> Outcome:
        return service.cancel(name, conclude=True)

    async def apply(name: str, form: Form) -> Outcome:
        return await service.apply(name)

    async def discard(name: str, form: Form) -> Outcome:
        return await service.abort(name)

    async def undo(name: str, form: Form) -> Outcome:
        return await service.undo(name)

    async def resume(name: str, form: Form) -> Outcome:
        return service.resume(name, form.text("text").strip())

    async def say(name: str, form: Form) -> Outcome:
        return service.say(name, form.text("text"))

    actions: dict[str, Action] = {
        "say": say,
        "cancel": cancel,
        "conclude": conclude,
        "apply": apply,
        "discard": discard,
        "undo": undo,
        "resume": resume,
    }

    @app.post("/tasks/{task_id}/{action}", include_in_schema=False)
    async def act(request: Request, task_id: str, action: str) -> Response:
        if action not in actions:
            raise RequestRefused(404, "There is nothing at this address.")
        form = await Form.read(request)
        from_home = form.text("from") == "home"
        try:
            outcome = await actions[action](task_id, form)
        except (RequestRefused, HeadgateError) as error:
            status = error.status if isinstance(error, RequestRefused) else 422
            if status == 404 or not wants_page(request.scope):
                raise
            if from_home:
                return HTMLResponse(pages.home(problem=str(error)), status)
            return HTMLResponse(
                await pages.task(task_id, problem=str(error), added=form.text("text")), status
            )
        where = "/" if from_home or outcome.outcome == "removed" else f"/tasks/{outcome.id}"
        return _go(where, request)


def _go(where: str, sent: Request | None = None) -> Response:
    """To another page, with GET, whatever the request was. The page's own script is told where."""
    if sent is not None and not wants_page(sent.scope):
        return JSONResponse({"go": where})
    return RedirectResponse(where, 303)

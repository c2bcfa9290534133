"""The application: the API, the page, the metrics, and who may use them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headgate import __version__
from headgate.server.access import Access, AccessControl
from headgate.server.api import make_router
from headgate.server.metrics import Metrics
from headgate.server.pages import add_pages
from headgate.server.problems import Problem, add_problem_handlers
from headgate.server.schemas import Health
from headgate.server.service import Service

_ABOUT = (
    "Submit tasks to Headgate, follow them, review and apply what they propose."
    " Errors are problem details (RFC 9457)."
)


def make_app(service: Service, access: Access, on_crash: Callable[[Exception], None]) -> FastAPI:
    """The application for one repository. The caller starts the worker, and ends the process.

    `on_crash` is called with every bug that comes up.
    """
    app = FastAPI(
        title="Headgate",
        version=__version__,
        description=_ABOUT,
        lifespan=_lifespan(service, on_crash),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=lambda route: route.name,  # names of functions in clients made of this
    )
    metrics = Metrics(service.engine.store, service.feed)
    app.add_middleware(AccessControl, access=access, on_crash=on_crash)
    add_problem_handlers(app)
    app.include_router(make_router(service))
    add_pages(app, service, access)

    @app.get("/healthz", include_in_schema=False)
    async def health() -> Health:
        service.check_store()
        return Health()

    @app.get("/metrics", include_in_schema=False)
    async def figures() -> Response:
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    # Made when somebody asks for it: that takes longer than all the rest.
    describe = app.state.describe = cache(partial(_describe, app, secured=bool(access.token)))

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        return JSONResponse(describe())

    return app


def _lifespan(service: Service, on_crash: Callable[[Exception], None]) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        following = asyncio.create_task(service.feed.run(on_crash))
        try:
            yield
        finally:
            service.feed.close()
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    return lifespan


def _describe(app: FastAPI, *, secured: bool) -> dict[str, Any]:
    """The OpenAPI document, with the one form that all errors have."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    if secured:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document

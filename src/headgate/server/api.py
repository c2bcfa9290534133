"""The JSON API below `/api`, and its event streams."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from headgate.server.problems import RequestRefused, describe
from headgate.server.schemas import (
    Health,
    Milestone,
    NewTask,
    Outcome,
    Said,
    TaskAccepted,
    TaskDetail,
    TaskSummary,
)
from headgate.server.service import Service, summary

ANY = describe(401, 403, 421, 422, 503)
"""What any request may be answered with."""
CHANGING = describe(401, 403, 404, 408, 409, 413, 421, 422, 503)
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events. `milestone` and, with detail=1, `event` have the event's sequence"
        " number as their id; `queue` and `activity`, which only show the current state, have none.",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'id: 12\nevent: milestone\ndata: {"seq":12,"task":"t1","text":"Replanning"}\n\n',
            }
        },
    }
}
Id = Annotated[str, Path(max_length=40, description="The task's id, such as t7.", examples=["t1"])]
MAX_SEQ = 2**62
After = Annotated[int | None, Query(ge=0, le=MAX_SEQ, description="Only what comes after this event.")]
Detail = Annotated[bool, Query(description="Everything that happens, not only milestones.")]


class Resume(BaseModel):
    """What to add to the request of a task that is tried again."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(default="", max_length=20_000)


def make_router(service: Service) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/api", tags=["tasks"])

    @router.post("/tasks", status_code=201, responses=describe(401, 403, 408, 409, 413, 421, 422, 503))
    async def submit(new: NewTask) -> TaskAccepted:
        """Store a task and queue it."""
        return service.submit(new)

    @router.get("/tasks", responses=ANY)
    async def list_tasks(
        q: Annotated[str, Query(max_length=500, description="Only tasks with these words.")] = "",
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
    ) -> list[TaskSummary]:
        """List the tasks, the latest first."""
        return [summary(row) for row in service.rows(q)[:limit]]

    @router.get("/tasks/{task_id}", responses=ANY | describe(404))
    async def show(task_id: Id, detail: Detail = False) -> TaskDetail:
        """Show a task: its state, its milestones and its report so far."""
        row = service.row(task_id)
        view = service.view(row)
        return TaskDetail(
            **summary(row).model_dump(),
            milestones=[Milestone(seq=line.seq, at=line.at, text=line.text) for line in view.lines],
            report=service.report(row).model_dump(mode="json"),
            events=[event.as_json() for event in view.events] if detail else None,
        )

    @router.delete("/tasks/{task_id}", status_code=204, responses=CHANGING)
    async def remove(task_id: Id) -> None:
        """Remove a queued task. Nothing of it is left."""
        service.remove(task_id)

    @router.post("/tasks/{task_id}/cancel", responses=CHANGING)
    async def cancel(
        task_id: Id,
        conclude: Annotated[bool, Query(description="Let a running task conclude with what it has.")] = False,
    ) -> Outcome:
        """Cancel a task. A running one ends soon after; its changes so far stay."""
        return await service.cancel(task_id, conclude=conclude)

    @router.post("/tasks/{task_id}/say", status_code=202, responses=CHANGING)
    async def say(task_id: Id, said: Said) -> Outcome:
        """Tell a running or queued task something, which its model reads before its next turn."""
        return await service.say(task_id, said.text)

    @router.post("/tasks/{task_id}/apply", status_code=202, responses=CHANGING)
    async def apply(task_id: Id) -> Outcome:
        """Queue a proposal to be written and verified.

        Of a task that ended in a worktree: write its changes to the working tree and verify them there. The
        answer comes when the verification has ended.
        """
        return await service.apply(task_id)

    @router.post("/tasks/{task_id}/abort", responses=CHANGING)
    async def abort(task_id: Id) -> Outcome:
        """Discard a proposal."""
        return await service.abort(task_id)

    @router.post("/tasks/{task_id}/undo", responses=CHANGING)
    async def undo(task_id: Id) -> Outcome:
        """Take back what an ended task changed, all of it or nothing."""
        return await service.undo(task_id)

    @router.post("/tasks/{task_id}/resume", status_code=202, responses=CHANGING)
    async def resume(task_id: Id, more: Annotated[Resume | None, Body()] = None) -> Outcome:
        """Try an ended task again as a new one, or have a paused queue or an interrupted task go on."""
        return await service.resume(task_id, more.text if more else "")

    @router.get("/tasks/{task_id}/report", responses=ANY | describe(404))
    async def report(task_id: Id) -> dict[str, Any]:
        """The task's report so far."""
        return service.report(service.row(task_id)).model_dump(mode="json")

    @router.get(
        "/tasks/{task_id}/diff",
        response_class=Response,
        responses=ANY
        | describe(404, 409)
        | {200: {"description": "A diff for `git apply`.", "content": {"text/x-diff": {}}}},
    )
    async def diff(task_id: Id) -> Response:
        """What the task proposes, or has changed."""
        return Response(await service.diff(service.row(task_id)), media_type="text/x-diff; charset=utf-8")

    @router.get(
        "/runs/{run_id}/log", tags=["runs"], response_class=PlainTextResponse, responses=ANY | describe(404)
    )
    async def log(run_id: Annotated[str, Path(max_length=40)]) -> PlainTextResponse:
        """What a verification printed."""
        return PlainTextResponse(await service.log(run_id))

    add_streams(router, service)

    @router.get("/healthz", tags=["server"], responses=describe(421, 503))
    async def health() -> Health:
        """Whether the server can read its store."""
        service.check_store()
        return Health()

    return router


def add_streams(router: APIRouter, service: Service) -> None:
    """The event streams. They stay open; a client that comes back names the last event that it has."""

    def stream(task: str | None, after: int | None, last: str | None, detail: bool) -> StreamingResponse:
        if last is not None:
            if not (last.isascii() and last.isdigit() and len(last) < 19):
                raise RequestRefused(422, "Last-Event-ID is the number of an event.")
            after = int(last)
        events = service.feed.stream(task, after, detail=detail)
        return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    Last: Callable[..., Any] = Header
    LastId = Annotated[str | None, Last(alias="Last-Event-ID", description="The last event received.")]

    @router.get("/events", tags=["streams"], response_class=StreamingResponse, responses=ANY | _STREAM)
    async def all_events(
        after: After = None, detail: Detail = False, last_event_id: LastId = None
    ) -> StreamingResponse:
        """Follow all tasks, from now on or after an event."""
        return stream(None, after, last_event_id, detail)

    @router.get(
        "/tasks/{task_id}/events",
        tags=["streams"],
        response_class=StreamingResponse,
        responses=ANY | describe(404) | _STREAM,
    )
    async def task_events(
        task_id: Id, after: After = 0, detail: Detail = False, last_event_id: LastId = None
    ) -> StreamingResponse:
        """Follow one task, from its beginning or after an event."""
        return stream(service.row(task_id).task.id, after, last_event_id, detail)

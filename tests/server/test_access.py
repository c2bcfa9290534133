"""Who may ask: names, origins, the token, commands of tasks."""

import asyncio
from pathlib import Path

import pytest
from serving import make_repo, serving
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headgate.errors import ConfigError, StoreError
from headgate.reading import is_loopback
from headgate.server.access import COOKIE, Access, AccessControl, known_hosts
from headgate.server.problems import RequestRefused, judge_error

TOKEN = "correct horse"
NEW = {"json": {"text": "a"}}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Host": "localhost:8321"}, 201),
        ({"Host": "[::1]:8321"}, 201),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "10.0.0.1"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "evil.example@localhost"}, 421),
        ({"Host": "localhost/evil.example"}, 421),
        ({"Host": "localhost#evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),  # another server on this machine
        ({"Origin": "http://localhost:8321", "Host": "localhost:8321"}, 201),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
    ],
)
async def test_other_sites_are_kept_out(repo: Path, headers: dict[str, str], status: int) -> None:
    async with serving(repo, works=False) as server:
        found, body = await server.ask("POST", "/api/tasks", headers=headers, **NEW)
        assert found == status
        assert body.get("status", 201) == status
        assert len((await server.ask("GET", "/api/tasks"))[1]) == (status == 201)


async def test_pages_of_other_names_read_nothing_either(repo: Path) -> None:
    async with serving(repo, works=False) as server:
        for path in ("/", "/api/tasks", "/api/events", "/metrics", "/openapi.json", "/static/page.js"):
            assert (await server.ask("GET", path, headers={"Host": "evil.example"}))[0] == 421


async def test_a_token_is_asked_for(repo: Path) -> None:
    async with serving(repo, works=False, token=TOKEN) as server:
        for headers in (
            {},
            _bearer("wrong"),
            _bearer(""),
            {"Cookie": f"{COOKIE}={TOKEN}"},
            {"Cookie": 'a b="'},
        ):
            for path in ("/api/tasks", "/api/events", "/metrics", "/openapi.json"):
                assert (await server.ask("GET", path, headers=headers))[0] == 401
            assert (await server.ask("POST", "/api/tasks", headers=headers, **NEW))[0] == 401
        assert (await server.ask("GET", "/healthz"))[0] == 200
        assert (await server.ask("POST", "/api/tasks", headers=_bearer(TOKEN), **NEW))[0] == 201
        cookie = {"Cookie": f"{COOKIE}={Access(TOKEN).session}"}
        assert len((await server.ask("GET", "/api/tasks", headers=cookie))[1]) == 1
        with_others = {"Cookie": f'theme={{"a": 1, "b": 2}}; {cookie["Cookie"]}'}
        assert (await server.ask("GET", "/api/tasks", headers=with_others))[0] == 200
        by_address = {**_bearer(TOKEN), "Host": "192.0.2.7:8321"}
        assert (await server.ask("GET", "/api/tasks", headers=by_address))[0] == 200
        by_name = {**_bearer(TOKEN), "Host": "evil.example"}
        assert (await server.ask("GET", "/api/tasks", headers=by_name))[0] == 421


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_every_answer_forbids_foreign_code(repo: Path) -> None:
    async with serving(repo, works=False) as server:
        for path in ("/healthz", "/api/tasks", "/nothing", "/api/tasks/t9"):
            async with server.client.get(f"{server.url}{path}") as response:
                policy = response.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert response.headers["x-content-type-options"] == "nosniff"
                assert response.headers["cache-control"] == "no-store"
                assert "server" not in response.headers


@pytest.mark.parametrize(
    ("last", "statuses"),
    [({"type": "http.disconnect"}, []), (None, [408]), ({"type": "http.request", "body": b"!"}, [200])],
)
async def test_a_request_that_does_not_arrive_as_a_whole_does_nothing(
    last: Message | None, statuses: list[int]
) -> None:
    parts: list[Message] = [{"type": "http.request", "body": b"text=half", "more_body": True}]
    parts += [last] if last else []
    sent: list[int] = []

    async def receive() -> Message:
        return parts.pop(0) if parts else await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["body"] == b"text=half!"
        await Response()(scope, receive, send)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/tasks", "headers": headers}
    control = AccessControl(app, Access(body_seconds=0.01), print)
    await control(scope, receive, send)
    assert sent == statuses


async def test_a_bug_is_told_and_costs_one_request() -> None:
    sent: list[Message] = []
    told: list[Exception] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("secret")

    scope = {"type": "http", "method": "GET", "path": "/tasks", "headers": [(b"host", b"localhost")]}
    await AccessControl(app, Access(), told.append)(scope, receive, send)
    assert [type(bug) for bug in told] == [KeyError]
    start, body = sent
    assert start["status"] == 500
    assert dict(start["headers"])[b"content-type"] == b"application/problem+json"
    assert b"content-security-policy" in dict(start["headers"])
    assert b"Headgate itself failed." in body["body"]
    assert b"secret" not in body["body"]


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (RequestRefused(409, "It runs."), (409, "It runs.")),
        (ConfigError("agent.yaml names no model."), (422, "agent.yaml names no model.")),
        (StoreError("The store is locked."), (503, "The store is locked.")),
        (OSError(28, "No space left"), (503, "The system refused that: No space left.")),
    ],
)
def test_what_an_error_is_answered_with(error: Exception, answer: tuple[int, str]) -> None:
    assert judge_error(error) == answer


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.1.2.3", False),
        ("example.org", False),
        ("localhost.example.com", False),
        ("x.localhost", False),
    ],
)
def test_what_only_this_machine_can_reach(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
    assert ({"localhost", "127.0.0.1", "::1"} <= known_hosts(host)) is True
    assert (host in known_hosts(host)) is (not expected or host in ("127.0.0.1", "::1", "localhost"))


def test_a_server_on_loopback_answers_to_no_other_name() -> None:
    assert known_hosts("127.0.0.1", ("Box.Local",)) == {"localhost", "127.0.0.1", "::1", "box.local"}


@pytest.mark.parametrize(("method", "status"), [("GET", 401), ("POST", 401)])
def test_the_session_is_not_the_token(method: str, status: int) -> None:
    access = Access(TOKEN)
    assert access.session != TOKEN
    assert Access("other").session != access.session
    scope = {"type": "http", "method": method, "path": "/api/tasks", "headers": [(b"host", b"localhost")]}
    refused = access.refusal(scope)
    assert refused is not None
    assert refused[0] == status

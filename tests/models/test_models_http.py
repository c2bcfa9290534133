"""What goes wrong on the way to a model, and what it is called."""

import asyncio
import contextlib
import errno
import json
import re
import shutil
import socket
import ssl
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from model_server import HELLO, Respond, Seen, Wire, answer, chunk, serve, stream
from pydantic import SecretStr

from headgate.core import Message, ModelSettings, Reply, Request, Timeouts
from headgate.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable, ReplyInvalid
from headgate.models.endpoint import DEFAULT_URLS, Endpoint
from headgate.models.network import open_model
from headgate.models.wire.connection import CannotConnect
from headgate.models.wire.failures import (
    ModelUnknown,
    QuotaSpent,
    ServerTrouble,
    ToolsUnsupported,
    explain_transport,
    retry_after,
)
from headgate.models.wire.http import list_models

ASK = Request([Message("user", "Hi")])
KEY = "sk-very-secret-key"
HALF = stream(chunk({"content": "Hel"}), chunk({"content": "lo"}), done=False)
SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


async def ask(url: str, **settings: Any) -> Reply:
    fields = {"model": "openai/m", "base_url": url, "api_key": KEY, **settings}
    async with open_model(ModelSettings.model_validate(fields)) as model:
        return await model.reply(ASK)


async def failure(*responses: Respond, **settings: Any) -> ModelError:
    async with serve(*responses) as server:
        with pytest.raises(ModelError) as caught:
            await ask(server.url, **settings)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def error(message: str, code: object = None, type: str | None = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "code": code, "type": type, **more}}


def trouble(error: ModelError) -> tuple[str, str]:
    assert isinstance(error, ServerTrouble)
    return error.cause, str(error)


REFUSALS = [json.loads(line) for line in Path(__file__).with_name("refusals.jsonl").read_text().splitlines()]
KINDS = {
    "overflow": ContextOverflow,
    "invalid": ReplyInvalid,
    "refused": ModelRefused,
    "no tools": ToolsUnsupported,
    "quota": QuotaSpent,
    "no model": ModelUnknown,
}
"""What a refusal is; any other kind is the cause of a server's trouble."""


@pytest.mark.parametrize("case", REFUSALS)
async def test_refusals_in_the_words_of_each_server(case: dict[str, Any]) -> None:
    caught = await failure(answer(case["body"], case["status"]))
    if case["kind"] in KINDS:
        assert isinstance(caught, KINDS[case["kind"]])
        return
    assert trouble(caught)[0] == case["kind"]
    assert isinstance(caught, ServerTrouble)
    assert caught.retry_after == (15 if case["kind"] == "loading" else None)


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in REFUSALS
        if case["kind"] in ("overflow", "invalid") and not isinstance(case["body"], str)
    ],
)
async def test_refusals_inside_a_stream(case: dict[str, Any]) -> None:
    body = case["body"]
    if isinstance(body, list):
        body = body[0]
    event = body if "error" in body else {"error": body}
    assert isinstance(await failure(answer(HALF + stream(event))), KINDS[case["kind"]])


async def test_an_unread_reply_is_quoted() -> None:
    body = error("no such tool", "tool_use_failed", failed_generation="<function=\nls>")
    assert str(await failure(answer(body, 400))) == (
        "The server could not read the model's reply: no such tool. It wrote: <function= ls>"
    )


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_statuses_worth_waiting_for(status: int) -> None:
    caught = await failure(answer(error("busy"), status, headers={"Retry-After": "7"}))
    assert isinstance(caught, ModelUnavailable)
    assert caught.retry_after == 7
    assert f"HTTP {status}): busy." in str(caught)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "-3"}, 0),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"Retry-After": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key(status: int) -> None:
    body = error(f"Incorrect API key provided: sk-ve*****-key or {KEY}.", "invalid_api_key")
    caught = await failure(answer(body, status))
    assert type(caught).__mro__[1] is ModelRefused
    assert "refused the API key" in str(caught)
    assert "HEADGATE_API_KEY" in str(caught)
    assert "sk-ve" not in str(caught)


async def test_an_unknown_model_or_address() -> None:
    body = error("model 'm' not found, try pulling it first", None, "not_found_error")
    async with serve(answer(body, 404)) as server:
        with pytest.raises(ModelRefused) as with_version:
            await ask(server.url)
        bare = server.url.removesuffix("/v1")
        with pytest.raises(ModelRefused) as without:
            await ask(bare)
    assert "try pulling it first. Check the model's name and base_url." in str(with_version.value)
    assert "/v1:" not in str(with_version.value)
    assert str(without.value).endswith(f"Most servers expect it to end in /v1: {bare}/v1")


async def test_the_server_s_own_words_are_kept() -> None:
    caught = await failure(answer(error("temperature: must be <= 2"), 400))
    assert str(caught).endswith("rejected the request (HTTP 400): temperature: must be <= 2.")
    caught = await failure(answer({"detail": [{"loc": ["body", "x"], "msg": "extra"}]}, 422))
    assert str(caught).endswith('(HTTP 422): [{"loc":["body","x"],"msg":"extra"}].')


async def test_a_redirection_is_named_and_not_followed() -> None:
    async with serve(answer(HELLO)) as other:
        elsewhere = f"{other.url}/chat/completions"
        caught = await failure(answer({}, 307, headers={"Location": elsewhere}))
        assert isinstance(caught, ModelRefused)
        assert elsewhere in str(caught)
        assert other.seen == []


async def test_a_long_message_is_cut_and_cleaned() -> None:
    caught = await failure(answer(error("bad \x1b[31m thing\n" + "x" * 5000), 400))
    assert len(str(caught)) < 450
    assert "\x1b" not in str(caught)


@pytest.mark.parametrize("status", [200, 404, 502])
async def test_a_web_page_in_place_of_an_answer(status: int) -> None:
    page = "<!DOCTYPE html>\n<html><head><title>\n Bad gateway </title></head>" + "<p>long</p>" * 999
    caught = await failure(answer(page, status, content_type="text/html"))
    assert isinstance(caught, ModelUnavailable if status == 502 else ModelRefused)
    assert 'it sent a web page titled "Bad gateway" instead of an API answer.' in str(caught)
    assert len(str(caught)) < 400


@pytest.mark.parametrize("body", [{"hello": 1}, [1, 2], {"choices": "none"}])
async def test_json_that_is_no_reply(body: Any) -> None:
    caught = await failure(answer(body))
    assert isinstance(caught, ModelRefused)
    assert "Check base_url" in str(caught)


async def test_an_empty_refusal() -> None:
    assert "(HTTP 503)." in str(await failure(answer(b"", 503)))


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("http://localhost:11434", "start Ollama with `ollama serve`."),
        ("http://gpu:11434", "start Ollama there, or correct its address (base_url or OLLAMA_HOST)."),
    ],
)
def test_ollama_does_not_run(root: str, told: str) -> None:
    refused = CannotConnect(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
    error = explain_transport(Endpoint("ollama", "m", root, {}, ()), refused)
    assert str(error) == f"Nothing listens at {root}: {told}"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_offline_with_a_hosted_model(provider: Any) -> None:
    """The advice is about the network: nothing about base_url, and nothing about servers on this machine."""
    endpoint = Endpoint(provider, "m", DEFAULT_URLS[provider], {}, ())
    unknown, away = socket.gaierror(socket.EAI_NONAME, "unknown"), OSError(errno.ENETUNREACH, "unreachable")
    for error in (unknown, away):
        told = str(explain_transport(endpoint, CannotConnect(error)))
        assert "check this machine's network connection" in told
        assert "base_url" not in told


async def test_nobody_listens() -> None:
    async with serve(answer(HELLO)) as server:
        pass
    with pytest.raises(ServerTrouble) as caught:
        await ask(server.url)
    assert trouble(caught.value) == (
        "unreachable",
        f"Nothing listens at {server.url}: start the model server or correct base_url.",
    )


async def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(ServerTrouble) as caught:
        await ask("http://no-such-host.invalid:8080/v1")
    assert caught.value.cause == "unreachable"
    assert re.fullmatch(
        r'(There is no host "no-such-host.invalid"|The host "no-such-host.invalid" cannot be looked up now'
        r": check the network,.*).*correct base_url\.",
        str(caught.value),
    )


async def test_a_server_without_tls() -> None:
    async def answer_anything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer_anything, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ServerTrouble) as caught:
            await ask(f"https://127.0.0.1:{port}/v1")
    assert trouble(caught.value)[0] == "unreachable"
    assert str(caught.value).endswith("does not speak TLS: write http:// in base_url, or correct its port.")


async def test_a_certificate_that_nobody_trusts(tmp_path: Path) -> None:
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate, and is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    making = f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout {key} -out {certificate}"
    await asyncio.to_thread(
        subprocess.run,
        making.split(),
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ModelRefused) as caught:
            await ask(f"https://127.0.0.1:{port}/v1")
    assert "has a certificate that is not trusted (self" in str(caught.value)
    assert "ssl:" not in str(caught.value)


async def test_not_http() -> None:
    async def respond(seen: Seen, wire: Wire) -> None:
        await wire.send(b"220 smtp ready\r\n\r\n")
        wire.writer.close()

    told = await failure(respond)
    assert isinstance(told, ServerTrouble)
    assert re.fullmatch(r"What listens at \S+ does not speak HTTP: correct base_url\.", str(told))


async def test_the_connection_is_closed_before_an_answer() -> None:
    async def respond(seen: Seen, wire: Wire) -> None:
        wire.writer.close()

    async def reset(seen: Seen, wire: Wire) -> None:
        # Closing with a linger time of nothing sends a reset in place of a farewell.
        wire.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        wire.writer.transport.abort()

    for how in (respond, reset):
        cause, told = trouble(await failure(how))
        assert cause == "cut"
        assert told.endswith(" closed the connection before it answered.")


@pytest.mark.parametrize("cut", [True, False])
async def test_a_stream_that_ends_in_the_middle(cut: bool) -> None:
    caught = await failure(answer(HALF, cut=cut))
    assert isinstance(caught, ModelUnavailable)
    assert "in the middle of a reply" in str(caught)


async def test_a_stream_that_is_complete_but_for_its_last_line() -> None:
    body = HALF + stream(chunk(finish="stop"), done=False)
    async with serve(answer(body), answer(body, cut=True)) as server:
        for _ in range(2):
            assert (await ask(server.url)).message.content == "Hello"


async def test_an_error_in_the_stream() -> None:
    for body, kind in (
        (error("overloaded", 503), ModelUnavailable),
        (error("slow down", None, "rate_limit_error"), ModelUnavailable),
        (error("what", None, None), ModelUnavailable),
        ({"error": "string"}, ModelUnavailable),
        (error("bad field", 400), ModelRefused),
        (error("bad field", "400"), ModelRefused),
        (error("no", 401), ModelRefused),
    ):
        assert isinstance(await failure(answer(HALF + stream(body))), kind)


async def test_an_event_that_is_not_json() -> None:
    for event in ("data: {oops\n\n", "data: 3\n\n", f"data: {'[' * 100_000}\n\n"):
        assert isinstance(await failure(answer(HALF + event)), ModelUnavailable)


async def test_no_first_token() -> None:
    async def silent(seen: Seen, wire: Wire) -> None:
        await wire.wait_closed_by_client()

    async def only_comments(seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, b": wait\n\n", stream(chunk({"role": "assistant"}), done=False).encode())
        with contextlib.suppress(ConnectionError):
            while not wire.reader.at_eof():
                await wire.send(b": wait\n\n")
                await asyncio.sleep(0.01)

    for respond in (silent, only_comments):
        caught = await failure(respond, timeouts=Timeouts(first_token=0.15))
        assert isinstance(caught, ModelUnavailable)
        assert "in 0.15 s" in str(caught)


async def test_a_stall_after_the_first_token() -> None:
    async def respond(seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, HALF.encode())
        await wire.wait_closed_by_client()

    caught = await failure(respond, timeouts=Timeouts(idle=0.1))
    assert isinstance(caught, ModelUnavailable)
    assert "nothing for 0.1 s" in str(caught)


async def test_cancelling_closes_the_connection_at_once() -> None:
    answering, closed = asyncio.Event(), asyncio.Event()

    async def before_headers(seen: Seen, wire: Wire) -> None:
        answering.set()
        await wire.wait_closed_by_client()
        closed.set()

    async def in_the_stream(seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD, HALF.encode())
        await before_headers(seen, wire)

    for respond in (before_headers, in_the_stream):
        answering.clear()
        closed.clear()
        async with serve(respond) as server:
            settings = ModelSettings(model="openai/m", base_url=server.url)
            async with open_model(settings) as model:
                task = asyncio.create_task(model.reply(ASK))
                await answering.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                # The model is still open: only the cancelled request may close the connection.
                await asyncio.wait_for(closed.wait(), 30)


async def test_an_answer_that_is_no_reply_and_has_no_end() -> None:
    async def respond(seen: Seen, wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        with contextlib.suppress(ConnectionError):
            while not wire.writer.is_closing():
                await wire.send(b": " + b"x" * (1 << 20) + b"\n\n")

    caught = await failure(respond)
    assert isinstance(caught, ReplyInvalid)
    assert str(caught) == "The reply is longer than 64 MiB and was cut off."


async def test_a_request_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(answer(HELLO)) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "")
        assert (await ask("http://model.invalid/v1")).message.content == "Hello"
        assert server.seen[0].path == "http://model.invalid/v1/chat/completions"


async def test_listing_models() -> None:
    async with serve(
        answer({"object": "list", "data": [{"id": "a"}, {"id": "b/c:1"}, {"name": "odd"}]}),
        answer({"error": "unknown path"}, 404),
        answer({"models": []}),
        answer(error("no"), 401),
        answer(error("later"), 503),
    ) as server:
        settings = ModelSettings(model="openai/m", base_url=server.url, api_key=SecretStr(KEY))
        assert await list_models(settings) == ["a", "b/c:1"]
        assert server.seen[0].line == "GET /v1/models HTTP/1.1"
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
        assert await list_models(settings) is None
        assert await list_models(settings) is None
        with pytest.raises(ModelRefused, match="HEADGATE_API_KEY"):
            await list_models(settings)
        with pytest.raises(ModelUnavailable):
            await list_models(settings)

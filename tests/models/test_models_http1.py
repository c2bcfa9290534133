"""Answers in every form that HTTP/1.1 allows, and proxies."""

import asyncio
import gzip
import os
import shutil
import ssl
import subprocess
import sys
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from model_server import HELLO, Respond, Seen, Wire, answer, serve, talk_to

from headgate.core import Message, ModelSettings, Request
from headgate.errors import ContextOverflow, ModelRefused, ReplyInvalid
from headgate.models.network import open_model
from headgate.models.wire.failures import ServerTrouble

ASK = Request([Message("user", "Hi")])
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
BODY = HELLO.encode()


def say(*pieces: bytes, close: bool = False) -> Respond:
    """Sends the pieces, each by itself."""

    async def respond(seen: Seen, wire: Wire) -> None:
        for piece in pieces:
            await wire.send(piece)
            await asyncio.sleep(0)
        if close:
            wire.writer.close()

    return respond


async def see_the_server_end() -> None:
    """It notices that its connections are closed."""
    this = asyncio.current_task()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not this))


def one_by_one(text: bytes) -> Iterator[bytes]:
    return (text[at : at + 1] for at in range(len(text)))


SIZED = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = (
    HEAD
    + b"transfer-encoding: Chunked\r\n\r\n"
    + b"%X;name=value\r\n%s\r\n" % (10, BODY[:10])
    + b"%x\r\n%s\r\n" % (len(BODY) - 10, BODY[10:])
    + b"0\r\nTrailer: x\r\n\r\n"
)
PACKED = gzip.compress(BODY)


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        ([SIZED], True),
        ([CHUNKED], True),
        (one_by_one(SIZED), True),
        (one_by_one(CHUNKED), True),
        ([SIZED.replace(b"\r\n", b"\n")], True),
        ([SIZED.replace(b" OK", b"")], True),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", SIZED], True),
        ([HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED], True),
        ([SIZED.replace(b"/1.1", b"/1.0")], False),
        ([SIZED.replace(b"/1.1", b"/1.0").replace(b" OK\r\n", b" OK\r\nConnection: Keep-Alive\r\n")], True),
        ([SIZED.replace(b" OK\r\n", b" OK\r\nConnection: close\r\n")], False),
        ([SIZED, b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"], False),
    ],
)
async def test_a_complete_answer(pieces: list[bytes], kept: bool) -> None:
    pieces = list(pieces)
    async with talk_to(say(*pieces)) as (server, model):
        for _ in range(2):
            assert (await model.reply(ASK)).message.content == "Hello"
            await asyncio.sleep(0.05)  # what comes unasked comes
    assert (len(server.seen), server.connections) == (2, 1 if kept else 2)


async def test_a_body_that_ends_with_its_connection() -> None:
    ended = [
        say(HEAD + b"\r\n" + BODY, close=True),
        say(CHUNKED.replace(b"Trailer: x\r\n\r\n", b""), close=True),
    ]
    async with talk_to(*ended) as (_, model):
        for _ in ended:
            assert (await model.reply(ASK)).message.content == "Hello"


@pytest.mark.parametrize(
    "pieces",
    [
        [SIZED[:-40]],
        [CHUNKED[:-40]],
        [CHUNKED.replace(b"A;name", b"wrong")],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 20_000],
        [HEAD + b"Content-Encoding: gzip\r\n\r\n" + BODY],
    ],
)
async def test_a_body_that_is_cut_off_or_broken(pieces: list[bytes]) -> None:
    async with talk_to(say(*pieces, close=True)) as (_, model):
        with pytest.raises(ServerTrouble, match="in the middle of a reply"):
            await model.reply(ASK)


async def test_a_few_bytes_that_stand_for_very_many() -> None:
    packed = gzip.compress(b" " * 200_000_000)
    sized = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    async with talk_to(say(sized, close=True)) as (_, model):
        tracemalloc.start()
        with pytest.raises(ReplyInvalid, match="longer than 64 MiB"):
            await model.reply(ASK)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 150_000_000


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000,
        b"HTTP/2 200\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
    ],
)
async def test_what_is_no_answer_in_http(head: bytes) -> None:
    async with talk_to(say(head)) as (_, model):
        with pytest.raises(ServerTrouble, match="does not speak HTTP"):
            await model.reply(ASK)


async def test_an_answer_that_comes_before_the_request_is_read() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge")
        await writer.drain()
        with suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with open_model(ModelSettings(model="openai/m", base_url=url)) as model:
            with pytest.raises(ContextOverflow, match="large"):
                await model.reply(Request([Message("user", "x" * 10_000_000)]))
        await see_the_server_end()


async def test_requests_at_once_have_a_connection_each() -> None:
    async with talk_to(answer(HELLO, pieces=7)) as (server, model):
        replies = await asyncio.gather(*(model.reply(ASK) for _ in range(5)))
        assert [reply.message.content for reply in replies] == ["Hello"] * 5
        await model.reply(ASK)
    assert server.connections == 5
    await see_the_server_end()


async def test_a_name_with_several_addresses() -> None:
    async with serve(answer(HELLO)) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        async with open_model(ModelSettings(model="openai/m", base_url=url)) as model:
            assert (await model.reply(ASK)).message.content == "Hello"
        assert server.seen[0].headers["host"] == f"localhost:{server.port}"
    async with open_model(ModelSettings(model="openai/m", base_url=url)) as model:
        with pytest.raises(ServerTrouble, match="Nothing listens at http://localhost"):
            await model.reply(ASK)


async def test_a_host_that_cannot_be_one() -> None:
    async with open_model(ModelSettings(model="openai/m", base_url=f"http://{'x' * 70}.invalid")) as model:
        with pytest.raises(ModelRefused, match="has no valid address: correct base_url"):
            await model.reply(ASK)


async def test_a_proxy_is_told_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(answer(HELLO)) as server:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "")
        async with open_model(ModelSettings(model="openai/m", base_url="http://model.invalid/v1")) as model:
            assert (await model.reply(ASK)).message.content == "Hello"
    said = server.seen[0].headers
    assert said["proxy-authorization"] == f"Basic {b64encode(b'me:p@ss').decode()}"
    assert said["host"] == "model.invalid"


@pytest.mark.parametrize("listens", [True, False])
async def test_a_proxy_that_does_not_connect(listens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(answer("no", 407)) as proxy:
        pass
    async with serve(answer("no", 407)) as listening:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{(listening if listens else proxy).port}")
        monkeypatch.setenv("no_proxy", "")
        async with open_model(ModelSettings(model="openai/m", base_url="https://model.invalid/v1")) as model:
            with pytest.raises(ServerTrouble, match="cannot be reached through the proxy: check HTTP_PROXY"):
                await model.reply(ASK)
    assert [seen.line for seen in listening.seen] == ["CONNECT model.invalid:443 HTTP/1.1"] * listens


ASKING = """
import asyncio, sys
from headgate.core import Message, ModelSettings, Request
from headgate.models.network import open_model

async def main():
    async with open_model(ModelSettings(model="openai/m", base_url=sys.argv[1])) as model:
        for _ in range(2):
            print((await model.reply(Request([Message("user", "Hi")]))).message.content)

asyncio.run(main())
"""


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("trusted", [True, False])
async def test_encrypted(proxied: bool, trusted: bool, tmp_path: Path) -> None:
    """In a process of its own: the certificates that are trusted are read once."""
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate, and is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    making = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -addext subjectAltName=DNS:model.invalid"
    making += f",DNS:localhost -keyout {key} -out {certificate}"
    await asyncio.to_thread(subprocess.run, making.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def tunnel(seen: Seen, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await wire.writer.start_tls(context)

    async with (
        serve(tunnel, answer(HELLO)) as proxy,
        serve(answer(HELLO), tls=context) as server,
    ):
        url = "https://model.invalid/v1" if proxied else f"https://localhost:{server.port}/v1"
        environment = {**os.environ, "https_proxy": f"http://127.0.0.1:{proxy.port}", "no_proxy": ""}
        environment |= {"SSL_CERT_FILE": str(certificate)} if trusted else {}
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ASKING, url), env=environment, stdout=-1, stderr=-1
        )
        said, failed = await child.communicate()
    if trusted:
        assert said.split() == [b"Hello", b"Hello"], failed
    else:
        assert b"has a certificate that is not trusted (self" in failed
    lines = ["CONNECT model.invalid:443 HTTP/1.1"] * proxied
    lines += ["POST /v1/chat/completions HTTP/1.1"] * 2 * trusted
    assert [seen.line for seen in (proxy if proxied else server).seen] == lines
    assert (proxy if proxied else server).connections == (1 if proxied or trusted else 0)

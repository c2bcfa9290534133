"""Kept connections that a server closes without a word: asked once more, if no answer had begun."""

import asyncio
import socket
import struct

import pytest
from model_server import HELLO, Respond, Seen, Server, Wire, answer, talk_to

from headgate.core import Message, Request
from headgate.errors import ModelUnavailable

ASK = Request([Message("user", "Hi")])
RESET = struct.pack("ii", 1, 0)


def close(said: bytes = b"", *, reset: bool = False) -> Respond:
    """Reads the request, says so much, and closes."""

    async def respond(seen: Seen, wire: Wire) -> None:
        if said:
            await wire.send(said)
            # The client is in the same event loop: it reads this before the timer is looked at.
            await asyncio.sleep(0.01)
        if reset:
            wire.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            wire.writer.transport.abort()
        else:
            wire.writer.close()

    return respond


def counts(server: Server) -> tuple[int, int]:
    return len(server.seen), server.connections


@pytest.mark.parametrize("reset", [False, True])
async def test_a_kept_connection_that_was_closed_is_replaced(reset: bool) -> None:
    async with talk_to(answer(HELLO), close(reset=reset), answer(HELLO)) as (server, model):
        for _ in range(3):
            assert (await model.reply(ASK)).message.content == "Hello"
    # The second request was read twice, over two connections; the third went over the second of them.
    assert counts(server) == (4, 2)
    assert server.seen[1].body == server.seen[2].body


async def test_nothing_is_sent_again_once_an_answer_has_begun() -> None:
    cut = close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
    async with talk_to(answer(HELLO), cut, answer(HELLO)) as (server, model):
        await model.reply(ASK)
        with pytest.raises(ModelUnavailable):
            await model.reply(ASK)
    assert counts(server) == (2, 1)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_new_connection_that_is_closed_is_a_failure(reset: bool) -> None:
    async with talk_to(close(reset=reset), answer(HELLO)) as (server, model):
        with pytest.raises(ModelUnavailable):
            await model.reply(ASK)
    assert counts(server) == (1, 1)


async def test_it_is_asked_again_once() -> None:
    async with talk_to(answer(HELLO), close()) as (server, model):
        await model.reply(ASK)
        with pytest.raises(ModelUnavailable):
            await model.reply(ASK)
    assert counts(server) == (3, 2)


async def test_a_server_that_closes_after_each_reply_though_it_says_otherwise() -> None:
    async def respond(seen: Seen, wire: Wire) -> None:
        await answer(HELLO, headers={"Connection": "keep-alive"})(seen, wire)
        wire.writer.close()

    async with talk_to(respond) as (server, model):
        for _ in range(20):
            assert (await model.reply(ASK)).message.content == "Hello"
    assert server.connections >= 20

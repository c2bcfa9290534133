"""Headgate's client against a real llama.cpp server. Structure is asserted, never what a model says."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from headgate.cli.local_server import LocalServer, find_model, local_server
from headgate.core import Delta, Message, Reply, Request, ToolSpec
from headgate.engine import SPECS
from headgate.errors import ConfigError, ContextOverflow, ModelRefused
from headgate.models.network import open_model

HELLO = (Message("user", "Count to ten."),)
LONGEST = 4
KILLED = """
import os, signal
from headgate.cli.local_server import local_server
with local_server(context=256) as server:
    print(server.base_url, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
OPTIONS = {"temperature": 0, "seed": 1, "max_tokens": LONGEST, "tool_transport": "native"}


async def ask(server: LocalServer, tools: tuple[ToolSpec, ...] = ()) -> tuple[Reply, list[Delta]]:
    pieces: list[Delta] = []
    async with open_model(server.settings(**OPTIONS)) as model:
        return await model.reply(Request(HELLO, tools), pieces.append), pieces


async def test_a_streamed_reply_is_the_whole_one(server: LocalServer) -> None:
    await ask(server)  # the second question finds the first one's prompt in the cache, like the third
    reply, pieces = await ask(server)
    whole = ask_whole(server)
    progress, pieces = [p.read for p in pieces if p.read], [p for p in pieces if not p.read]
    assert progress
    assert progress[-1] == (whole["prompt"], whole["prompt"])
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == reply.message.content == whole["text"]
    assert (reply.usage.prompt, reply.usage.completion) == (whole["prompt"], whole["completion"])
    assert reply.finish == whole["finish"]
    assert 0 < reply.usage.cached < reply.usage.prompt
    assert len(pieces) <= reply.usage.completion <= LONGEST


async def test_tools_that_the_server_drops_show_in_the_count(server: LocalServer) -> None:
    """The template of this model knows no tools: the server takes them, and says nothing."""
    without, _ = await ask(server)
    offered, _ = await ask(server, tuple(SPECS))
    assert len(SPECS) > 10
    assert offered.usage.prompt == without.usage.prompt
    assert offered.message.calls == ()


async def test_a_prompt_that_does_not_fit(server: LocalServer) -> None:
    async with open_model(server.settings(**OPTIONS)) as model:
        with pytest.raises(ContextOverflow, match="does not fit the context of SmolLM2"):
            await model.reply(Request([Message("user", "word " * 1000)]))
        assert (await model.reply(Request(HELLO))).usage.prompt


async def test_strangers_are_not_served(server: LocalServer) -> None:
    settings = server.settings(**OPTIONS).model_copy(update={"api_key": None})
    async with open_model(settings) as model:
        with pytest.raises(ModelRefused):
            await model.reply(Request(HELLO))


def test_a_server_with_slots_for_another_file_ends_with_its_block(
    server: LocalServer, tmp_path: Path
) -> None:
    file = tmp_path / "Other-1B.gguf"
    file.symlink_to(find_model())
    with local_server(file, context=256, slots=2) as second:
        assert second.base_url != server.base_url
        assert second.settings().model == "openai/Other-1B"
        told = get(second, "/props")
        assert (told["model_alias"], told["total_slots"]) == ("Other-1B", 2)
        assert told["default_generation_settings"]["n_ctx"] == 256
    assert not listens(second.base_url)


def test_a_file_that_is_not_there(server: LocalServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no model"), local_server(tmp_path / "none.gguf"):
        pytest.fail("it started")


def test_the_server_ends_with_the_process_that_started_it(server: LocalServer) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    deadline = time.monotonic() + 60
    while listens(killed.stdout.strip()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not listens(killed.stdout.strip())


def listens(base_url: str) -> bool:
    parts = urlsplit(base_url)
    try:
        with socket.create_connection((str(parts.hostname), int(parts.port or 0))):
            return True
    except ConnectionRefusedError:
        return False


def ask_whole(server: LocalServer) -> dict[str, object]:
    """The same question without streaming, past Headgate's client."""
    body = {"messages": [{"role": "user", "content": HELLO[0].content}], "temperature": 0, "seed": 1}
    got = get(server, "/v1/chat/completions", {**body, "max_tokens": LONGEST})
    choice, usage = got["choices"][0], got["usage"]
    return {
        "text": choice["message"]["content"],
        "finish": choice["finish_reason"],
        "prompt": usage["prompt_tokens"],
        "completion": usage["completion_tokens"],
    }


def get(server: LocalServer, path: str, body: object = None) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {server.key}"}
    data = None if body is None else json.dumps(body).encode()
    address = server.base_url.removesuffix("/v1") + path
    with urllib.request.urlopen(urllib.request.Request(address, data, headers)) as answer:
        return json.load(answer)

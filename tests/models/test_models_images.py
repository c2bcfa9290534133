"""Images on the wire: each API has its own form, and every way of calling tools keeps them."""

import base64
from typing import Any

import pytest
from model_server import HELLO, answer, chunk, serve, stream
from pydantic import SecretStr

from headgate.core import Image, Message, ModelSettings, Reply, Request, ToolCall, ToolSpec, size_of
from headgate.models import sees_images
from headgate.models.network import open_model

DATA = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(200))).decode()
SHOT = Message("user", "Make it look like this.", images=(Image("image/png", DATA),))
TALK = (
    Message("system", "Be brief."),
    SHOT,
    Message("assistant", "", (ToolCall("c1", "ls", "{}"),)),
    Message("tool", "a.py", call_id="c1"),
)
LS = ToolSpec("ls", "List.", {"type": "object", "properties": {}}, "read")
AS_URL = [
    {"type": "text", "text": "Make it look like this."},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
]
MESSAGES_HELLO = {
    "type": "message",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
OLLAMA_HELLO = {"message": {"content": "Hello"}, "done": True, "done_reason": "stop"}


async def ask(
    body: Any, *talks: tuple[Message, ...], **settings: Any
) -> tuple[list[Any], list[bytes], Reply]:
    """What was sent, as JSON and as bytes, and the last reply."""
    async with serve(answer(body)) as server:
        wanted = ModelSettings(base_url=server.url, api_key=SecretStr("k"), **settings)
        async with open_model(wanted) as model:
            for talk in talks:
                reply = await model.reply(Request(talk, (LS,)))
    chats = [seen for seen in server.seen if seen.line.startswith("POST")]
    return [seen.json for seen in chats], [seen.body for seen in chats], reply


async def test_the_form_of_openai() -> None:
    (sent,), _, _ = await ask(HELLO, TALK, model="openai/m", tool_transport="native")
    assert [message["content"] for message in sent["messages"]] == ["Be brief.", AS_URL, "", "a.py"]


async def test_the_form_of_anthropic() -> None:
    (sent,), _, _ = await ask(MESSAGES_HELLO, TALK, model="anthropic/m")
    assert sent["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
        {"type": "text", "text": "Make it look like this.", "cache_control": {"type": "ephemeral"}},
    ]


async def test_the_form_of_ollama() -> None:
    (sent,), _, _ = await ask(OLLAMA_HELLO, TALK, model="ollama/m", num_ctx=4096, tool_transport="native")
    assert sent["messages"][1] == {"role": "user", "content": "Make it look like this.", "images": [DATA]}
    assert [message for message in sent["messages"] if "images" in message] == [sent["messages"][1]]


@pytest.mark.parametrize("transport", ["text", "schema"])
async def test_other_ways_of_calling_tools_keep_them(transport: str) -> None:
    said = HELLO
    if transport == "schema":
        said = stream(chunk({"content": '{"thought":"","name":"ls","arguments":{}}'}), chunk(finish="stop"))
    sent, bodies, _ = await ask(said, TALK[:2], TALK, model="openai/m", tool_transport=transport)
    shown = [one["messages"][1]["content"] for one in sent[-2:]]
    assert shown[0] == shown[1] == AS_URL
    first, second = bodies[-2:]
    before = first[: first.index(DATA.encode()) + len(DATA)]
    assert second.startswith(before)  # a server keeps what it has read of it


async def test_an_image_is_no_long_prompt() -> None:
    """A server counts an image as few tokens, which does not mean that it cut the prompt."""
    large = Message("user", "Look.", images=(Image("image/png", "A" * 4_000_000),))
    usage = {"prompt_tokens": 1_100, "completion_tokens": 2}
    said = stream(chunk({"content": "Hello"}), chunk(finish="stop"), {"choices": [], "usage": usage})
    _, _, reply = await ask(said, (large,), model="openai/m", tool_transport="native")
    assert reply.cut is None
    assert size_of([large]) < 10_000


def test_who_can_see() -> None:
    assert sees_images(ModelSettings(model="anthropic/claude-sonnet-4-5"))
    assert sees_images(ModelSettings(model="openai/gpt-4o"))
    assert not sees_images(ModelSettings(model="openai/o3-mini"))
    assert not sees_images(ModelSettings(model="ollama/llava"))
    assert sees_images(ModelSettings(model="ollama/llava", images=True))
    assert not sees_images(ModelSettings(model="openai/gpt-4o", images=False))
    assert not sees_images(ModelSettings(model="script:a.yaml"))
    assert not sees_images(ModelSettings(model="a program's own"))

"""The scripted model: what it says, what it records and what it refuses."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core import Delta, Message, Reply, Request, ToolCall, ToolSpec, Usage
from headgate.errors import ConfigError, ContextOverflow, ModelRefused, ModelUnavailable, ReplyInvalid
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry, ScriptError, ScriptExhausted

LS = ToolSpec("ls", "List.", {"type": "object"}, "read")
SHELL = ToolSpec("shell", "Run.", {"type": "object"}, "run")
ASK = Request([Message("system", "Be brief."), Message("user", "Go")], (LS, SHELL))


def script(tmp_path: Path, text: str) -> ScriptedModel:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    return ScriptedModel.load(path)


async def test_a_reply_with_all_its_parts(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        """
replies:
  - text: Looking.
    reasoning: hm
    calls:
      - read_file: {path: ä.py, lines: [1, 2]}
      - edit_file: '{"path": "a.py", '
      - ls:
    usage: {prompt: 100, completion: 20, cached: 7}
    finish: length
  - text: Done, all of it.
""",
    )
    deltas: list[Delta] = []
    calls = (
        ToolCall("call_1", "read_file", '{"path":"ä.py","lines":[1,2]}'),
        ToolCall("call_2", "edit_file", '{"path": "a.py", '),
        ToolCall("call_3", "ls", "{}"),
    )
    message = Message("assistant", "Looking.", calls, reasoning="hm")
    assert await model.reply(ASK, deltas.append) == Reply(message, Usage(100, 20, 7), "length")
    assert deltas == [
        Delta(reasoning="hm"),
        Delta(text="Looking."),
        *(Delta(arguments=call.arguments) for call in calls),
    ]
    with pytest.raises(ScriptError, match="never requested: 2"):
        model.check_finished()
    assert model.leftover() == [2]


async def test_usage_is_estimated_and_a_bare_list_will_do(tmp_path: Path) -> None:
    model = script(tmp_path, "- text: Done, all of it.\n")
    assert await model.reply(ASK) == Reply(
        Message("assistant", "Done, all of it."), Usage(2, 4), "stop", estimated=True
    )
    model.check_finished()


async def test_call_ids_are_unique_over_the_script_and_the_transcript(tmp_path: Path) -> None:
    model = script(tmp_path, "- calls: [ls: {}, ls: {}]\n- calls: [ls: {}]\n")
    first = await model.reply(ASK)
    assert [call.id for call in first.message.calls] == ["call_1", "call_2"]
    old = Message("assistant", calls=(ToolCall("call_3", "ls", "{}"),))
    second = await model.reply(replace(ASK, messages=[old]))
    assert [call.id for call in second.message.calls] == ["call_4"]


async def test_requests_are_kept_as_they_were(tmp_path: Path) -> None:
    model = script(tmp_path, "- text: a\n")
    messages = [Message("user", "one")]
    await model.reply(Request(messages))
    messages.append(Message("user", "two"))
    assert model.requests == [Request((Message("user", "one"),))]


async def test_errors_of_each_kind(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        """
- error: {kind: unavailable, message: busy, retry_after: 3}
- error: {kind: refused, message: never}
- error: {kind: invalid, message: what}
- error: {kind: overflow, message: full}
""",
    )
    with pytest.raises(ModelUnavailable, match="busy") as caught:
        await model.reply(ASK)
    assert caught.value.retry_after == 3
    for kind in (ModelRefused, ReplyInvalid, ContextOverflow):
        with pytest.raises(kind):
            await model.reply(ASK)
    model.check_finished()


async def test_running_out_is_an_error_that_stays(tmp_path: Path) -> None:
    model = script(tmp_path, "- text: a\n")
    await model.reply(ASK)
    with pytest.raises(ScriptExhausted, match=r"script\.yaml has 1 entry and"):
        await model.reply(ASK)
    with pytest.raises(ScriptExhausted):
        model.check_finished()


@pytest.mark.parametrize(
    ("expect", "fault"),
    [
        ("tools: [shell, ls]", None),
        ("tools: [ls]", "expects the tools"),
        ("tools: []", "expects the tools"),
        ("tools_include: [ls]", None),
        ("tools_include: [cat]", '"cat"'),
        ("tools_exclude: [shell]", '"shell"'),
        ("tools_exclude: cat", None),
        ("seen: [brief, Go]", None),
        ("seen: [gone]", '"gone" in the request'),
        ("unseen: [gone]", None),
        ("unseen: [brief]", '"brief" is not'),
        ("last: [result]", None),
        ("last: [Go]", '"Go" in the last messages'),
        ("system: [brief]", None),
        ("system: [Go]", '"Go" in the system message'),
    ],
)
async def test_expectations(tmp_path: Path, expect: str, fault: str | None) -> None:
    model = script(tmp_path, f"- text: a\n  expect: {{{expect}}}\n")
    messages = [*ASK.messages, Message("assistant", "x"), Message("tool", "result", call_id="c")]
    request = replace(ASK, messages=messages)
    if fault is None:
        assert (await model.reply(request)).message.content == "a"
        model.check_finished()
        return
    with pytest.raises(ScriptError, match="entry 1") as caught:
        await model.reply(request)
    assert fault in str(caught.value)
    assert model.error is caught.value


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- txt: a\n", "entry 1: txt"),
        ("- text: a\n- text: b\n  expect: {sean: [x]}\n", "entry 2: expect.sean"),
        ("- calls: [{a: {}, b: {}}]\n", "entry 1"),
        ("- error: {kind: odd}\n", "entry 1: error.kind"),
        ("- error: {kind: invalid}\n  text: a\n", "an error has no text"),
        ("- delay: 1\n", "needs text, calls or error"),
        ("- just text\n", "entry 1"),
        ("- calls: [ls: {day: 2024-01-01, odd: !!binary aGk=}]\n", "quote it"),
        ("- calls: [ls: &a {path: *a}]\n", "contains itself"),
        ("answers: []\n", "unknown keys: answers"),
        ("replies: 3\n", "list of entries"),
        ("- [", "not valid YAML"),
    ],
)
def test_a_faulty_script_is_a_configuration_error(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        script(tmp_path, text)
    assert fault in str(caught.value)
    assert str(caught.value).count("script.yaml") == 1
    assert str(caught.value).endswith(".")
    assert "Value error" not in str(caught.value)


def test_a_missing_script(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml does not exist\.$"):
        ScriptedModel.load(tmp_path / "none.yaml")


def test_a_script_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError, match=r"is not a regular file\.$"):
            ScriptedModel.load(path)
    (tmp_path / "deep.yaml").write_text("[" * 200_000)
    with pytest.raises(ConfigError, match=r"is nested too deeply\.$"):
        ScriptedModel.load(tmp_path / "deep.yaml")


async def test_python_entries() -> None:
    done = Reply(Message("assistant", "done"))

    async def later(request: Request) -> ScriptEntry:
        await asyncio.sleep(0)
        return ScriptEntry(text=f"{len(request.messages)} messages")

    model = ScriptedModel([done, lambda request: ReplyInvalid("odd"), later, ModelRefused("no")])
    assert await model.reply(ASK) is done
    with pytest.raises(ReplyInvalid):
        await model.reply(ASK)
    assert (await model.reply(ASK)).message.content == "2 messages"
    with pytest.raises(ModelRefused):
        await model.reply(ASK)
    model.check_finished()
    assert len(model.requests) == 4


async def test_a_delay_can_be_cancelled(tmp_path: Path) -> None:
    model = script(tmp_path, "- text: a\n  delay: 3600\n")
    task = asyncio.create_task(model.reply(ASK))
    await asyncio.sleep(0)
    assert len(model.requests) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

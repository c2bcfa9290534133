"""Calls as text: what is sent, what is read, and that a conversation only grows."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_model_server import ASK, DONE, LS, TOOLS, WRITE, Habits, asking, text

from headgate.core import (
    Delta,
    Finish,
    Message,
    Model,
    OnDelta,
    Reply,
    Request,
    ToolCall,
    ToolSpec,
)
from headgate.errors import ReplyInvalid
from headgate.models import find_profile
from headgate.models.profile import UNKNOWN, Profile
from headgate.models.text_transport import TextModel
from headgate.models.wire.openai import encode_message


class Recorder:
    """A model that says one thing, in pieces, and keeps what it was asked."""

    name = "openai/recorder"

    def __init__(
        self, content: str = "", reasoning: str = "", finish: Finish = "stop", piece: int = 5
    ) -> None:
        self.asked: list[Request] = []
        self._reply = Reply(Message("assistant", content, reasoning=reasoning), finish=finish)
        self._piece = piece

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.asked.append(request)
        content = self._reply.message.content
        for start in range(0, len(content), self._piece):
            if on_delta:
                on_delta(Delta(content[start : start + self._piece]))
        return self._reply


async def ask(
    content: str, profile: Profile = UNKNOWN, *, reasoning: str = "", finish: Finish = "stop"
) -> Reply:
    return await TextModel(Recorder(content, reasoning, finish), profile).reply(Request([ASK], TOOLS))


async def test_the_tools_are_described_and_the_call_is_read() -> None:
    said = 'I look.\n<tool_call>\n{"name": "ls", "arguments": {"path": "."}}\n</tool_call>'
    habits = Habits(text(said))
    talk = [
        Message("system", "Be brief."),
        ASK,
        Message("assistant", "I look.", (ToolCall("c1", "ls", '{"path":"."}'), ToolCall("c2", "ls", "{}"))),
        Message("tool", "a.py", call_id="c1"),
        Message("tool", "no such folder", call_id="c2", failed=True),
        Message("user", "Go on."),
    ]
    async with asking(habits, "text") as model:
        reply = await model.reply(Request(talk, (LS, WRITE)))
    assert reply.message == Message("assistant", "I look.", (ToolCall("call_1", "ls", '{"path": "."}'),))
    assert reply.finish == "calls"
    (asked,) = habits.asked
    assert "tools" not in asked
    system, *rest = asked["messages"]
    assert system["content"].startswith("Be brief.\n\n# Tools\n")
    assert system["content"].endswith(
        "- ls(path?: string): List a folder.\n"
        "- write_file(path: string, content: string, mode?: integer): Write a file.\n"
        "  content: All of it"
    )
    assert rest == [
        {"role": "user", "content": "Begin."},
        {
            "role": "assistant",
            "content": 'I look.\n<tool_call>\n{"name": "ls", "arguments": {"path":"."}}\n</tool_call>\n'
            '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>',
        },
        {
            "role": "user",
            "content": '<tool_response name="ls">\na.py\n</tool_response>\n\n'
            '<tool_response name="ls" failed="true">\nno such folder\n</tool_response>\n\nGo on.',
        },
    ]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('<tool_call>{"name": "rm", "arguments": {}}</tool_call>', "There is no tool"),
        ('<tool_call>{"name": "ls", "arguments": {"path": "', 'The call to "ls" is incomplete'),
    ],
)
async def test_a_call_that_cannot_be_run_is_explained(said: str, message: str) -> None:
    with pytest.raises(ReplyInvalid, match=message):
        await ask(said)


async def test_a_reply_that_was_cut_off_is_left_to_the_runtime() -> None:
    said = '<tool_call>{"name": "ls", "arguments": {"path": "'
    reply = await ask(said, finish="length")
    assert (reply.message.content, reply.message.calls, reply.finish) == (said, (), "length")


async def test_plain_text_stays_text() -> None:
    assert await ask("All is well.") == Reply(Message("assistant", "All is well."))


async def test_thinking_is_split_off() -> None:
    reply = await ask("<think>Hm.</think>Fine.", reasoning="Before.")
    assert reply.message == Message("assistant", "Fine.", reasoning="Before.\nHm.")
    opened = await ask("Hm.</think>Fine.", find_profile("qwq"))
    assert opened.message == Message("assistant", "Fine.", reasoning="Hm.")
    # The server took the thinking out by itself: what is left is the answer.
    apart = await ask("Fine.", find_profile("qwq"), reasoning="Hm.")
    assert apart.message == Message("assistant", "Fine.", reasoning="Hm.")


async def test_one_call_where_the_model_manages_one() -> None:
    two = "".join(f'<tool_call>{{"name": "ls", "arguments": {{"path": "{at}"}}}}</tool_call>' for at in "ab")
    assert len((await ask(two)).message.calls) == 2
    assert len((await ask(two, find_profile("gpt-oss:20b"))).message.calls) == 1


@pytest.mark.parametrize(("model", "sent"), [("gpt-oss:20b", "hm"), ("qwen2.5:7b", "")])
async def test_reasoning_goes_back_where_it_is_needed(model: str, sent: str) -> None:
    recorder = Recorder("Ok.")
    talk = [ASK, Message("assistant", "One.", reasoning="hm"), Message("user", "Two.")]
    await TextModel(recorder, find_profile(model)).reply(Request(talk, TOOLS))
    assert [message.reasoning for message in recorder.asked[0].messages] == ["", "", sent, ""]


async def test_whoever_watches_sees_text_and_calls_apart() -> None:
    said = 'Let me look.\n<tool_call>{"name": "ls", "arguments": {"path": "src/a/long/one"}}</tool_call>'
    shown: list[Delta] = []
    await TextModel(Recorder(said), UNKNOWN).reply(Request([ASK], TOOLS), shown.append)
    assert "".join(delta.text for delta in shown).strip() == "Let me look."
    assert "tool_call" in "".join(delta.arguments for delta in shown)


WORDS = st.text(max_size=8)
TURN = st.tuples(st.lists(st.sampled_from(["ls", "write_file"]), max_size=2), WORDS, st.booleans())


def grow(turns: Sequence[tuple[list[str], str, bool]]) -> list[list[Message]]:
    """A conversation as it stands before each turn."""
    messages = [Message("system", "S."), ASK]
    stages = [list(messages)]
    for number, (names, words, corrected) in enumerate(turns):
        calls = tuple(ToolCall(f"{number}-{index}", name, "{}") for index, name in enumerate(names))
        messages.append(Message("assistant", words, calls))
        messages += [Message("tool", words, call_id=call.id) for call in calls]
        if corrected or not calls:
            messages.append(Message("user", f"Correction: {words}"))
        stages.append(list(messages))
    return stages


@settings(max_examples=60)
@given(st.lists(TURN, max_size=6))
async def test_each_turn_only_adds_to_the_prompt(turns: list[tuple[list[str], str, bool]]) -> None:
    recorder = Recorder("Ok.")
    model: Model = TextModel(recorder, UNKNOWN)
    for messages in grow(turns):
        await model.reply(Request(messages, TOOLS))
    sent = [[encode_message(message) for message in request.messages] for request in recorder.asked]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
    # Each message was made once: the next request has the very same objects.
    for one, two in pairwise(recorder.asked):
        assert all(old is new for old, new in zip(one.messages, two.messages, strict=False))
    roles = [message.role for message in recorder.asked[-1].messages]
    assert all(one != other for one, other in pairwise(roles))
    # A conversation that is built again is told in the same words.
    again = Recorder("Ok.")
    await TextModel(again, UNKNOWN).reply(Request(grow(turns)[-1], TOOLS))
    assert list(again.asked[0].messages) == list(recorder.asked[-1].messages)


async def test_a_correction_without_a_reply_before_it_extends_the_last_message() -> None:
    recorder = Recorder("Ok.")
    model = TextModel(recorder, UNKNOWN)
    await model.reply(Request([ASK], TOOLS))
    await model.reply(Request([ASK, Message("user", "Not so.")], TOOLS))
    first, second = (request.messages for request in recorder.asked)
    assert second[1].content == "Begin.\n\nNot so."
    assert second[1].content.startswith(first[1].content)


async def test_without_tools_nothing_is_told_of_them() -> None:
    recorder = Recorder("Ok.")
    tools: tuple[ToolSpec, ...] = ()
    await TextModel(recorder, UNKNOWN).reply(Request([Message("system", "S."), ASK], tools))
    assert [message.content for message in recorder.asked[0].messages] == ["S.", "Begin."]


async def test_what_an_argument_can_be_is_told() -> None:
    recorder = Recorder("Ok.")
    await TextModel(recorder, UNKNOWN).reply(Request([ASK], (DONE,)))
    assert 'stage?: "a", summary: string' in recorder.asked[0].messages[0].content

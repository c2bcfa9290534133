"""A reply that cannot be used stays in the conversation, bounded, and the correction follows it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_loop import TASK, make_job, work

from headgate.core import Message, Model, Reply, Request
from headgate.errors import ReplyInvalid
from headgate.log import Store
from headgate.models import ScriptedModel, find_profile
from headgate.models.network import NativeModel, SchemaModel, TextModel
from headgate.run import Memory, restore, run_flow
from headgate.run.turn import BROKEN_CHARS

DONE = '{"name": "stage_done", "arguments": {"stage": "work", "summary": "Seen."}, "thought": ""}'
BROKEN = {
    "a tool that is not there": '<tool_call>{"name": "open", "arguments": {"path": "big.txt"}}</tool_call>',
    "a call that is cut": '<tool_call>\n{"name": "read_file", "arguments": {"path": "big.t',
}
PROFILE = find_profile("m")
TRANSPORTS: dict[str, Callable[[Model], Model]] = {
    "native": lambda inner: NativeModel(inner, PROFILE, rescue=True),
    "text": lambda inner: TextModel(inner, PROFILE),
    "schema": lambda inner: SchemaModel(inner, PROFILE),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "headgate.db")
    opened.add_task(lambda task_id: TASK, 0.0)
    yield opened
    opened.close()


def text(said: str) -> Reply:
    return Reply(Message("assistant", said))


def too_long(said: str) -> ReplyInvalid:
    error = ReplyInvalid("The reply repeated itself endlessly and was cut off.")
    error.said = said
    return error


def last_two(request: Request) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in request.messages[-2:]]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN)
async def test_the_model_sees_what_is_corrected(store: Store, transport: str, said: str) -> None:
    inner = ScriptedModel(
        [text(said), text(DONE if transport == "schema" else f"<tool_call>{DONE}</tool_call>")]
    )
    job = make_job(store, work(), {None: TRANSPORTS[transport](inner)})
    assert (await run_flow(job)).action == "advance"
    first, second = inner.requests
    (_, wrote), (role, correction) = last_two(second)
    assert (wrote, role) == (said, "user")
    assert correction.startswith("That reply could not be used: ")
    # What was sent before stays as it was.
    assert [message.content for message in second.messages[: len(first.messages)]] == [
        message.content for message in first.messages
    ]


async def test_of_a_long_reply_the_beginning_and_the_end_are_kept(store: Store) -> None:
    said = "It begins. " + "On and on. " * 9_000 + "It ends."
    inner = ScriptedModel([too_long(said), text("Seen."), text("Seen.")])
    await run_flow(make_job(store, work(), {None: inner}))
    (role, kept), _ = last_two(inner.requests[1])
    assert (role, len(kept)) == ("assistant", BROKEN_CHARS)
    assert kept.startswith("It begins. ")
    assert kept.endswith("It ends.")
    assert "characters of your reply cut here" in kept


async def test_a_reply_of_which_nothing_is_known_leaves_nothing(store: Store) -> None:
    inner = ScriptedModel([too_long(" \n"), text("Seen."), text("Seen.")])
    await run_flow(make_job(store, work(), {None: inner}))
    (before, _), (role, _) = last_two(inner.requests[1])
    assert (before, role) == ("user", "user")


async def test_after_a_crash_the_messages_are_the_same(store: Store) -> None:
    inner = ScriptedModel([text(BROKEN["a call that is cut"]), text("I looked."), text("Seen.")])
    job = make_job(store, work(), {None: TextModel(inner, PROFILE)})
    await run_flow(job)
    (stage,) = job.flow.leaves()
    said = job.transcript_of(stage)
    again = replace(job, memory=Memory())
    restore(again, store.events("t1"), store.contents("t1"))
    assert again.transcript_of(stage).view == said.view
    assert any("big.t" in message.content for message in said.view)

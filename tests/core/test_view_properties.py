"""What views promise, on transcripts that no well-behaved run would leave behind."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import Message, ToolCall, ViewPolicy, build_view
from headgate.models.wire.openai import encode_message
from views import check_view

IDS = ("a", "b", "c", "d", "")
TEXTS = ("", " ", "short", "\ud800 lone \udfff", "\u00e9\U0001f600" * 150, "line\n" * 300, "x" * 20_000)
ARGUMENTS = (
    "",
    "{}",
    "{broken",
    "[1]",
    '{"path": "a.py"}',
    json.dumps({"path": "a", "content": "\n\\" * 4_000}),
)

texts = st.sampled_from(TEXTS)
calls = st.builds(
    ToolCall,
    st.sampled_from(IDS),
    st.sampled_from(["read_file", "shell", "n" * 500]),
    st.sampled_from(ARGUMENTS),
)
replies = st.builds(
    Message,
    st.just("assistant"),
    texts,
    st.lists(calls, max_size=4).map(tuple),
    reasoning=texts,
    opaque=st.sampled_from(["", '{"reasoning_field":"reasoning"}']),
)
results = st.builds(Message, st.just("tool"), texts, call_id=st.sampled_from(IDS), failed=st.booleans())
others = st.builds(Message, st.sampled_from(["user", "user", "user", "system"]), texts)
transcripts = st.lists(replies | results | others, max_size=30)
"""Anything in any order: doubled ids, results before, long after or without their calls, unanswered calls."""


@st.composite
def orderly_transcripts(draw: st.DrawFn) -> list[Message]:
    """What a run leaves: replies whose calls are answered in some order, all but perhaps a few."""
    messages = [Message("system", "rules"), Message("user", "task")]
    for number in range(draw(st.integers(0, 8))):
        reply = draw(replies | others.filter(lambda message: message.role == "user"))
        renamed = tuple(replace(call, id=f"{number}.{index}") for index, call in enumerate(reply.calls))
        messages.append(replace(reply, calls=renamed))
        order = draw(st.permutations(renamed))
        answered = order[: draw(st.integers(0, len(order)))] if draw(st.booleans()) else order
        messages += [Message("tool", draw(texts), call_id=call.id) for call in answered]
    return messages


policies = st.builds(
    ViewPolicy,
    history=st.sampled_from(["full", "tail"]),
    max_messages=st.integers(2, 20),
    keep_first=st.booleans(),
    strip_thinking=st.booleans(),
    truncate_chars=st.sampled_from([0, 1, 30, 60, 500, 5_000]),
    truncate_keep_last=st.integers(0, 4),
)
budgets = st.none() | st.integers(0, 3_000) | st.integers(3_000, 60_000)


@settings(max_examples=120)
@given(transcripts, policies, budgets)
def test_views_of_anything_keep_their_promises(
    transcript: list[Message], policy: ViewPolicy, max_chars: int | None
) -> None:
    before = list(transcript)
    check_view(transcript, policy, max_chars)
    assert transcript == before


@given(orderly_transcripts(), policies, budgets)
def test_views_of_orderly_transcripts_keep_their_promises(
    transcript: list[Message], policy: ViewPolicy, max_chars: int | None
) -> None:
    view = check_view(transcript, policy, max_chars)
    if policy.history == "tail" and policy.max_messages >= 4:
        assert len(view) <= policy.max_messages


@settings(max_examples=50)
@given(orderly_transcripts(), policies, budgets)
def test_the_same_input_gives_the_same_bytes(
    transcript: list[Message], policy: ViewPolicy, max_chars: int | None
) -> None:
    fresh = [replace(message, wire={}) for message in transcript]
    for message in transcript:
        message.wire["openai"] = encode_message(message)
    first = [
        message.wire.get("openai") or encode_message(message)
        for message in build_view(transcript, policy, max_chars)
    ]
    second = [encode_message(message) for message in build_view(fresh, policy, max_chars)]
    assert first == second


@settings(max_examples=50)
@given(orderly_transcripts(), policies)
def test_a_larger_budget_never_shows_fewer_messages(transcript: list[Message], policy: ViewPolicy) -> None:
    counts = [len(build_view(transcript, policy, budget)) for budget in (0, 1_000, 10_000, 100_000, None)]
    assert counts == sorted(counts)

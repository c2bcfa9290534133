"""Views: whatever is cut, calls and results stay together and the task stays in sight."""

import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import case_path
from headgate.core.flow import ViewPolicy
from headgate.core.messages import Message, ToolCall
from headgate.core.view import INTERRUPTED, build_view, size_of

HEAD = [Message("system", "rules"), Message("user", "task")]


def call(number: int) -> ToolCall:
    return ToolCall(f"call_{number}", "read_file", json.dumps({"path": f"{number}.py"}))


def exchange(number: int, size: int = 50, reasoning: str = "") -> list[Message]:
    return [
        Message("assistant", "", (call(number),), reasoning=reasoning),
        Message("tool", "x" * size, call_id=f"call_{number}"),
    ]


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    messages = list(HEAD)
    number = 0
    for _ in range(draw(st.integers(0, 12))):
        match draw(st.sampled_from(["exchange", "text", "user", "unanswered", "stray"])):
            case "exchange":
                count = draw(st.integers(1, 3))
                calls = tuple(call(number + index) for index in range(count))
                messages.append(
                    Message("assistant", draw(st.text(max_size=20)), calls, reasoning=draw(st.text()))
                )
                answered = draw(st.permutations(range(count)))
                for index in answered:
                    content = draw(st.text(max_size=400))
                    messages.append(Message("tool", content, call_id=f"call_{number + index}"))
                number += count
            case "text":
                messages.append(Message("assistant", draw(st.text(max_size=50))))
            case "user":
                messages.append(Message("user", draw(st.text(max_size=50))))
            case "unanswered":
                messages.append(Message("assistant", "", (call(number),)))
                number += 1
            case _:
                messages.append(Message("tool", "stray", call_id="nobody"))
    return messages


policies = st.builds(
    ViewPolicy,
    history=st.sampled_from(["full", "tail"]),
    max_messages=st.integers(2, 12),
    keep_first=st.booleans(),
    strip_thinking=st.booleans(),
    truncate_chars=st.integers(0, 200),
    truncate_keep_last=st.integers(0, 3),
)


def check_pairs(view: list[Message]) -> None:
    waiting: set[str] = set()
    for message in view:
        if message.role == "tool":
            assert message.call_id in waiting
            waiting.remove(message.call_id)
        else:
            assert not waiting
            waiting = {call.id for call in message.calls}
    assert not waiting


@given(transcripts(), policies, st.none() | st.integers(0, 2_000))
def test_every_call_keeps_its_result_and_every_result_its_call(
    transcript: list[Message], policy: ViewPolicy, room: int | None
) -> None:
    before = list(transcript)
    view = build_view(transcript, policy, room)
    check_pairs(view)
    assert transcript == before
    assert build_view(transcript, policy, room) == view
    assert view[0] == HEAD[0]
    if policy.keep_first:
        assert view[1] == HEAD[1]


@given(transcripts(), st.integers(800, 3_000))
def test_room_is_kept_to_once_the_last_exchange_fits(transcript: list[Message], room: int) -> None:
    view = build_view(transcript, ViewPolicy(), room)
    users = [message for message in view[2:] if message.role == "user"]
    last_call = size_of(view[2:]) - sum(len(m.content) for m in view[2:] if m.role == "tool")
    results = sum(message.role == "tool" for message in view)
    assert size_of(view) <= max(room, size_of(HEAD) + last_call + 200 * results + size_of(users))


def test_full_history_is_the_same_objects() -> None:
    transcript = [*HEAD, *exchange(1), *exchange(2)]
    view = build_view(transcript, ViewPolicy())
    assert all(mine is theirs for mine, theirs in zip(view, transcript, strict=True))


def test_tail_keeps_the_head_and_the_latest_exchanges() -> None:
    transcript = [*HEAD, *exchange(1), *exchange(2), *exchange(3)]
    view = build_view(transcript, ViewPolicy(history="tail", max_messages=6))
    assert view == [*HEAD, *exchange(2), *exchange(3)]


def test_old_results_are_shortened_and_the_last_ones_not() -> None:
    transcript = [*HEAD, *exchange(1, 1_000), *exchange(2, 1_000)]
    view = build_view(transcript, ViewPolicy(truncate_chars=200, truncate_keep_last=1))
    assert [len(message.content) for message in view if message.role == "tool"] == [200, 1_000]
    assert "cut from this older result" in view[3].content


def test_reasoning_goes_from_older_exchanges_only() -> None:
    transcript = [
        *HEAD,
        *exchange(1, reasoning="old"),
        Message("user", "next"),
        *exchange(2, reasoning="new"),
    ]
    view = build_view(transcript, ViewPolicy(strip_thinking=True))
    assert [message.reasoning for message in view if message.role == "assistant"] == ["", "new"]
    kept = build_view(transcript, ViewPolicy(strip_thinking=False))
    assert [message.reasoning for message in kept if message.role == "assistant"] == ["old", "new"]


def test_an_unanswered_call_is_answered() -> None:
    view = build_view([*HEAD, Message("assistant", "", (call(1), call(2)))], ViewPolicy())
    assert [(message.call_id, message.content) for message in view[3:]] == [
        ("call_1", INTERRUPTED),
        ("call_2", INTERRUPTED),
    ]


@pytest.mark.parametrize("policy", [ViewPolicy(), ViewPolicy(history="tail"), ViewPolicy(truncate_chars=300)])
@pytest.mark.parametrize("room", [None, 20_000])
def test_a_real_session(policy: ViewPolicy, room: int | None) -> None:
    path = case_path("trajectories", "pi-large-session.json.gz")
    transcript = [read_message(item) for item in load_messages(path.read_bytes())]
    view = build_view(transcript, policy, room)
    check_pairs(view)
    if room:
        assert len(view) < len(transcript)


def load_messages(data: bytes) -> list[dict[str, object]]:
    loaded = json.loads(gzip.decompress(data))
    messages = loaded["messages"] if isinstance(loaded, dict) else loaded
    assert isinstance(messages, list)
    return messages


def read_message(item: dict[str, object]) -> Message:
    content = item.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    calls = tuple(
        ToolCall(str(call["id"]), str(call["function"]["name"]), str(call["function"]["arguments"]))
        for call in item.get("tool_calls") or ()
    )
    message = Message(item["role"], str(content), calls)
    return replace(message, call_id=str(item.get("tool_call_id", "")))

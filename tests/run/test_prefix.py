"""How much of a request the server has read before: between cuts all of it, and cuts are rare."""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.core import Message, ToolCall, ViewPolicy, build_view, size_of
from headgate.models.wire.openai import encode_message
from headgate.run.transcript import LEAST_TAIL, WORTH_CUTTING, Transcript
from views import check_pairs, load_session

SYSTEM = Message("system", "You work in one repository, through tool calls only.\n" * 80)
TASK = Message("user", "Mend what is broken.\n" * 20)
NOTICE = Message("user", "Older messages were cut to make room.")
TURNS = 400


@dataclass
class Session:
    """Asks once a turn whether a cut is due, as a stage does, and compares each request with the last."""

    policy: ViewPolicy
    transcript: Transcript = field(default_factory=Transcript)
    last: bytes = b""
    read_before: int = 0
    """Bytes of requests that began the next request too."""
    could_be: int = 0
    """Bytes of all requests but the last."""
    broken_at: list[int] = field(default_factory=list)
    """The requests that did not begin with the one before."""
    counts: list[int] = field(default_factory=list)
    cut_at: dict[int, str] = field(default_factory=dict)
    log: list[Message | int] = field(default_factory=list)
    """Messages, and the sizes of cuts: what a resumed run replays."""

    def add(self, *messages: Message) -> None:
        for message in messages:
            self.transcript.add(message)
            self.log.append(message)

    def request(self) -> None:
        if cut := self.transcript.due_cut(self.policy):
            self.cut_at[len(self.counts)] = cut.reason
            self.transcript.rebuild(self.policy, cut.chars)
            self.transcript.add_notice(NOTICE)
            self.log.append(cut.chars)
        request = encode(self.transcript.view)
        kept = kept_prefix(self.last, request)
        if kept < len(self.last):
            self.broken_at.append(len(self.counts))
        self.read_before += kept
        self.could_be += len(self.last)
        self.last = request
        self.counts.append(len(self.transcript.view))

    def run(self, turns: Iterable[list[Message]]) -> "Session":
        self.add(SYSTEM, TASK)
        for messages in turns:
            self.request()
            self.add(*messages)
        return self


def encode(messages: Iterable[Message]) -> bytes:
    """The messages as an OpenAI request has them, each encoded once."""
    parts: list[bytes] = []
    for message in messages:
        if "openai" not in message.wire:
            message.wire["openai"] = encode_message(message)
        parts.append(message.wire["openai"])
    return b",".join(parts)


def simulated(turns: int) -> Iterator[list[Message]]:
    """Turns of a session: mostly one call each, results from a line to 8,000 characters."""
    chance = random.Random(4)
    for turn in range(turns):
        numbers = range(chance.choice((1, 1, 1, 1, 2, 3)))
        calls = tuple(
            ToolCall(f"{turn}.{number}", "read_file", json.dumps({"path": f"src/{turn}.py"}))
            for number in numbers
        )
        reply = Message("assistant", "Next I look at this.", calls, reasoning="It may be here. " * 5)
        results = (
            Message("tool", "line\n" * chance.choice((5, 50, 200, 1_600)), call_id=call.id) for call in calls
        )
        yield [reply, *results]


def kept_prefix(earlier: bytes, later: bytes) -> int:
    """How many bytes two requests have in common at their beginning."""
    if later.startswith(earlier):
        return len(earlier)
    low, high = 0, min(len(earlier), len(later))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if earlier[:middle] == later[:middle] else (low, middle - 1)
    return low


@pytest.mark.parametrize(
    ("policy", "least_reused", "most_cuts"),
    [
        (ViewPolicy(), 1.0, 0),
        (ViewPolicy(history="tail", max_messages=40), 0.86, 45),
        (ViewPolicy(history="tail", max_messages=100), 0.94, 18),
        (ViewPolicy(truncate_chars=500), 0.98, 14),
        (ViewPolicy(truncate_chars=2_000), 0.99, 7),
        (ViewPolicy(history="tail", max_messages=40, truncate_chars=500), 0.77, 70),
    ],
    ids=["full", "tail 40", "tail 100", "truncate", "truncate less", "tail 40 and truncate"],
)
def test_a_long_session_is_mostly_read_once(policy: ViewPolicy, least_reused: float, most_cuts: int) -> None:
    session = Session(policy).run(simulated(TURNS))
    fraction = session.read_before / session.could_be
    print(f"{fraction:.1%} of the bytes reused, {len(session.cut_at)} cuts in {TURNS} turns")
    assert session.broken_at == list(session.cut_at)
    assert fraction >= least_reused
    assert len(session.cut_at) <= most_cuts


def test_the_real_session_is_mostly_read_once() -> None:
    session = Session(ViewPolicy(history="tail", max_messages=40)).run(as_turns(load_session()))
    fraction = session.read_before / session.could_be
    print(f"{fraction:.1%} of the bytes reused, {len(session.cut_at)} cuts in {len(session.counts)} turns")
    assert fraction >= 0.89
    assert max(session.counts) <= 40


def as_turns(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """One turn for each reply, with what followed it; what an abort left unanswered is not sent as it is."""
    turn: list[Message] = []
    for message in build_view(list(messages), ViewPolicy()):
        if message.role == "assistant" and turn:
            yield turn
            turn = []
        turn.append(message)
    yield turn


@pytest.mark.parametrize("max_messages", [5, 6, 7, 10, 40])
def test_no_request_has_more_messages_than_the_tail_may_have(max_messages: int) -> None:
    session = Session(ViewPolicy(history="tail", max_messages=max_messages)).run(simulated(60))
    assert max(session.counts) <= max_messages
    assert set(session.cut_at.values()) == {"tail"}


def test_a_short_tail_is_not_halved() -> None:
    transcript, policy = Transcript(), ViewPolicy(history="tail", max_messages=9)
    for message in (SYSTEM, TASK, *(message for turn in simulated(20) for message in turn)):
        transcript.add(message)
    transcript.rebuild(policy)
    assert 6 <= len(transcript.view) <= LEAST_TAIL
    transcript.rebuild(ViewPolicy(history="tail", max_messages=40))
    assert 18 <= len(transcript.view) <= 20


def test_a_tail_that_cannot_hold_the_least_is_cut_once_a_turn_and_no_more() -> None:
    policy = ViewPolicy(history="tail", max_messages=2)
    session = Session(policy).run(simulated(20))
    assert session.counts[2:] == [len([SYSTEM, TASK, *"rc", NOTICE])] * 18
    assert session.transcript.due_cut(policy) is not None
    session.request()
    assert session.transcript.due_cut(policy) is None


def test_old_results_stay_whole_until_shortening_them_frees_half_of_the_view() -> None:
    policy = ViewPolicy(truncate_chars=100, truncate_keep_last=1)
    session = Session(policy)
    for turn in simulated(60):
        session.add(*turn)
        session.request()
        view = session.transcript.view
        shortened = build_view([message for message in view if message is not NOTICE], policy)
        dispensable = sum(len(message.content) for message in view) - sum(
            len(message.content) for message in (*shortened, *(NOTICE for one in view if one is NOTICE))
        )
        assert dispensable <= WORTH_CUTTING * session.transcript.view_chars
    assert set(session.cut_at.values()) == {"truncate"}
    assert len(session.cut_at) <= 15


def test_results_are_shortened_however_little_that_saves() -> None:
    policy = ViewPolicy(truncate_chars=2_000, truncate_keep_last=1)
    session = Session(policy)
    session.add(SYSTEM, TASK)
    session.transcript.rebuild(policy)
    for number in range(300):
        call = ToolCall(f"{number}", "shell", "{}")
        session.add(Message("assistant", "", (call,)), Message("tool", "x" * 2_400, call_id=call.id))
        session.request()
    assert set(session.cut_at.values()) == {"truncate"}
    assert 2 <= len(session.cut_at) <= 6
    fresh = session.could_be - session.read_before
    assert fresh <= session.transcript.view_chars


def test_old_thinking_goes_at_a_cut_within_a_stage() -> None:
    for strips in (True, False):
        policy = ViewPolicy(truncate_chars=100, truncate_keep_last=1, strip_thinking=strips)
        session = Session(policy).run(simulated(3))
        while not session.cut_at or session.cut_at.keys() != {len(session.counts) - 1}:
            assert len(session.counts) < 30
            session.cut_at.clear()
            session.request()
            session.add(*next(iter(simulated(1))))
        *older, latest = [one for one in session.transcript.view if one.role == "assistant"][:-1]
        assert latest.reasoning
        assert {bool(one.reasoning) for one in older} == {not strips}


def test_a_view_is_measured_by_the_policy_that_is_asked_about() -> None:
    transcript = Transcript()
    for message in (SYSTEM, TASK, *(message for turn in simulated(20) for message in turn)):
        transcript.add(message)
    cuts = [transcript.due_cut(ViewPolicy(truncate_chars=limit)) for limit in (100_000, 10, 7_900, 10)]
    assert (cuts[0], cuts[2]) == (None, None)
    assert cuts[1] == cuts[3]
    assert cuts[1] is not None


def test_a_stage_entered_with_too_small_a_tail_is_not_cut_twice() -> None:
    policy = ViewPolicy(history="tail", max_messages=2)
    transcript = Transcript()
    for message in (SYSTEM, TASK, *(message for turn in simulated(5) for message in turn)):
        transcript.add(message)
    transcript.rebuild(policy)
    assert transcript.due_cut(policy) is None


def test_shortening_results_does_not_bring_back_what_was_cut_for_the_window() -> None:
    policy = ViewPolicy(truncate_chars=200, truncate_keep_last=0)
    session = Session(policy)
    session.add(SYSTEM, TASK, *(message for turn in simulated(30) for message in turn))
    session.transcript.rebuild(policy, 12_000)
    session.transcript.add_notice(NOTICE)
    oldest = session.transcript.view[2].calls[0].id
    while not session.cut_at:
        calls = (ToolCall(f"late.{len(session.log)}", "shell", "{}"),)
        session.add(Message("assistant", "", calls), Message("tool", "x" * 4_000, call_id=calls[0].id))
        session.request()
    assert set(session.cut_at.values()) == {"truncate"}
    asked = [call.id for message in session.transcript.messages for call in message.calls]
    assert asked.index(session.transcript.view[2].calls[0].id) >= asked.index(oldest)


policies = st.builds(
    ViewPolicy,
    history=st.sampled_from(["full", "tail"]),
    max_messages=st.integers(2, 24),
    keep_first=st.booleans(),
    strip_thinking=st.booleans(),
    truncate_chars=st.sampled_from([0, 100, 1_000]),
    truncate_keep_last=st.integers(0, 3),
)
steps = st.lists(st.sampled_from(["turn", "turn", "turn", "user", "system", "window", "stage"]), max_size=40)


@settings(max_examples=80)
@given(policies, steps)
def test_a_resumed_run_has_the_same_view(policy: ViewPolicy, steps: list[str]) -> None:
    session, turns = Session(policy), simulated(len(steps))
    session.add(SYSTEM, TASK)
    for step in steps:
        match step:
            case "turn":
                session.request()
                check_pairs(session.transcript.view)
                session.add(*next(turns))
            case "window":
                chars = session.transcript.view_chars // 2
                session.transcript.rebuild(policy, chars)
                session.transcript.add_notice(NOTICE)
                session.log.append(chars)
            case "stage":
                session.transcript.rebuild(policy)
                session.log.append(-1)
            case role:
                session.add(Message("user" if role == "user" else "system", f"a message by {role}"))
    resumed = Transcript()
    for entry in session.log:
        if isinstance(entry, Message):
            resumed.add(entry)
        elif entry < 0:
            resumed.rebuild(policy)
        else:
            resumed.rebuild(policy, entry)
            resumed.add_notice(NOTICE)
    assert resumed == session.transcript
    assert resumed.view_chars == size_of(resumed.view)
    assert resumed.due_cut(policy) == session.transcript.due_cut(policy)


@settings(max_examples=60)
@example(policy=ViewPolicy(history="tail", max_messages=2), turns=5, hints=2, max_chars=20_000)
@given(policies, st.integers(0, 40), st.integers(0, 3), st.none() | st.integers(0, 20_000))
def test_what_a_tail_does_not_look_at_makes_no_difference(
    policy: ViewPolicy, turns: int, hints: int, max_chars: int | None
) -> None:
    transcript = Transcript()
    for message in (SYSTEM, TASK, *(message for turn in simulated(turns) for message in turn)):
        transcript.add(message)
    for number in range(hints):
        transcript.add(Message("user", f"hint {number}"))
    transcript.rebuild(policy, max_chars)
    if len(transcript.messages) > policy.max_messages:
        most = policy.max_messages - (max_chars is not None)
        kept = max(policy.max_messages // 2, min(LEAST_TAIL, most))
        policy = policy.model_copy(update={"max_messages": kept})
    assert transcript.view == build_view(transcript.messages, policy, max_chars)


class CountedList(list[Message]):
    """A list that counts how many of its items are looked at."""

    looked_at = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.looked_at += len(found) if isinstance(key, slice) else 1
        return found

    def __iter__(self) -> Iterator[Message]:
        self.looked_at += len(self)
        return super().__iter__()


def test_a_turn_costs_what_is_new_and_not_all_that_was_said() -> None:
    session = Session(ViewPolicy(history="tail", max_messages=40))
    session.transcript.messages = said = CountedList()
    session.run([*turn, Message("user", "Go on.")] for turn in simulated(TURNS))
    assert len(said) > 800
    assert said.looked_at < 6 * len(said)

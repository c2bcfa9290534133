"""Compaction as data: its defaults, when it is due, and what it writes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headgate.core import (
    Compaction,
    CompactionAgent,
    Ending,
    Event,
    Flow,
    Message,
    Note,
    Stage,
    ToolCall,
    flow_as_written,
    fold,
)
from headgate.features.compaction import StageCompacted
from headgate.features.compaction.feature import due_stages
from headgate.features.compaction.summary import (
    CHAIN_CHARS,
    ERRORS_CHARS,
    StageRecord,
    chunk_texts,
    preserved_fields,
    read_answer_object,
    render_answer,
    summarise_stage,
)
from headgate.features.compaction.writer import SUMMARY_SCHEMA


def test_the_defaults() -> None:
    assert Compaction().model_dump() == {
        "enabled": True,
        "trigger": "on_complete",
        "threshold": 50_000,
        "batch_size": 3,
        "strategy": "moderate",
        "preserve": ("outputs", "decisions", "errors"),
        "agent": None,
    }
    assert Flow(name="f", stages=(Stage(id="a"),)).compaction is None


@pytest.mark.parametrize(
    ("written", "waiting", "chars", "due"),
    [
        ({}, ["a"], 0, ["a"]),
        ({}, ["a", "b"], 0, ["a", "b"]),
        ({"enabled": False}, ["a"], 10**6, []),
        ({"trigger": "on_threshold"}, ["a"], 50_000, []),
        ({"trigger": "on_threshold"}, ["a", "b"], 50_001, ["a", "b"]),
        ({"trigger": "on_threshold", "threshold": 10}, ["a"], 11, ["a"]),
        ({"trigger": "batch"}, ["a", "b"], 10**6, []),
        ({"trigger": "batch"}, ["a", "b", "c"], 0, ["a", "b", "c"]),
        ({"trigger": "batch", "batch_size": 1}, ["a"], 0, ["a"]),
        ({"trigger": "manual"}, ["a", "b", "c", "d"], 10**6, []),
    ],
)
def test_when_it_is_due(written: dict[str, Any], waiting: list[str], chars: int, due: list[str]) -> None:
    assert list(due_stages(Compaction.model_validate(written), waiting, chars)) == due


@pytest.mark.parametrize(
    "written",
    [
        {"trigger": "onComplete"},
        {"batch_size": 0},
        {"threshold": -1},
        {"strategy": "gentle"},
        {"preserve": ["thoughts"]},
        {"agent": {"output_schema": {}}},
        {"agent": {"output_schema": {"type": "array", "items": {}}}},
        {"agent": {"output_schema": {"type": "object", "properties": {}}}},
        {"agent": {"output_schema": {"type": "object", "properties": {"a": {}}, "required": ["b"]}}},
        {"agent": {"output_schema": {"type": "object", "properties": {"a": {}}, "required": "a"}}},
    ],
)
def test_what_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Compaction.model_validate(written)


def test_the_models_of_a_flow_include_the_one_for_summaries() -> None:
    stages = (Stage(id="a", model="big"), Stage(id="b"))
    compaction = Compaction(agent=CompactionAgent(model="cheap"))
    assert Flow(name="f", stages=stages).models == (None, "big")
    assert Flow(name="f", stages=stages, compaction=compaction).models == (None, "big", "cheap")


SAID = (
    Message("user", "Stage: LOOK\nLook at it."),
    Message(
        "assistant",
        "I will look.",
        (ToolCall("1", "read_file", '{"path":"a.py"}'), ToolCall("2", "shell", '{"command":"make"}')),
        reasoning="It may be\nin a.py.",
    ),
    Message("tool", "def a(): ...", call_id="1"),
    Message("tool", "make: *** No rule", call_id="2", failed=True),
    Message(
        "assistant", "", (ToolCall("3", "shell", '{"command":"make"}'), ToolCall("4", "edit", "{broken"))
    ),
    Message("tool", "make: *** No rule", call_id="3", failed=True),
    Message("tool", "That is no JSON.", call_id="4", failed=True),
)
RECORD = StageRecord(
    "LOOK",
    "completed",
    Note(
        summary="It is in a.py.",
        decisions=("Change a.py",),
        next_actions=("Change it",),
        risks=("No Makefile",),
        files_changed=("a.py", "b.py"),
        metadata={"lines": 3},
    ),
    ("a.py",),
    SAID,
)
OUTPUTS = [
    "Summary: It is in a.py.",
    "Files changed: a.py",
    "Files changed, as the stage said: b.py",
    'Data: {"lines": 3}',
]
DECISIONS = ["Decisions:", "- Change a.py", "Next:", "- Change it"]
ERRORS = ["Errors:", "- shell make: make: *** No rule", "- edit: That is no JSON.", "Risks:", "- No Makefile"]
CHAIN = [
    "What happened:",
    "told: Stage: LOOK Look at it.",
    "thought: It may be in a.py.",
    "said: I will look.",
    'called read_file {"path":"a.py"}',
    'called shell {"command":"make"}',
    "  result: def a(): ...",
    "  failed: make: *** No rule",
    'called shell {"command":"make"}',
    "called edit {broken",
    "  failed: make: *** No rule",
    "  failed: That is no JSON.",
]
FIRST = "Task LOOK completed: success"


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ({"strategy": "aggressive"}, [FIRST]),
        ({}, [FIRST, *OUTPUTS, *DECISIONS, *ERRORS]),
        ({"preserve": ["errors", "outputs"]}, [FIRST, *OUTPUTS, *ERRORS]),
        ({"preserve": ["decisions"]}, [FIRST, *DECISIONS]),
        ({"preserve": []}, [FIRST]),
        ({"strategy": "comprehensive"}, [FIRST, *OUTPUTS, *DECISIONS, *ERRORS, *CHAIN]),
        ({"strategy": "comprehensive", "preserve": []}, [FIRST, *CHAIN]),
    ],
)
def test_what_each_strategy_writes(written: dict[str, Any], lines: list[str]) -> None:
    assert summarise_stage(RECORD, Compaction.model_validate(written)).split("\n") == lines


@pytest.mark.parametrize(
    ("ending", "how"),
    [("completed", "success"), ("exhausted", "failure"), ("failed", "failure"), ("skipped", "failure")],
)
def test_how_a_stage_ended(ending: Ending, how: str) -> None:
    record = StageRecord("X", ending)
    assert summarise_stage(record, Compaction(strategy="aggressive")) == f"Task X completed: {how}"


def test_what_the_runtime_did_not_accept_is_marked() -> None:
    record = StageRecord("X", "failed", Note(summary="All done.", accepted=False))
    assert "Summary (the runtime did not accept this): All done." in summarise_stage(record, Compaction())


def test_many_and_long_messages_are_shortened_alike() -> None:
    calls = [ToolCall(str(n), "shell", json.dumps({"command": f"try {n}"})) for n in range(300)]
    said = [
        message
        for call in calls
        for message in (
            Message("assistant", "", (call,), reasoning="Because. " * 1_000),
            Message("tool", f"{call.id} " + "broken " * 1_000, call_id=call.id, failed=True),
        )
    ]
    record = StageRecord("X", "failed", messages=said)
    moderate = summarise_stage(record, Compaction())
    comprehensive = summarise_stage(record, Compaction(strategy="comprehensive"))
    assert len(moderate) <= ERRORS_CHARS + 3 * 300 + 100
    assert len(comprehensive) <= len(moderate) + CHAIN_CHARS + 100
    assert all(f"shell try {call.id}" in moderate for call in calls)
    assert comprehensive.count("thought: Because.") == 300


# What a model that writes summaries is sent, and what it answers.


@given(st.lists(st.text(max_size=60)), st.integers(1, 40))
def test_chunks_hold_everything_and_fit(texts: list[str], room: int) -> None:
    chunks = chunk_texts(texts, room)
    assert all(0 < len(chunk) <= room for chunk in chunks)
    whole, kept = "".join(texts), "".join(chunks)
    assert kept.replace("\n", "") == whole.replace("\n", "")


FULL = {"summary": "s", "key_outputs": ["o"], "decisions": [], "errors": ["e"]}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (json.dumps(FULL), FULL),
        (f"Here:\n```json\n{json.dumps(FULL, indent=2)}\n```", FULL),
        (json.dumps({**FULL, "mood": "good"}), FULL),
        ("", None),
        ("no", None),
        ("}{", None),
        ("{" * 100_000 + "}", None),
        ("[1]", None),
        (json.dumps({"summary": "s"}), None),
        (json.dumps({**FULL, "summary": 1}), None),
        (json.dumps({**FULL, "errors": "e"}), None),
        (json.dumps({**FULL, "errors": [1]}), None),
        (json.dumps(FULL)[:-3], None),
    ],
)
def test_answers_are_read(text: str, answer: dict[str, Any] | None) -> None:
    assert read_answer_object(text, SUMMARY_SCHEMA) == answer


def test_answers_are_rendered() -> None:
    assert render_answer(FULL) == "Summary: s\nKey outputs:\n- o\nErrors:\n- e"
    assert render_answer({"n": 3, "list": [{"a": 1}], "none": None}) == 'N: 3\nList:\n- {"a": 1}'
    kept = preserved_fields({**FULL, "mood": "good"}, Compaction(preserve=("errors",)))
    assert kept == {"summary": "s", "errors": ["e"], "mood": "good"}


def test_what_it_cost_counts() -> None:
    body = StageCompacted(
        stage="a",
        start=2,
        end=5,
        strategy="agent",
        chars_before=100,
        chars_after=10,
        requests=3,
        prompt_tokens=30,
        completion_tokens=5,
        cached_tokens=1,
        cost=0.5,
    )
    state = fold([Event(1, "t", "a", 1, 0.0, body)])
    assert (state.accounts.requests, state.accounts.replies, state.accounts.cost) == (3, 0, 0.5)
    assert (state.accounts.usage.prompt, state.accounts.usage.completion, state.accounts.usage.cached) == (
        30,
        5,
        1,
    )


@pytest.mark.parametrize(
    "compaction", [Compaction(), Compaction(strategy="aggressive", agent=CompactionAgent(model="cheap"))]
)
def test_a_flow_file_can_say_it(compaction: Compaction) -> None:
    flow = Flow(name="f", stages=(Stage(id="a"),), compaction=compaction)
    assert Flow.model_validate(flow_as_written(flow)) == flow
    assert Flow.model_validate_json(flow.model_dump_json()) == flow

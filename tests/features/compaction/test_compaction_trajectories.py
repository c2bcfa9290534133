"""Compaction of a session that really happened: nothing that its record states is lost."""

import pytest
from session_records import split_session

from headgate.core import (
    Compaction,
    Strategy,
    size_of,
)
from headgate.features.compaction.summary import StageRecord, summarise_stage
from views import load_session


@pytest.fixture(scope="module")
def records() -> list[StageRecord]:
    return split_session(load_session())


def test_the_session_has_what_is_looked_for(records: list[StageRecord]) -> None:
    decisions = sum(len(record.note.decisions) for record in records)
    errors = sum(message.failed for record in records for message in record.messages)
    files = {name for record in records for name in record.files_changed}
    assert (len(records), decisions, errors, len(files)) == (88, 167, 19, 23)


@pytest.mark.parametrize("strategy", ["moderate", "comprehensive"])
def test_what_the_record_states_survives(records: list[StageRecord], strategy: Strategy) -> None:
    for record in records:
        text = summarise_stage(record, Compaction(strategy=strategy))
        assert all(decision in text for decision in record.note.decisions)
        assert all(name in text for name in record.files_changed)
        assert record.note.summary in text
        for message in record.messages:
            if message.failed:
                answer = " ".join(message.content.split())
                assert answer[:150] in text
                assert answer[-150:] in text


def test_comprehensive_keeps_every_thought_and_call(records: list[StageRecord]) -> None:
    for record in records:
        text = summarise_stage(record, Compaction(strategy="comprehensive"))
        calls = [call for message in record.messages for call in message.calls]
        assert text.count("\ncalled ") == len(calls)
        thoughts = [message.reasoning for message in record.messages if message.reasoning.strip()]
        assert text.count("\nthought: ") == len(thoughts)
        assert all(" ".join(thought.split())[:80] in text for thought in thoughts)


def test_each_strategy_is_shorter_than_the_next(records: list[StageRecord]) -> None:
    before = sum(size_of(record.messages) for record in records)
    after = {
        strategy: sum(len(summarise_stage(record, Compaction(strategy=strategy))) for record in records)
        for strategy in ("aggressive", "moderate", "comprehensive")
    }
    assert 0 < after["aggressive"] < after["moderate"] < after["comprehensive"] < before / 2
    assert after["aggressive"] < before / 100
    assert after["moderate"] < before / 5

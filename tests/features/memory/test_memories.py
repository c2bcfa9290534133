"""Memories in the store: no text twice, found by any of their words, gone when forgotten."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.errors import StoreError, ToolFailed
from headgate.features.memory import (
    MOST_MEMORIES,
    Memories,
    Memory,
    clean_tags,
    normal_form,
    search_memories,
    words_of,
)
from headgate.log import Store

TEXTS = st.text(max_size=60).filter(words_of)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "headgate.db")
    yield store
    store.close()


def memory(number: int, text: str, *tags: str) -> Memory:
    return Memory(f"m{number}", text, tags, "t1", 0.0)


def memories_of(store: Store) -> Memories:
    return Memories(store)


def found(query: str, *memories: Memory) -> list[str]:
    return [each.id for each in search_memories(memories, query)]


def test_a_text_is_saved_and_found_by_another_process(store: Store) -> None:
    memories_of(store).save("The parser lives in src/parse.py.", ("layout",), "t1", 5.0)
    with closing(Store(store.path)) as other:
        expected = Memory("m1", "The parser lives in src/parse.py.", ("layout",), "t1", 5.0)
        assert memories_of(other).all() == [expected]
        assert search_memories(memories_of(other).all(), "parsers") == [expected]


def test_the_same_text_is_kept_once_and_tags_are_merged(store: Store) -> None:
    first = memories_of(store).save("Use  Tabs.", ("style",), "t1", 1.0)
    again = memories_of(store).save("use tabs.\n", ("style", "makefile"), "t2", 2.0)
    assert (first.is_new, again.is_new, again.added_tags) == (True, False, ("makefile",))
    assert memories_of(store).all() == [Memory("m1", "Use  Tabs.", ("style", "makefile"), "t1", 1.0)]
    assert memories_of(store).save("use tabs.", (), "t3", 3.0).added_tags == ()


def test_an_earlier_memory_gets_no_more_tags_than_there_may_be(store: Store) -> None:
    memories_of(store).save("x", [f"a{number}" for number in range(8)], "t1", 1.0)
    saved = memories_of(store).save("x", [f"b{number}" for number in range(8)], "t1", 1.0)
    assert saved.added_tags == ("b0", "b1")


def test_a_full_store_refuses_and_drops_nothing(store: Store) -> None:
    with closing(sqlite3.connect(store.path)) as db, db:
        rows = [(f"k{number}", f"word {number}") for number in range(MOST_MEMORIES)]
        db.executemany("INSERT INTO memories (key, text, tags, task, at) VALUES (?, ?, '', 't1', 0)", rows)
    with pytest.raises(ToolFailed, match="1,000 memories already"):
        memories_of(store).save("one more", (), "t1", 1.0)
    assert len(memories_of(store).all()) == MOST_MEMORIES
    assert memories_of(store).forget("m1") == 1
    assert memories_of(store).save("one more", (), "t1", 1.0).memory.id == f"m{MOST_MEMORIES + 1}"


@pytest.mark.parametrize("name", ["m2", "m", "", "x1", "m-1", "m1 OR 1", "m" + "9" * 30, "m１"])
def test_forgetting_what_is_not_there(store: Store, name: str) -> None:
    memories_of(store).save("kept", (), "t1", 0.0)
    assert memories_of(store).forget(name) == 0
    assert len(memories_of(store).all()) == 1


def test_what_is_forgotten_is_gone_from_the_file(store: Store) -> None:
    memories_of(store).save("a rather unusual sentence", (), "t1", 0.0)
    memories_of(store).save("another one", (), "t1", 0.0)
    assert memories_of(store).forget("M1") == 1
    assert memories_of(store).forget(None) == 1
    store.close()
    assert all(b"unusual" not in path.read_bytes() for path in store.path.parent.iterdir())


def test_a_memory_with_values_of_a_wrong_type_is_damage(store: Store) -> None:
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("INSERT INTO memories (key, text, tags, task, at) VALUES ('k', x'00ff', '', 't1', 0)")
    with pytest.raises(StoreError, match="memory m1"):
        memories_of(store).all()


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("parser", ["m1"]),
        ("PARSERS", ["m1"]),
        ("testing", ["m2"]),
        ("slow", ["m2"]),
        ("parse_date", ["m3", "m1"]),
        ("date OR nothing", ["m3"]),
        ("解析", ["m4"]),
        ("cafe", ["m5"]),
        ("unheard", []),
        ("", []),
        ('"', []),
        ("*", []),
        ("a b c d e f", []),
    ],
)
def test_what_a_query_finds(query: str, ids: list[str]) -> None:
    memories = [
        memory(1, "The parser is generated."),
        memory(2, "Run the tests with -x.", "slow"),
        memory(3, "parse_date raises ValueError."),
        memory(4, "日期解析在这里"),
        memory(5, "The café module"),
    ]
    assert found(query, *memories) == ids


def test_better_matches_come_first_and_tags_count_more() -> None:
    often = memory(1, "cache cache cache: the cache of the cache")
    once = memory(
        2, "Among many other things that are said in this long text there is also a cache somewhere."
    )
    tagged = memory(3, "It is cleared at the start of each run, and nobody has to know.", "cache")
    assert found("cache", once, often, tagged)[-1] == "m2"
    assert found("cache start", once, often, tagged)[0] == "m3"


@given(st.text(max_size=200))
@settings(max_examples=80, deadline=None)
def test_any_query_is_only_words(query: str) -> None:
    assert set(found(query, memory(1, "one two"), memory(2, "three"))) <= {"m1", "m2"}


@given(TEXTS, st.data())
@settings(max_examples=80, deadline=None)
def test_any_text_is_found_by_its_own_words(text: str, data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(words_of(text)))
    assert "m2" in found(word, memory(1, "something else"), memory(2, text))


@given(st.lists(TEXTS, max_size=8), st.lists(st.text(max_size=5), max_size=3))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_is_there_twice(tmp_path: Path, texts: list[str], tags: list[str]) -> None:
    path = tmp_path / "any.db"
    with closing(Store(path)) as store:
        memories_of(store).forget(None)
        for text in texts:
            memories_of(store).save(text, clean_tags(tags), "t1", 0.0)
        kept = [each.text for each in memories_of(store).all()]
        assert len({normal_form(text) for text in kept}) == len(kept)
        assert {normal_form(text) for text in kept} == {normal_form(text) for text in texts}

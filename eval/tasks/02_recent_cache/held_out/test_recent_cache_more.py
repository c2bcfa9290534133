import pytest

from recent_cache import RecentCache


def filled(capacity, keys):
    cache = RecentCache(capacity)
    for key in keys:
        cache.put(key, key.upper())
    return cache


@pytest.mark.parametrize(
    ("read", "order"),
    [
        ("a", "bcda"),
        ("b", "acdb"),
        ("d", "abcd"),
        ("ab", "cdab"),
        ("ba", "cdba"),
        ("aba", "cdba"),
        ("dcba", "dcba"),
    ],
)
def test_order_after_reads(read, order):
    cache = filled(4, "abcd")
    for key in read:
        assert cache.get(key) == key.upper()
    assert cache.keys() == list(order)


def test_reads_and_writes_take_turns():
    cache = filled(3, "abc")
    cache.get("a")
    cache.put("d", "D")
    assert cache.keys() == ["c", "a", "d"]
    cache.get("c")
    cache.put("a", "again")
    cache.put("e", "E")
    assert cache.keys() == ["c", "a", "e"]
    assert cache.get("a") == "again"


@pytest.mark.parametrize("value", [None, 0, "", []])
def test_reading_an_empty_value_is_a_use_too(value):
    cache = RecentCache(2)
    cache.put("a", value)
    cache.put("b", 1)
    assert cache.get("a", "default") == value
    assert cache.get_or_make("a", lambda: "made") == value
    cache.put("c", 1)
    assert cache.keys() == ["a", "c"]
    assert (cache.hits, cache.misses) == (2, 0)


def test_reading_what_is_missing_changes_no_order():
    cache = filled(3, "abc")
    assert cache.get("z") is None
    assert cache.get("z", 7) == 7
    assert cache.keys() == ["a", "b", "c"]
    assert (cache.hits, cache.misses) == (0, 2)
    assert "z" not in cache


def test_made_value_counts_a_miss_and_then_a_hit():
    cache = filled(2, "ab")
    assert cache.get_or_make("c", lambda: 3) == 3
    assert cache.get_or_make("b", lambda: "unused") == "B"
    assert cache.keys() == ["c", "b"]
    assert (cache.hits, cache.misses) == (1, 1)


def test_room_for_one_entry():
    cache = filled(1, "ab")
    assert cache.get("b") == "B"
    cache.put("c", "C")
    assert cache.keys() == ["c"]
    assert len(cache) == 1


def test_capacity_is_positive():
    with pytest.raises(ValueError):
        RecentCache(0)

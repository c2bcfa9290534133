from recent_cache import RecentCache


def filled(capacity, keys):
    cache = RecentCache(capacity)
    for key in keys:
        cache.put(key, key.upper())
    return cache


def test_returns_what_was_stored():
    assert filled(2, "ab").get("a") == "A"


def test_counts_hits_and_misses():
    cache = filled(2, "ab")
    cache.get("a")
    cache.get("z")
    assert (cache.hits, cache.misses) == (1, 1)


def test_oldest_entry_is_evicted():
    assert filled(2, "abc").keys() == ["b", "c"]


def test_storing_again_is_a_use():
    cache = filled(2, "ab")
    cache.put("a", "new")
    cache.put("c", "C")
    assert cache.keys() == ["a", "c"]


def test_reading_is_a_use():
    cache = filled(3, "abc")
    assert cache.get("a") == "A"
    assert cache.keys() == ["b", "c", "a"]


def test_entry_just_read_survives_eviction():
    cache = filled(2, "ab")
    cache.get_or_make("a", lambda: "unused")
    cache.put("c", "C")
    assert "a" in cache
    assert "b" not in cache


def test_missing_value_is_made_once():
    cache = RecentCache(2)
    assert cache.get_or_make("k", lambda: 1) == 1
    assert cache.get_or_make("k", lambda: 2) == 1

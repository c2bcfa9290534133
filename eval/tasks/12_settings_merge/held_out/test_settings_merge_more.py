import pytest

from settings_merge import Merge, describe, merge


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "settings"),
    [
        ({"a": 1}, {}, {"a": 1}, {}),
        ({"a": 1}, {"a": 1}, {}, {}),
        ({"a": 1, "b": 2}, {}, {}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": 2}, {}),
        ({"a": 1, "b": 2, "c": 3}, {"a": 9, "b": 2}, {"a": 1, "c": 3}, {"a": 9}),
        ({"a": None, "b": 1}, {"b": 1}, {"a": None, "b": 1}, {"b": 1}),
        ({"a": 0, "b": ""}, {"a": 0, "b": ""}, {"b": ""}, {"b": ""}),
        ({"a": 1}, {"b": 5}, {"a": 1, "c": 6}, {"b": 5, "c": 6}),
    ],
)
def test_deletions_that_are_no_conflict(base, ours, theirs, settings):
    assert merge(base, ours, theirs) == Merge(settings, [])


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "settings"),
    [
        ({"a": 1}, {}, {"a": 2}, {}),
        ({"a": 1}, {"a": 2}, {}, {"a": 2}),
        ({"a": 1}, {"a": None}, {}, {"a": None}),
        ({"a": 1}, {}, {"a": None}, {}),
        ({}, {"a": 1}, {"a": 2}, {"a": 1}),
    ],
)
def test_deletions_and_additions_that_are_a_conflict(base, ours, theirs, settings):
    assert merge(base, ours, theirs) == Merge(settings, ["a"])


@pytest.mark.parametrize("empty", [None, 0, False, "", []])
def test_empty_value_is_not_a_deletion(empty):
    assert merge({"a": 1}, {"a": empty}, {"a": 1}) == Merge({"a": empty}, [])
    assert merge({"a": 1}, {"a": 1}, {"a": empty}) == Merge({"a": empty}, [])
    assert merge({}, {}, {"new": empty}) == Merge({"new": empty}, [])
    assert merge({"a": empty}, {"a": empty}, {"a": empty}) == Merge({"a": empty}, [])


def test_several_conflicts_beside_other_changes():
    base = {"a": 1, "b": 2, "c": 3, "d": 4}
    merged = merge(base, {"b": 20, "c": 3, "d": 4}, {"a": 10, "c": 3, "e": 5})
    assert sorted(merged.conflicts) == ["a", "b"]
    assert merged.settings == {"b": 20, "c": 3, "e": 5}


def test_inputs_are_left_alone():
    base, ours, theirs = {"a": 1, "b": 2}, {"a": 1}, {"b": 3}
    merge(base, ours, theirs)
    assert (base, ours, theirs) == ({"a": 1, "b": 2}, {"a": 1}, {"b": 3})


def test_deleted_settings_are_not_counted():
    assert describe(merge({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2})) == "1 settings merged"
    assert (
        describe(merge({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 3})) == "1 settings merged, in conflict: b"
    )


def test_nothing_at_all():
    assert merge({}, {}, {}) == Merge({}, [])

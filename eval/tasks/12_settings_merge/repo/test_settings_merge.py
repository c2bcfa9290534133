from settings_merge import Merge, describe, merge

BASE = {"color": "red", "size": 10}


def test_no_changes():
    assert merge(BASE, BASE, BASE) == Merge(BASE, [])


def test_changes_of_both_sides():
    ours = {"color": "blue", "size": 10}
    theirs = {"color": "red", "size": 12, "font": "mono"}
    assert merge(BASE, ours, theirs) == Merge({"color": "blue", "font": "mono", "size": 12}, [])


def test_same_change_is_no_conflict():
    assert merge(BASE, {**BASE, "size": 11}, {**BASE, "size": 11}).conflicts == []


def test_different_changes_are_a_conflict():
    merged = merge(BASE, {**BASE, "size": 11}, {**BASE, "size": 12})
    assert merged == Merge({"color": "red", "size": 11}, ["size"])


def test_deleted_by_one_side():
    assert merge(BASE, {"color": "red"}, BASE) == Merge({"color": "red"}, [])
    assert merge(BASE, BASE, {"size": 10}) == Merge({"size": 10}, [])


def test_deleted_by_us_and_changed_by_them():
    merged = merge(BASE, {"color": "red"}, {"color": "red", "size": 99})
    assert merged == Merge({"color": "red"}, ["size"])


def test_description_names_conflicts():
    assert describe(Merge({"a": 1}, ["a"])) == "1 settings merged, in conflict: a"

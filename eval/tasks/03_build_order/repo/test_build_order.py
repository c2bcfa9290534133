import pytest

from build_order import CycleError, build_order, build_steps


def test_nothing_to_build():
    assert build_order({}) == []


def test_needed_targets_come_first():
    assert build_order({"app": ["lib"], "lib": ["core"]}) == ["core", "lib", "app"]


def test_free_choice_is_alphabetical():
    assert build_order({"z": [], "a": [], "m": ["z"]}) == ["a", "z", "m"]


def test_target_that_needs_itself():
    with pytest.raises(CycleError):
        build_order({"a": ["a"]})


def test_circle_of_two_targets():
    with pytest.raises(CycleError):
        build_order({"a": ["b"], "b": ["a"]})


def test_circle_is_named_and_the_rest_is_not():
    with pytest.raises(CycleError) as caught:
        build_order({"core": [], "x": ["y", "core"], "y": ["z"], "z": ["x"]})
    assert caught.value.targets == ["x", "y", "z"]


def test_steps_for_one_goal():
    needs = {"app": ["lib"], "docs": ["lib"], "lib": ["core"]}
    assert build_steps(needs, "docs") == ["core", "lib", "docs"]

import pytest

from build_order import CycleError, build_order, build_steps

CIRCLES = [
    {"a": ["b"], "b": ["c"], "c": ["a"]},
    {"d": ["a"], "c": ["d"], "b": ["c"], "a": ["b"]},
    {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]},
    {"a": ["b", "c"], "b": ["a"], "c": ["a"]},
]


@pytest.mark.parametrize("needs", CIRCLES)
def test_circles_of_several_targets(needs):
    with pytest.raises(CycleError) as caught:
        build_order(needs)
    assert caught.value.targets == sorted(needs)


def test_targets_outside_the_circle_do_not_hide_it():
    with pytest.raises(CycleError) as caught:
        build_order({"a": ["b", "p", "q"], "b": ["a", "r"]})
    assert caught.value.targets == ["a", "b"]


def test_circle_behind_many_good_targets():
    needs = {f"t{n:02d}": [f"t{n - 1:02d}"] for n in range(1, 30)}
    with pytest.raises(CycleError) as caught:
        build_order({**needs, "x": ["y", "t29"], "y": ["x"]})
    assert caught.value.targets == ["x", "y"]


def test_target_that_needs_a_circle():
    with pytest.raises(CycleError) as caught:
        build_order({"app": ["a", "core"], "a": ["b"], "b": ["a"]})
    assert {"a", "b"} <= set(caught.value.targets)
    assert "core" not in caught.value.targets


def test_target_that_needs_itself_among_others():
    with pytest.raises(CycleError) as caught:
        build_order({"a": [], "b": ["a", "b"]})
    assert caught.value.targets == ["b"]


def test_no_steps_for_a_goal_in_a_circle():
    with pytest.raises(CycleError):
        build_steps({"a": ["b"], "b": ["a", "c"]}, "a")


@pytest.mark.parametrize(
    ("needs", "order"),
    [
        ({"top": ["left", "right"], "left": ["base"], "right": ["base"]}, ["base", "left", "right", "top"]),
        ({"a": []}, ["a"]),
        ({"a": ["z"], "b": ["z"]}, ["z", "a", "b"]),
        ({"a": ["b", "b"]}, ["b", "a"]),
        ({"a": ("c",), "b": {"a", "c"}}, ["c", "a", "b"]),
    ],
)
def test_plans_without_a_circle(needs, order):
    assert build_order(needs) == order


def test_what_was_passed_in_is_left_alone():
    needs = {"a": {"b"}, "b": {"c"}}
    assert build_order(needs) == build_order(needs) == ["c", "b", "a"]
    assert needs == {"a": {"b"}, "b": {"c"}}


def test_circle_is_a_value_error():
    with pytest.raises(ValueError):
        build_order({"a": ["b"], "b": ["a"]})

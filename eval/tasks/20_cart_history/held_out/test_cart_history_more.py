import pytest

from cart_history import CartHistory
from event_fold import EventError, empty_cart, fold

EVENTS = [
    ("add", "tea"),
    ("coupon", "SPRING"),
    ("add", "cup"),
    ("add", "tea"),
    ("remove", "cup"),
    ("add", "pot"),
    ("coupon", None),
]
STATES = [
    {"items": {}, "coupon": None},
    {"items": {"tea": 1}, "coupon": None},
    {"items": {"tea": 1}, "coupon": "SPRING"},
    {"items": {"tea": 1, "cup": 1}, "coupon": "SPRING"},
    {"items": {"tea": 2, "cup": 1}, "coupon": "SPRING"},
    {"items": {"tea": 2}, "coupon": "SPRING"},
    {"items": {"tea": 2, "pot": 1}, "coupon": "SPRING"},
    {"items": {"tea": 2, "pot": 1}, "coupon": None},
]
FORWARD = list(range(len(STATES)))


@pytest.mark.parametrize("every", [1, 2, 3, 5, 7, 20])
def test_every_position_in_any_order(every):
    for positions in (FORWARD, FORWARD[::-1], [3, 3, 0, 7, 1, 1, 6, 2, 6, 0]):
        history = CartHistory(EVENTS, every)
        assert [history.at(position) for position in positions] == [
            STATES[position] for position in positions
        ]


@pytest.mark.parametrize("every", [1, 3, 10])
def test_earlier_answers_stay_as_they_were(every):
    history = CartHistory(EVENTS, every)
    answers = [history.items_at(position) for position in FORWARD]
    assert answers == [state["items"] for state in STATES]


@pytest.mark.parametrize(
    "events", [[], [("add", "tea")], [("remove", "tea")], [("coupon", "NEW"), ("add", "cup"), ("add", "cup")]]
)
def test_start_is_not_changed(events):
    start = {"items": {"tea": 1, "pot": 2}, "coupon": "OLD"}
    fold(events, start)
    assert start == {"items": {"tea": 1, "pot": 2}, "coupon": "OLD"}


def test_start_is_part_of_the_result():
    start = {"items": {"tea": 1}, "coupon": "OLD"}
    assert fold([], start) == start
    assert fold([("add", "cup")], start) == {"items": {"tea": 1, "cup": 1}, "coupon": "OLD"}
    assert fold([("remove", "tea")], start) == {"items": {}, "coupon": "OLD"}


def test_results_are_the_start_of_others():
    first = fold([("add", "tea")], empty_cart())
    second = fold([("add", "cup")], first)
    third = fold([("remove", "tea")], first)
    assert [state["items"] for state in (first, second, third)] == [{"tea": 1}, {"tea": 1, "cup": 1}, {}]


@pytest.mark.parametrize("bad", [("remove", "cup"), ("steal", "tea")])
def test_failing_event_leaves_the_start_alone(bad):
    start = {"items": {"tea": 1}, "coupon": None}
    with pytest.raises(EventError):
        fold([("add", "tea"), bad], start)
    assert start == {"items": {"tea": 1}, "coupon": None}


@pytest.mark.parametrize("position", [-1, 8])
def test_positions_outside(position):
    with pytest.raises(IndexError):
        CartHistory(EVENTS).at(position)


def test_history_without_events():
    assert CartHistory([]).at(0) == empty_cart()

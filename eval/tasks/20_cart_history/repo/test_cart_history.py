import pytest

from cart_history import CartHistory
from event_fold import EventError, empty_cart, fold

EVENTS = [("add", "tea"), ("add", "tea"), ("add", "cup"), ("coupon", "SPRING"), ("remove", "tea")]


def test_all_events_in_order():
    assert fold(EVENTS, empty_cart()) == {"items": {"tea": 1, "cup": 1}, "coupon": "SPRING"}


def test_start_is_not_changed():
    start = {"items": {"tea": 1}, "coupon": None}
    assert fold([("add", "tea")], start)["items"] == {"tea": 2}
    assert start == {"items": {"tea": 1}, "coupon": None}


def test_coupon_of_the_start_is_kept():
    start = {"items": {}, "coupon": "OLD"}
    fold([("coupon", "NEW")], start)
    assert start["coupon"] == "OLD"


def test_same_position_twice():
    history = CartHistory(EVENTS, every=10)
    assert history.items_at(3) == {"tea": 2, "cup": 1}
    assert history.items_at(3) == {"tea": 2, "cup": 1}


def test_earlier_position_between_stored_states():
    assert CartHistory(EVENTS, every=2).items_at(1) == {"tea": 1}


def test_position_after_the_end():
    with pytest.raises(IndexError, match="no position 6"):
        CartHistory(EVENTS, every=10).at(6)


def test_removing_what_is_not_there():
    with pytest.raises(EventError, match="cup is not in the cart"):
        fold([("remove", "cup")], empty_cart())

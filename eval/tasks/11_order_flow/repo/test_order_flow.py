import pytest

from order_flow import FlowError, Order


def test_allowed_change():
    order = Order(1)
    order.change("paid")
    assert order.status == "paid"
    assert order.history == ["new", "paid"]


def test_refused_change_raises():
    with pytest.raises(FlowError, match="order 7 cannot go from new to shipped"):
        Order(7).change("shipped")


def test_refused_change_leaves_the_order_alone():
    order = Order(1)
    with pytest.raises(FlowError):
        order.change("shipped")
    assert order.status == "new"
    assert order.history == ["new"]


def test_unknown_status():
    with pytest.raises(FlowError, match="unknown status: lost"):
        Order(1).change("lost")


def test_whole_way():
    order = Order(1)
    assert order.run(["paid", "packed", "shipped", "delivered"]) == 4
    assert order.finished


def test_run_stops_at_the_last_good_status():
    order = Order(1)
    assert order.run(["paid", "delivered", "packed"]) == 1
    assert order.status == "paid"
    assert not order.finished

import pytest

from order_flow import ALLOWED, FlowError, Order

WAYS = {
    "new": [],
    "paid": ["paid"],
    "packed": ["paid", "packed"],
    "shipped": ["paid", "packed", "shipped"],
    "delivered": ["paid", "packed", "shipped", "delivered"],
    "cancelled": ["cancelled"],
    "refunded": ["paid", "refunded"],
}


def order_at(status):
    order = Order(3)
    for step in WAYS[status]:
        order.change(step)
    return order


@pytest.mark.parametrize("status", WAYS)
def test_refused_changes_leave_everything_as_it_was(status):
    order = order_at(status)
    for wanted in [*(set(WAYS) - ALLOWED[status]), "lost", ""]:
        with pytest.raises(FlowError):
            order.change(wanted)
        assert order.status == status
        assert order.history == ["new", *WAYS[status]]


@pytest.mark.parametrize("status", WAYS)
def test_allowed_changes_are_made_and_kept(status):
    for wanted in ALLOWED[status]:
        order = order_at(status)
        order.change(wanted)
        assert order.status == wanted
        assert order.history == ["new", *WAYS[status], wanted]


def test_order_goes_on_after_a_refusal():
    order = Order(1)
    with pytest.raises(FlowError):
        order.change("delivered")
    order.change("paid")
    with pytest.raises(FlowError):
        order.change("delivered")
    order.change("packed")
    assert order.history == ["new", "paid", "packed"]
    assert not order.finished


@pytest.mark.parametrize(
    ("statuses", "taken", "history"),
    [
        ([], 0, ["new"]),
        (["packed", "paid"], 0, ["new"]),
        (["paid", "packed", "delivered", "shipped"], 2, ["new", "paid", "packed"]),
        (["cancelled", "paid"], 1, ["new", "cancelled"]),
        (["paid", "lost", "packed"], 1, ["new", "paid"]),
    ],
)
def test_run_stops_where_it_is_refused(statuses, taken, history):
    order = Order(1)
    assert order.run(statuses) == taken
    assert order.history == history
    assert order.status == history[-1]


def test_run_can_be_taken_up_again():
    order = Order(1)
    assert order.run(["paid", "shipped"]) == 1
    assert order.run(["packed", "shipped", "delivered"]) == 3
    assert order.finished


def test_orders_do_not_share_their_history():
    first, second = Order(1), Order(2)
    first.run(["paid", "new"])
    assert (second.status, second.history) == ("new", ["new"])

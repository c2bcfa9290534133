"""Events of a shopping cart and the state that follows from them."""

import copy
from collections.abc import Iterable
from typing import Any

Event = tuple[str, Any]
State = dict[str, Any]


class EventError(ValueError):
    """An event makes no sense."""


def empty_cart() -> State:
    """Return the state of a new cart."""
    return {"items": {}, "coupon": None}


def apply(state: State, event: Event) -> None:
    """Change a state as one event says."""
    kind, value = event
    items = state["items"]
    if kind == "add":
        items[value] = items.get(value, 0) + 1
    elif kind == "remove":
        if value not in items:
            raise EventError(f"{value} is not in the cart")
        items[value] -= 1
        if items[value] == 0:
            del items[value]
    elif kind == "coupon":
        state["coupon"] = value
    else:
        raise EventError(f"unknown event: {kind}")


def fold(events: Iterable[Event], start: State) -> State:
    """Return the state after some events; the state `start` is not changed."""
    state = copy.copy(start)
    for event in events:
        apply(state, event)
    return state

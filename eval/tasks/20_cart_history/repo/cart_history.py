"""The contents of a shopping cart at any moment, from the log of its events."""

from event_fold import Event, State, empty_cart, fold


class CartHistory:
    """A log of events with a stored state after every few of them."""

    def __init__(self, events: list[Event], every: int = 2) -> None:
        self._events = events
        self._every = every
        self._states: list[State] = [empty_cart()]
        for start in range(0, len(events) - every + 1, every):
            self._states.append(fold(events[start : start + every], self._states[-1]))

    def at(self, position: int) -> State:
        """Return the state after the first `position` events."""
        if not 0 <= position <= len(self._events):
            raise IndexError(f"no position {position}")
        stored = position // self._every
        return fold(self._events[stored * self._every : position], self._states[stored])

    def items_at(self, position: int) -> dict[str, int]:
        """Return the items and their quantities after the first `position` events."""
        return self.at(position)["items"]

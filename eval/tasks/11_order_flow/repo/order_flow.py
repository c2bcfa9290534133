"""The way of an order from the basket to the customer."""

ALLOWED = {
    "new": {"paid", "cancelled"},
    "paid": {"packed", "refunded"},
    "packed": {"shipped", "refunded"},
    "shipped": {"delivered"},
    "delivered": set(),
    "cancelled": set(),
    "refunded": set(),
}


class FlowError(ValueError):
    """An order cannot go from its status to the one asked for."""


class Order:
    """An order with its status and the list of all statuses it has had."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.status = "new"
        self.history = ["new"]

    @property
    def finished(self) -> bool:
        """Tell whether no further change is possible."""
        return not ALLOWED[self.status]

    def change(self, status: str) -> None:
        """Go to another status, or raise FlowError and stay as before."""
        if status not in ALLOWED:
            raise FlowError(f"unknown status: {status}")
        before = self.status
        self.status = status
        self.history.append(status)
        if status not in ALLOWED[before]:
            raise FlowError(f"order {self.number} cannot go from {before} to {status}")

    def run(self, statuses: list[str]) -> int:
        """Go through statuses until one is refused; return how many were taken."""
        for taken, status in enumerate(statuses):
            try:
                self.change(status)
            except FlowError:
                return taken
        return len(statuses)

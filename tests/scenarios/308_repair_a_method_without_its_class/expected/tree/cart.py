"""A shopping cart."""

import re
from decimal import ROUND_DOWN, Decimal


def in_cents(value):
    return value.quantize(Decimal("0.01"), ROUND_DOWN)


class Cart:
    """Prices of things."""

    def __init__(self, prices):
        self.prices = prices

    @property
    def text(self):
        return re.sub(r"[^0-9 ]", "", str(self.prices))

    @property
    def total(self):
        return sum(self.prices)

    @total.setter
    def total(self, value):
        self.prices = [value]

    def third(self):
        """A third of it, rounded down to cents."""
        return in_cents(Decimal(sum(self.prices)) / 3)

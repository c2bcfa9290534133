"""A shopping cart."""

import re


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
        return round(sum(self.prices) / 3, 2)

"""A shopping cart."""


class Cart:
    """Items and how many of each."""

    def __init__(self):
        self.items = {}

    def add(self, name, price, quantity=1):
        self.items[name] = (price, quantity)

    def total(self):
        return sum(price for price, quantity in self.items.values())

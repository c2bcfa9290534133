"""A shopping cart."""


def subtotal(prices):
    """The sum of all prices."""
    total = 0
    for price in prices:
        total += price
    return total


def discounted(prices, percent):
    """The subtotal less a discount in percent."""
    return subtotal(prices) * (100 - percent) / 100

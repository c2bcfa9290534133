"""Prices in euros."""


def total(prices, discount=0):
    """The sum of the prices, less a discount in percent, rounded to cents."""
    return round(sum(prices) * (1 - discount), 2)

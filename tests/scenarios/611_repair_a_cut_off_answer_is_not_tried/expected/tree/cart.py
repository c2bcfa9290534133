"""A shopping cart."""


def discounted(price, percent):
    """The price less a discount in percent."""
    return price * (100 - percent) / 100

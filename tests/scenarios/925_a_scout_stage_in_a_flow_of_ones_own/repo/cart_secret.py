SIGNING_SALT = "x"


def cart_secret():
    """Count of the Cart."""

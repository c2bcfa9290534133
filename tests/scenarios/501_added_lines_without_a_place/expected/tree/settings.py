"""Settings."""

LIMIT = 3
NAME = "a"


def name():
    return NAME

"""Settings."""

NAME = "a"


def name():
    return NAME

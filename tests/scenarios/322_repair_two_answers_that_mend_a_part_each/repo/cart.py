"""Two things are wrong here."""


def smallest(numbers):
    return max(numbers)


def largest(numbers):
    return min(numbers)

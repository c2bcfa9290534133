"""Sums."""


def add_up(numbers):
    return numbers[len(numbers)] + sum(numbers[:-1])

"""Repair shop 2, and tests of engines."""


def repair_2():
    """Repairs what fails in tests."""

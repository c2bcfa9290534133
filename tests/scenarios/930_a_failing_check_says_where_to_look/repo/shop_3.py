"""Repair shop 3, and tests of engines."""


def repair_3():
    """Repairs what fails in tests."""

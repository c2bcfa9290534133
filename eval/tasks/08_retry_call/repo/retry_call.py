"""Calling something again when it fails for a passing reason."""

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class Temporary(Exception):
    """A failure that may go away by itself."""


def delay_after(failures: int, first: float = 0.5, most: float = 8.0) -> float:
    """Return the seconds to wait after so many failures: doubled each time, up to `most`."""
    return min(most, first * 2 ** (failures - 1))


def call_with_retries(
    action: Callable[[], Result],
    attempts: int,
    sleep: Callable[[float], None],
) -> Result:
    """Return the result of `action`, called at most `attempts` times.

    Between two attempts `sleep` is called with the delay. Only Temporary failures are tried
    again; the failure of the last attempt is passed on, as is any other exception.
    """
    if attempts < 1:
        raise ValueError("at least one attempt is needed")
    for failures in range(attempts):
        try:
            return action()
        except Temporary:
            if failures == attempts:
                raise
        sleep(delay_after(failures + 1))

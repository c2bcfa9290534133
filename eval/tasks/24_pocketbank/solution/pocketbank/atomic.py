"""Changes that are made completely or not at all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pocketbank.account import Account, BankError


@contextmanager
def all_or_nothing(accounts: Iterable[Account]) -> Iterator[None]:
    """Put accounts back to how they were when a booking in the block fails."""
    saved = [(account, account.balance, list(account.bookings)) for account in accounts]
    try:
        yield
    except BankError:
        for account, balance, bookings in saved:
            account.balance = balance
            account.bookings = bookings
        raise

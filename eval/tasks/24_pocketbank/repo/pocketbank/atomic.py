"""Changes that are made completely or not at all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pocketbank.account import Account, InsufficientFunds


@contextmanager
def all_or_nothing(accounts: Iterable[Account]) -> Iterator[None]:
    """Put accounts back to how they were when a booking in the block fails."""
    saved = [(account, account.balance) for account in accounts]
    try:
        yield
    except InsufficientFunds:
        for account, balance in saved:
            account.balance = balance
        raise

"""Transfers between accounts."""

from pocketbank.account import Account
from pocketbank.atomic import all_or_nothing

Transfer = tuple[Account, Account, int]


def transfer(source: Account, target: Account, cents: int) -> None:
    """Move money from one account to another."""
    run_batch([(source, target, cents)])


def run_batch(batch: list[Transfer]) -> None:
    """Make all transfers of a batch, or none of them if one fails."""
    if any(cents <= 0 for _, _, cents in batch):
        raise ValueError("a transfer moves a positive amount")
    accounts = [account for source, target, _ in batch for account in (source, target)]
    with all_or_nothing(accounts):
        for source, target, cents in batch:
            source.book(f"to {target.owner}", -cents)
            target.book(f"from {source.owner}", cents)

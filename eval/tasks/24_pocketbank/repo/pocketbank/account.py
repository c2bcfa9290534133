"""Accounts with a balance in cents and a list of bookings."""


class BankError(Exception):
    """A booking is not possible."""


class InsufficientFunds(BankError):
    """There is not enough money on an account."""


class AccountFrozen(BankError):
    """An account takes no bookings."""


class Account:
    """One account; every booking changes the balance and is kept for the statement."""

    def __init__(self, owner: str, balance: int = 0) -> None:
        self.owner = owner
        self.balance = balance
        self.bookings: list[tuple[str, int]] = []
        self.frozen = False

    def book(self, text: str, cents: int) -> None:
        """Add cents, or take them when negative."""
        if self.frozen:
            raise AccountFrozen(f"the account of {self.owner} is frozen")
        if self.balance + cents < 0:
            raise InsufficientFunds(f"{self.owner} has only {self.balance}")
        self.balance += cents
        self.bookings.append((text, cents))

    def statement(self) -> list[str]:
        """Return one line for each booking."""
        return [f"{text}: {cents:+d}" for text, cents in self.bookings]

import pytest

from pocketbank.account import Account, AccountFrozen, InsufficientFunds
from pocketbank.transfers import run_batch, transfer


def test_transfer_moves_money():
    ada, bob = Account("ada", 100), Account("bob")
    transfer(ada, bob, 30)
    assert (ada.balance, bob.balance) == (70, 30)
    assert ada.statement() == ["to bob: -30"]
    assert bob.statement() == ["from ada: +30"]


def test_not_enough_money():
    ada, bob = Account("ada", 10), Account("bob")
    with pytest.raises(InsufficientFunds, match="ada has only 10"):
        transfer(ada, bob, 11)
    assert ada.balance == 10


def test_failed_batch_leaves_no_bookings():
    ada, bob = Account("ada", 100), Account("bob")
    with pytest.raises(InsufficientFunds):
        run_batch([(ada, bob, 60), (ada, bob, 60)])
    assert (ada.balance, bob.balance) == (100, 0)
    assert ada.statement() == []
    assert bob.statement() == []


def test_earlier_bookings_are_kept():
    ada, bob = Account("ada", 100), Account("bob")
    transfer(ada, bob, 5)
    with pytest.raises(InsufficientFunds):
        run_batch([(bob, ada, 5), (bob, ada, 5)])
    assert bob.statement() == ["from ada: +5"]


def test_frozen_target():
    ada, bob = Account("ada", 100), Account("bob")
    bob.frozen = True
    with pytest.raises(AccountFrozen):
        transfer(ada, bob, 40)
    assert ada.balance == 100
    assert ada.statement() == []


def test_amount_is_positive():
    with pytest.raises(ValueError):
        transfer(Account("ada", 5), Account("bob"), 0)

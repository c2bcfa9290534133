import pytest

from pocketbank.account import Account, AccountFrozen, BankError, InsufficientFunds
from pocketbank.atomic import all_or_nothing
from pocketbank.transfers import run_batch, transfer


def three():
    return Account("ada", 100), Account("bob", 50), Account("eve")


def seen(*accounts):
    return [(account.balance, account.statement()) for account in accounts]


def test_third_transfer_fails():
    ada, bob, eve = three()
    before = seen(ada, bob, eve)
    with pytest.raises(InsufficientFunds):
        run_batch([(ada, bob, 100), (bob, eve, 120), (ada, eve, 1)])
    assert seen(ada, bob, eve) == before


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_any_account_of_a_batch_is_frozen(frozen):
    accounts = three()
    accounts[frozen].frozen = True
    before = seen(*accounts)
    ada, bob, eve = accounts
    with pytest.raises(AccountFrozen):
        run_batch([(ada, bob, 10), (bob, eve, 20), (eve, ada, 5)])
    assert seen(*accounts) == before
    assert accounts[frozen].frozen is True


def test_earlier_bookings_of_all_accounts_are_kept():
    ada, bob, eve = three()
    ada.book("wages", 500)
    run_batch([(ada, bob, 30), (bob, eve, 10)])
    before = seen(ada, bob, eve)
    for _ in range(2):
        with pytest.raises(BankError):
            run_batch([(ada, eve, 20), (eve, bob, 25), (bob, ada, 999)])
        assert seen(ada, bob, eve) == before
    assert ada.statement() == ["wages: +500", "to bob: -30"]


def test_bookings_go_on_after_a_failed_batch():
    ada, bob, eve = three()
    with pytest.raises(InsufficientFunds):
        run_batch([(ada, bob, 60), (ada, eve, 60)])
    run_batch([(ada, bob, 60), (ada, eve, 40)])
    assert seen(ada, bob, eve) == [
        (0, ["to bob: -60", "to eve: -40"]),
        (110, ["from ada: +60"]),
        (40, ["from ada: +40"]),
    ]


def test_frozen_account_can_be_used_again_later():
    ada, bob, _ = three()
    bob.frozen = True
    with pytest.raises(AccountFrozen):
        transfer(ada, bob, 5)
    bob.frozen = False
    transfer(ada, bob, 5)
    assert seen(ada, bob) == [(95, ["to bob: -5"]), (55, ["from ada: +5"])]


def test_two_accounts_of_one_owner():
    giro, savings, eve = Account("ada", 100), Account("ada", 7), Account("eve")
    with pytest.raises(InsufficientFunds):
        run_batch([(giro, eve, 40), (eve, savings, 10), (savings, eve, 99)])
    assert seen(giro, savings, eve) == [(100, []), (7, []), (0, [])]


def test_accounts_may_come_from_a_generator():
    ada, bob, _ = three()
    with pytest.raises(InsufficientFunds), all_or_nothing(account for account in (ada, bob)):
        ada.book("cash", 5)
        bob.book("cash", -500)
    assert seen(ada, bob) == [(100, []), (50, [])]


def test_block_without_failure_is_kept():
    ada, bob, _ = three()
    with all_or_nothing([ada, bob]):
        ada.book("cash", 5)
    assert seen(ada, bob) == [(105, ["cash: +5"]), (50, [])]


def test_amount_that_is_not_positive_stops_the_whole_batch():
    ada, bob, eve = three()
    for cents in (0, -5):
        with pytest.raises(ValueError):
            run_batch([(ada, bob, 10), (bob, eve, cents)])
    run_batch([])
    assert seen(ada, bob, eve) == [(100, []), (50, []), (0, [])]

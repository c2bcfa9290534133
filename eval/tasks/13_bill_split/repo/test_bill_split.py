import pytest

from bill_split import split, split_bill, to_cents, to_text


def test_whole_amount():
    assert to_cents("12") == 1200


def test_two_decimals():
    assert to_cents("12.05") == 1205


def test_one_decimal():
    assert to_cents("12.5") == 1250


def test_three_decimals_are_refused():
    with pytest.raises(ValueError):
        to_cents("1.234")


def test_amount_as_text():
    assert to_text(1205) == "12.05"


def test_odd_cents_go_to_the_first():
    assert split(100, 3) == [34, 33, 33]


def test_bill_with_one_decimal():
    assert split_bill("10.1", ["ada", "bob"]) == {"ada": "5.05", "bob": "5.05"}

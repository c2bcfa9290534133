import pytest

from bill_split import split, split_bill, to_cents, to_text


@pytest.mark.parametrize(
    ("amount", "cents"),
    [
        ("0.5", 50),
        ("7.9", 790),
        ("2.3", 230),
        ("100.1", 10010),
        ("0.0", 0),
        (" 8.2 ", 820),
        ("99999999.9", 9999999990),
    ],
)
def test_one_decimal_means_tens_of_cents(amount, cents):
    assert to_cents(amount) == cents


@pytest.mark.parametrize(
    ("amount", "cents"),
    [
        ("0", 0),
        ("5", 500),
        ("0.05", 5),
        ("0.50", 50),
        ("0.29", 29),
        ("4.35", 435),
        ("19.99", 1999),
        ("1001.10", 100110),
    ],
)
def test_other_amounts_stay_exact(amount, cents):
    assert to_cents(amount) == cents


@pytest.mark.parametrize("amount", ["12.345", "12.500", "1.2.3", "abc", "", "1.x"])
def test_amounts_that_cannot_be_read(amount):
    with pytest.raises(ValueError):
        to_cents(amount)


@pytest.mark.parametrize("cents", [0, 1, 10, 99, 100, 1250, 123456])
def test_text_is_read_back(cents):
    assert to_cents(to_text(cents)) == cents


@pytest.mark.parametrize(
    ("amount", "names", "shares"),
    [
        ("0.5", ["a", "b", "c"], ["0.17", "0.17", "0.16"]),
        ("10.1", ["a", "b", "c"], ["3.37", "3.37", "3.36"]),
        ("12.5", ["a"], ["12.50"]),
        ("0.02", ["a", "b", "c"], ["0.01", "0.01", "0.00"]),
    ],
)
def test_bills_of_several_people(amount, names, shares):
    assert split_bill(amount, names) == dict(zip(names, shares))


def test_shares_add_up():
    for cents in (0, 1, 99, 1250):
        for people in (1, 2, 7, 100):
            shares = split(cents, people)
            assert (sum(shares), len(shares)) == (cents, people)
            assert max(shares) - min(shares) <= 1


def test_somebody_has_to_pay():
    with pytest.raises(ValueError):
        split(100, 0)
    with pytest.raises(ValueError):
        split_bill("12.5", [])

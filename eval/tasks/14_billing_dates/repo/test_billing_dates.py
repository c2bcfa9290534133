from datetime import date

import pytest

from billing_dates import add_months, billing_dates, next_billing


def test_month_later():
    assert add_months(date(2024, 3, 15), 1) == date(2024, 4, 15)


def test_over_the_end_of_the_year():
    assert add_months(date(2023, 11, 30), 3) == date(2024, 2, 29)


def test_dates_in_the_middle_of_the_month():
    assert billing_dates(date(2024, 11, 5), 3) == [date(2024, 11, 5), date(2024, 12, 5), date(2025, 1, 5)]


def test_dates_at_the_end_of_the_month():
    assert billing_dates(date(2024, 1, 31), 5) == [
        date(2024, 1, 31),
        date(2024, 2, 29),
        date(2024, 3, 31),
        date(2024, 4, 30),
        date(2024, 5, 31),
    ]


def test_quarterly_dates_keep_their_day():
    assert billing_dates(date(2023, 8, 31), 4, every=3)[-1] == date(2024, 5, 31)


def test_next_billing_is_this_or_next_month():
    assert next_billing(date(2024, 1, 31), date(2024, 4, 30)) == date(2024, 4, 30)
    assert next_billing(date(2024, 1, 10), date(2024, 4, 11)) == date(2024, 5, 10)


def test_interval_is_positive():
    with pytest.raises(ValueError):
        billing_dates(date(2024, 1, 1), 2, every=0)

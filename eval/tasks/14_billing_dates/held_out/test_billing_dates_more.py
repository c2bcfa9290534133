from datetime import date

import pytest

from billing_dates import add_months, billing_dates, next_billing


def days(start, count, every=1):
    return [(due.month, due.day) for due in billing_dates(start, count, every)]


def test_whole_year_from_the_31st():
    lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31]
    assert [day for _, day in days(date(2023, 1, 31), 13)] == lengths


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (date(2023, 1, 30), [(1, 30), (2, 28), (3, 30), (4, 30)]),
        (date(2023, 1, 29), [(1, 29), (2, 28), (3, 29), (4, 29)]),
        (date(2024, 12, 31), [(12, 31), (1, 31), (2, 28), (3, 31)]),
        (date(2024, 8, 31), [(8, 31), (9, 30), (10, 31), (11, 30)]),
    ],
)
def test_day_comes_back_after_a_short_month(start, expected):
    assert days(start, 4) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (date(2023, 2, 28), [(2, 28), (3, 28), (4, 28)]),
        (date(2024, 4, 30), [(4, 30), (5, 30), (6, 30)]),
        (date(2024, 2, 29), [(2, 29), (3, 29), (4, 29)]),
    ],
)
def test_last_day_of_a_short_month_is_an_ordinary_day(start, expected):
    assert days(start, 3) == expected


def test_yearly_from_the_leap_day():
    assert billing_dates(date(2024, 2, 29), 5, every=12) == [
        date(2024, 2, 29),
        date(2025, 2, 28),
        date(2026, 2, 28),
        date(2027, 2, 28),
        date(2028, 2, 29),
    ]


def test_other_intervals():
    assert days(date(2022, 12, 31), 5, every=2) == [(12, 31), (2, 28), (4, 30), (6, 30), (8, 31)]
    assert days(date(2023, 8, 31), 3, every=6) == [(8, 31), (2, 29), (8, 31)]


def test_none_or_one_date():
    assert billing_dates(date(2024, 1, 31), 0) == []
    assert billing_dates(date(2024, 1, 31), 1) == [date(2024, 1, 31)]


def test_adding_months_only_looks_at_the_given_day():
    assert add_months(date(2024, 1, 31), 1) == date(2024, 2, 29)
    assert add_months(date(2024, 2, 29), 1) == date(2024, 3, 29)
    assert add_months(date(2024, 1, 31), 0) == date(2024, 1, 31)
    assert add_months(date(2024, 1, 31), 13) == date(2025, 2, 28)


def test_next_billing_agrees_with_the_dates():
    start = date(2023, 1, 31)
    for due in billing_dates(start, 14):
        assert next_billing(start, due) == due
    assert next_billing(start, date(2022, 6, 1)) == start
    assert next_billing(start, date(2023, 3, 1)) == date(2023, 3, 31)


def test_negative_interval():
    with pytest.raises(ValueError):
        billing_dates(date(2024, 1, 31), 3, every=-1)

from datetime import date

import pytest

from holidays_observed import is_day_off, observed_holidays
from workdays import add_workdays, is_workday, workdays_between


@pytest.mark.parametrize("year", [1993, 2004, 2010, 2021, 2027, 2032])
def test_eve_of_a_new_year_on_a_saturday(year):
    assert is_day_off(date(year, 12, 31))
    assert not is_workday(date(year, 12, 31))
    assert is_workday(date(year, 12, 30))
    assert is_workday(date(year + 1, 1, 3))


@pytest.mark.parametrize(
    "day",
    [date(2019, 12, 31), date(2020, 12, 31), date(2025, 12, 31), date(2026, 12, 31), date(2016, 12, 30)],
)
def test_other_last_working_days_of_a_year(day):
    assert is_workday(day)
    assert not is_day_off(day)


@pytest.mark.parametrize(
    "day",
    [
        date(2023, 1, 2),
        date(2017, 1, 2),
        date(2024, 1, 1),
        date(2021, 4, 30),
        date(2022, 5, 2),
        date(2024, 5, 1),
        date(2010, 12, 24),
        date(2024, 12, 25),
    ],
)
def test_other_observed_days(day):
    assert is_day_off(day)


@pytest.mark.parametrize(
    "day", [date(2021, 4, 29), date(2022, 5, 3), date(2022, 12, 27), date(2021, 12, 27), date(2022, 1, 3)]
)
def test_working_days_beside_observed_days(day):
    assert is_workday(day)


@pytest.mark.parametrize(
    ("day", "count", "expected"),
    [
        (date(2010, 12, 30), 1, date(2011, 1, 3)),
        (date(2027, 12, 29), 3, date(2028, 1, 4)),
        (date(2021, 12, 23), 5, date(2022, 1, 3)),
        (date(2022, 12, 30), 1, date(2023, 1, 3)),
        (date(2021, 12, 31), 0, date(2021, 12, 31)),
    ],
)
def test_adding_over_new_year(day, count, expected):
    assert add_workdays(day, count) == expected


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [
        (date(2021, 12, 27), date(2022, 1, 7), 9),
        (date(2010, 12, 31), date(2010, 12, 31), 0),
        (date(2027, 12, 1), date(2027, 12, 31), 21),
        (date(2024, 12, 23), date(2025, 1, 3), 8),
        (date(2022, 1, 7), date(2022, 1, 3), 0),
    ],
)
def test_counting_over_new_year(first, last, count):
    assert workdays_between(first, last) == count


def test_holidays_belong_to_their_year():
    assert observed_holidays(2022)[date(2021, 12, 31)] == "New Year"
    assert observed_holidays(2024)[date(2024, 5, 1)] == "Labour Day"

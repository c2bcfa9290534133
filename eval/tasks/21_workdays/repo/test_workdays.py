from datetime import date

import pytest

from workdays import add_workdays, is_workday, workdays_between


def test_weekend_is_skipped():
    assert add_workdays(date(2024, 3, 8), 1) == date(2024, 3, 11)


def test_holiday_is_skipped():
    assert add_workdays(date(2024, 4, 30), 1) == date(2024, 5, 2)


def test_holiday_on_a_sunday_is_observed_on_monday():
    assert not is_workday(date(2022, 12, 26))


def test_holiday_on_a_saturday_is_observed_on_friday():
    assert not is_workday(date(2021, 12, 24))


def test_new_year_on_a_saturday():
    assert add_workdays(date(2021, 12, 30), 1) == date(2022, 1, 3)


def test_last_week_of_a_year():
    assert workdays_between(date(2021, 12, 27), date(2021, 12, 31)) == 4


def test_last_day_of_an_ordinary_year_is_a_workday():
    assert is_workday(date(2024, 12, 31))


def test_count_is_not_negative():
    with pytest.raises(ValueError):
        add_workdays(date(2024, 1, 2), -1)

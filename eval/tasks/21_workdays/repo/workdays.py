"""Counting in working days."""

from datetime import date, timedelta

from holidays_observed import is_day_off

ONE_DAY = timedelta(days=1)


def is_workday(day: date) -> bool:
    """Tell whether people work on a day: no weekend and no holiday."""
    return day.weekday() < 5 and not is_day_off(day)


def add_workdays(day: date, count: int) -> date:
    """Return the day that is `count` working days after `day`."""
    if count < 0:
        raise ValueError("count must not be negative")
    while count > 0:
        day += ONE_DAY
        if is_workday(day):
            count -= 1
    return day


def workdays_between(first: date, last: date) -> int:
    """Return the number of working days from `first` to `last`, both included."""
    count = 0
    while first <= last:
        count += is_workday(first)
        first += ONE_DAY
    return count

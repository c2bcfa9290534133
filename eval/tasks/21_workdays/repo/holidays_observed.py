"""Holidays and the days on which they are observed.

A holiday on a Saturday is observed on the Friday before, one on a Sunday on the Monday after.
"""

from datetime import date, timedelta

HOLIDAYS = {
    "New Year": (1, 1),
    "Labour Day": (5, 1),
    "Christmas": (12, 25),
}
SATURDAY = 5
SUNDAY = 6


def observed_day(day: date) -> date:
    """Return the day on which a holiday that falls on `day` is observed."""
    if day.weekday() == SATURDAY:
        return day - timedelta(days=1)
    if day.weekday() == SUNDAY:
        return day + timedelta(days=1)
    return day


def observed_holidays(year: int) -> dict[date, str]:
    """Return the observed days, with their names, of the holidays of a year."""
    return {observed_day(date(year, month, day)): name for name, (month, day) in HOLIDAYS.items()}


def is_day_off(day: date) -> bool:
    """Tell whether a holiday is observed on a day."""
    return day in observed_holidays(day.year)

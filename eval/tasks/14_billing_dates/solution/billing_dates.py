"""Dates on which a subscription is billed."""

import calendar
from datetime import date


def last_day(year: int, month: int) -> int:
    """Return the number of days of a month."""
    return calendar.monthrange(year, month)[1]


def add_months(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of a month that is too short."""
    index = day.month - 1 + months
    year = day.year + index // 12
    month = index % 12 + 1
    return date(year, month, min(day.day, last_day(year, month)))


def billing_dates(start: date, count: int, every: int = 1) -> list[date]:
    """Return the first `count` billing dates, `every` so many months, beginning with `start`."""
    if every < 1:
        raise ValueError("the interval is at least one month")
    dates: list[date] = []
    due = start
    while len(dates) < count:
        dates.append(due)
        due = add_months(start, every * len(dates))
    return dates


def next_billing(start: date, today: date) -> date:
    """Return the first monthly billing date that is not before `today`."""
    months = max(0, (today.year - start.year) * 12 + today.month - start.month)
    due = add_months(start, months)
    if due < today:
        due = add_months(start, months + 1)
    return due

import pytest

from daybook import DayBook
from daybook_slots import Slot, gaps


def day_with(*meetings):
    book = DayBook("09:00", "17:00")
    for number, meeting in enumerate(meetings):
        book.add(f"meeting {number}", *meeting.split("-"))
    return book


@pytest.mark.parametrize(
    ("meetings", "free"),
    [
        ([], ["09:00-17:00"]),
        (["10:00-11:00"], ["09:00-10:00", "11:00-17:00"]),
        (["09:00-16:59"], ["16:59-17:00"]),
        (["09:00-17:00"], []),
        (["14:00-15:00", "09:00-10:30"], ["10:30-14:00", "15:00-17:00"]),
    ],
)
def test_time_until_closing(meetings, free):
    assert day_with(*meetings).free() == free


@pytest.mark.parametrize(
    ("meetings", "free"),
    [
        (["09:00-15:00", "10:00-11:00"], ["15:00-17:00"]),
        (["09:00-15:00", "10:00-11:00", "12:00-13:00", "14:00-16:00"], ["16:00-17:00"]),
        (["10:00-12:00", "11:00-13:00", "12:30-12:45"], ["09:00-10:00", "13:00-17:00"]),
        (["10:00-14:00", "10:00-11:00"], ["09:00-10:00", "14:00-17:00"]),
        (["09:00-17:00", "12:00-13:00"], []),
    ],
)
def test_overlapping_meetings(meetings, free):
    assert day_with(*meetings).free() == free


@pytest.mark.parametrize(
    ("meetings", "free"),
    [
        (["07:00-08:00"], ["09:00-17:00"]),
        (["07:00-08:00", "12:00-13:00"], ["09:00-12:00", "13:00-17:00"]),
        (["08:00-10:00", "16:00-18:00"], ["10:00-16:00"]),
        (["17:00-18:00", "19:00-20:00"], ["09:00-17:00"]),
        (["08:00-20:00"], []),
    ],
)
def test_meetings_outside_the_working_hours(meetings, free):
    assert day_with(*meetings).free() == free


@pytest.mark.parametrize(
    ("minutes", "free"), [(60, ["09:00-10:00", "15:30-17:00"]), (90, ["15:30-17:00"]), (91, [])]
)
def test_short_times_are_left_out_at_the_end_too(minutes, free):
    assert day_with("10:00-15:30", "11:00-12:00").free(minutes) == free


def test_cancelled_and_changed_meetings():
    book = day_with("09:00-16:00", "10:00-11:00")
    book.add("meeting 1", "15:00", "16:30")
    assert book.free() == ["16:30-17:00"]
    book.cancel("meeting 0")
    assert book.free() == ["09:00-15:00", "16:30-17:00"]


def test_gaps_are_never_empty():
    assert gaps([Slot(0, 60)], Slot(0, 60)) == []
    assert gaps([Slot(0, 90)], Slot(0, 60)) == []
    assert gaps(iter([Slot(20, 30), Slot(0, 10)]), Slot(0, 30)) == [Slot(10, 20)]
    assert gaps([], Slot(5, 6)) == [Slot(5, 6)]

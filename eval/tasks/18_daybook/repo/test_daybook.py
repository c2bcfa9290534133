import pytest

from daybook import DayBook


def full_day(*meetings):
    book = DayBook("09:00", "12:00")
    for number, (start, end) in enumerate(meetings):
        book.add(f"meeting {number}", start, end)
    return book


def test_time_before_and_between():
    book = full_day(("09:30", "10:00"), ("11:00", "12:00"))
    assert book.free() == ["09:00-09:30", "10:00-11:00"]


def test_no_free_time():
    assert full_day(("09:00", "10:30"), ("10:30", "12:00")).free() == []


def test_time_after_the_last_meeting():
    assert full_day(("09:00", "10:00")).free() == ["10:00-12:00"]


def test_cancelled_meeting_frees_its_time():
    book = full_day(("09:00", "12:00"))
    book.cancel("meeting 0")
    assert book.free() == ["09:00-12:00"]


def test_meeting_inside_a_longer_one():
    book = full_day(("09:00", "11:00"), ("09:15", "09:45"), ("11:30", "12:00"))
    assert book.free() == ["11:00-11:30"]


def test_short_gaps_can_be_left_out():
    book = full_day(("09:10", "10:00"), ("11:00", "12:00"))
    assert book.free(minutes=30) == ["10:00-11:00"]


def test_meeting_that_ends_before_it_starts():
    with pytest.raises(ValueError):
        full_day(("11:00", "10:00"))

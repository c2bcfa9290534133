import pytest

from duration_text import format_duration, parse_duration


def test_seconds_only():
    assert format_duration(42) == "42s"


def test_minutes_and_seconds():
    assert format_duration(125) == "2m 5s"


def test_hours_and_minutes():
    assert format_duration(4500) == "1h 15m"


def test_full_hours():
    assert format_duration(7200) == "2h"


def test_nothing():
    assert format_duration(0) == "0s"


def test_parsing():
    assert parse_duration("1h 15m 3s") == 4503


def test_bad_duration():
    with pytest.raises(ValueError, match="not a duration: 5 apples"):
        parse_duration("5 apples")

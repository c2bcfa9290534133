import pytest

from duration_text import format_duration, parse_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3600, "1h"),
        (3601, "1h 1s"),
        (3660, "1h 1m"),
        (3661, "1h 1m 1s"),
        (7199, "1h 59m 59s"),
        (7260, "2h 1m"),
        (9000, "2h 30m"),
        (36_610, "10h 10m 10s"),
        (86_399, "23h 59m 59s"),
        (90_000, "25h"),
        (360_059, "100h 59s"),
    ],
)
def test_durations_over_an_hour(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1s"), (59, "59s"), (60, "1m"), (61, "1m 1s"), (1800, "30m"), (3540, "59m"), (3599, "59m 59s")],
)
def test_durations_under_an_hour(seconds, text):
    assert format_duration(seconds) == text


def test_every_duration_is_read_back():
    for seconds in range(0, 20_000, 37):
        assert parse_duration(format_duration(seconds)) == seconds


def test_minutes_and_seconds_stay_below_sixty():
    for seconds in range(3600, 12_000, 41):
        for part in format_duration(seconds).split():
            assert part.endswith("h") or 1 <= int(part[:-1]) < 60


@pytest.mark.parametrize("seconds", [-1, -3600])
def test_negative_durations(seconds):
    with pytest.raises(ValueError):
        format_duration(seconds)


@pytest.mark.parametrize(("text", "seconds"), [("75m", 4500), ("0s", 0), ("2h", 7200), ("90s 1m", 150)])
def test_reading_stays_as_it_was(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["1h15m", "1d", "h", "-1h"])
def test_texts_that_are_no_duration(text):
    with pytest.raises(ValueError):
        parse_duration(text)

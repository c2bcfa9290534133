import pytest

from release_numbers import is_compatible, newest, parse_release, updates


def test_release_has_three_numbers():
    assert parse_release("v1.10.2") == (1, 10, 2)


def test_two_numbers_are_not_enough():
    with pytest.raises(ValueError, match="not a release number: 1.2"):
        parse_release("1.2")


def test_newest_of_small_numbers():
    assert newest(["1.2.0", "1.4.1", "1.3.9"]) == "1.4.1"


def test_ten_is_newer_than_nine():
    assert newest(["1.9.3", "1.10.0"]) == "1.10.0"


def test_first_number_decides_compatibility():
    assert not is_compatible("2.0.0", "1.5.0")


def test_updates_are_in_order():
    assert updates("1.8.0", ["1.10.0", "1.9.3", "2.0.0", "1.8.0"]) == ["1.9.3", "1.10.0"]

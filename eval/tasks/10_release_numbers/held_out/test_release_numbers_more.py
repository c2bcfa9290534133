import pytest

from release_numbers import is_compatible, newest, parse_release, updates


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1.2.3", (1, 2, 3)), ("0.0.0", (0, 0, 0)), (" v12.0.345 ", (12, 0, 345)), ("10.20.30", (10, 20, 30))],
)
def test_numbers_of_a_release(text, numbers):
    assert parse_release(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "1", "1.2.3.4", "1..3", "1.x.3", "-1.2.3", "1.2.3-rc1", "vv1.2.3", "1. 2.3", "1.2_0.3"]
)
def test_texts_that_are_no_release(text):
    with pytest.raises(ValueError):
        parse_release(text)


@pytest.mark.parametrize(
    ("releases", "best"),
    [
        (["9.0.0", "10.0.0", "2.5.1"], "10.0.0"),
        (["1.2.9", "1.2.10", "1.2.3"], "1.2.10"),
        (["1.99.0", "1.100.0", "1.20.5"], "1.100.0"),
        (["v2.9.9", "2.10.0"], "2.10.0"),
        (["2.9.9", "v2.11.0", "2.10.7"], "v2.11.0"),
        (["0.9.12"], "0.9.12"),
    ],
)
def test_newest_is_returned_as_written(releases, best):
    assert newest(releases) == best


@pytest.mark.parametrize(
    ("installed", "wanted", "compatible"),
    [
        ("1.10.0", "1.9.0", True),
        ("1.9.0", "1.10.0", False),
        ("1.2.10", "1.2.9", True),
        ("1.2.9", "1.2.10", False),
        ("10.0.0", "9.5.0", False),
        ("12.3.0", "v12.3.0", True),
        ("1.5.0", "10.2.0", False),
    ],
)
def test_compatibility(installed, wanted, compatible):
    assert is_compatible(installed, wanted) is compatible


def test_updates_with_numbers_of_several_digits():
    available = ["3.2.10", "v3.11.0", "3.2.9", "3.9.1", "3.2.1", "30.0.0", "2.99.0", "3.2.8"]
    assert updates("3.2.8", available) == ["3.2.9", "3.2.10", "3.9.1", "v3.11.0"]


def test_no_updates():
    assert updates("1.10.0", ["1.9.9", "v1.10.0", "1.2.0", "2.0.0"]) == []
    assert updates("1.10.0", []) == []

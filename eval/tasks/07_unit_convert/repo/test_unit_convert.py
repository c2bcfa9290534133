import pytest

from unit_convert import UnitError, convert, parse_quantity


def test_same_unit():
    assert convert(7, "kg", "kg") == 7


def test_large_to_small_unit():
    assert convert(2, "km", "m") == 2000


def test_small_to_large_unit():
    assert convert(90, "min", "h") == 1.5


def test_different_kinds():
    with pytest.raises(UnitError, match="same thing"):
        convert(1, "km", "h")


def test_unknown_unit():
    with pytest.raises(UnitError, match="unknown unit: furlong"):
        convert(1, "furlong", "m")


def test_quantity():
    assert parse_quantity("3.5 kg") == (3.5, "kg")

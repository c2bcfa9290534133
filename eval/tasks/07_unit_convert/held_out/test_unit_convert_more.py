import pytest

from unit_convert import UnitError, convert, parse_quantity


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (5, "cm", "mm", 50),
        (250, "mm", "m", 0.25),
        (3, "km", "mm", 3_000_000),
        (7, "mm", "cm", 0.7),
        (1.5, "t", "kg", 1500),
        (500, "g", "kg", 0.5),
        (2, "t", "g", 2_000_000),
        (2, "h", "s", 7200),
        (45, "s", "min", 0.75),
        (0.5, "h", "min", 30),
        (-3, "m", "cm", -300),
        (0, "km", "cm", 0),
    ],
)
def test_both_directions(value, source, target, expected):
    assert convert(value, source, target) == pytest.approx(expected)


@pytest.mark.parametrize(("first", "second"), [("mm", "km"), ("g", "t"), ("min", "s"), ("cm", "m")])
def test_there_and_back(first, second):
    assert convert(convert(12.5, first, second), second, first) == pytest.approx(12.5)


@pytest.mark.parametrize("unit", ["mm", "t", "s"])
def test_same_unit_changes_nothing(unit):
    assert convert(3.25, unit, unit) == pytest.approx(3.25)


@pytest.mark.parametrize(("source", "target"), [("kg", "m"), ("s", "g"), ("mm", "min"), ("m", "s")])
def test_units_that_measure_different_things(source, target):
    with pytest.raises(UnitError):
        convert(1, source, target)


@pytest.mark.parametrize(("source", "target"), [("m", "mile"), ("", "m"), ("KM", "m"), ("inch", "foot")])
def test_unknown_units(source, target):
    with pytest.raises(UnitError):
        convert(1, source, target)


def test_quantity_that_is_read_and_converted():
    value, unit = parse_quantity(" 2.5 km ")
    assert convert(value, unit, "m") == pytest.approx(2500)
    with pytest.raises(UnitError):
        parse_quantity("3 apples")

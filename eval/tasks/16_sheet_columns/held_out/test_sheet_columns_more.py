import pytest

from sheet_columns import cell_name, column_name, column_number, columns_between

NAMES = {
    1: "A",
    2: "B",
    25: "Y",
    26: "Z",
    27: "AA",
    28: "AB",
    52: "AZ",
    53: "BA",
    676: "YZ",
    677: "ZA",
    702: "ZZ",
    703: "AAA",
    728: "AAZ",
    16384: "XFD",
    18278: "ZZZ",
    18279: "AAAA",
}


@pytest.mark.parametrize("number", NAMES)
def test_names_and_numbers(number):
    assert column_name(number) == NAMES[number]
    assert column_number(NAMES[number]) == number


def test_every_number_is_read_back():
    assert [column_number(column_name(number)) for number in range(1, 2000)] == list(range(1, 2000))


def test_names_are_different():
    assert len({column_name(number) for number in range(1, 2000)}) == 1999


@pytest.mark.parametrize(
    ("column", "row", "name"), [(1, 1, "A1"), (27, 10, "AA10"), (702, 3, "ZZ3"), (703, 1, "AAA1")]
)
def test_cells(column, row, name):
    assert cell_name(column, row) == name


@pytest.mark.parametrize(
    ("first", "last", "names"),
    [
        ("A", "A", ["A"]),
        ("a", "c", ["A", "B", "C"]),
        ("Z", "AA", ["Z", "AA"]),
        ("AY", "BB", ["AY", "AZ", "BA", "BB"]),
        ("ZZ", "AAB", ["ZZ", "AAA", "AAB"]),
        ("C", "B", []),
    ],
)
def test_ranges(first, last, names):
    assert columns_between(first, last) == names


@pytest.mark.parametrize("number", [0, -1, -26])
def test_numbers_without_a_column(number):
    with pytest.raises(ValueError):
        column_name(number)
    with pytest.raises(ValueError):
        cell_name(number, 1)


@pytest.mark.parametrize("name", ["", "A1", "Ä", "A B"])
def test_names_without_a_column(name):
    with pytest.raises(ValueError):
        column_number(name)

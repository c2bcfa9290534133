import pytest

from sheet_columns import cell_name, column_name, column_number, columns_between


def test_first_column():
    assert column_name(1) == "A"


def test_last_single_letter():
    assert column_name(26) == "Z"


def test_first_double_letter():
    assert column_name(27) == "AA"


def test_numbers_of_names():
    assert [column_number(name) for name in ("A", "Z", "AA", "BA")] == [1, 26, 27, 53]


def test_cell():
    assert cell_name(3, 7) == "C7"


def test_columns_over_the_end_of_the_alphabet():
    assert columns_between("Y", "AB") == ["Y", "Z", "AA", "AB"]


def test_no_column_zero():
    with pytest.raises(ValueError, match="no column 0"):
        column_name(0)

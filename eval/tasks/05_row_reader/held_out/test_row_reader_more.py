import pytest

from row_reader import RowError, read_row, read_table


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("ada,", ["ada", ""]),
        (",", ["", ""]),
        (",,", ["", "", ""]),
        ("a,b,,", ["a", "b", "", ""]),
        ("a, ", ["a", ""]),
        ('"a",', ["a", ""]),
        ('"a,b",', ["a,b", ""]),
    ],
)
def test_empty_last_cell(line, cells):
    assert read_row(line) == cells


@pytest.mark.parametrize(
    ("line", "cells"), [('a,""', ["a", ""]), ('"",""', ["", ""]), ('a,,""', ["a", "", ""])]
)
def test_empty_last_cell_in_quotes(line, cells):
    assert read_row(line) == cells


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ('a,"b,"', ["a", "b,"]),
        ('a," "', ["a", " "]),
        ('a,"say """', ["a", 'say "']),
        (",b", ["", "b"]),
    ],
)
def test_last_cell_that_is_not_empty(line, cells):
    assert read_row(line) == cells


@pytest.mark.parametrize("line", ['a,"', '"', 'a,"b,', '"a,'])
def test_quote_that_is_not_closed(line):
    with pytest.raises(RowError):
        read_row(line)


def test_table_with_several_empty_columns():
    text = "a;b;c\n1;;\n\n;;3\n;;\n"
    assert read_table(text, ";") == [
        {"a": "1", "b": "", "c": ""},
        {"a": "", "b": "", "c": "3"},
        {"a": "", "b": "", "c": ""},
    ]


def test_table_without_rows():
    assert read_table("") == []
    assert read_table("name,phone\n") == []


@pytest.mark.parametrize("row", ["1", "1,2,", "1,2,3", ",,", '1,2,""'])
def test_row_with_another_number_of_cells(row):
    with pytest.raises(RowError):
        read_table(f"a,b\n{row}\n")

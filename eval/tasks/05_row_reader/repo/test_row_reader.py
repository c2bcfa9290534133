import pytest

from row_reader import RowError, read_row, read_table


def test_plain_cells_are_stripped():
    assert read_row("a, b ,c") == ["a", "b", "c"]


def test_quoted_separator_and_quote():
    assert read_row('"x, y","say ""hi""",z') == ["x, y", 'say "hi"', "z"]


def test_empty_cell_in_the_middle():
    assert read_row("a,,c") == ["a", "", "c"]


def test_empty_cell_at_the_end():
    assert read_row("a;b;", ";") == ["a", "b", ""]


def test_table_with_an_empty_last_column():
    text = "name,phone\nada,\nbob,123\n"
    assert read_table(text) == [{"name": "ada", "phone": ""}, {"name": "bob", "phone": "123"}]


def test_open_quote():
    with pytest.raises(RowError, match="not closed"):
        read_row('a,"b')


def test_too_many_cells():
    with pytest.raises(RowError, match="line 2 has 3 cells, not 2"):
        read_table("a,b\n1,2,3\n")

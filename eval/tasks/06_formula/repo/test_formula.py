import pytest

from formula import FormulaError, evaluate


def test_product_binds_stronger():
    assert evaluate("2 + 3 * 4") == 14


def test_parentheses():
    assert evaluate("(2 + 3) * 4") == 20


def test_names():
    assert evaluate("width * height", {"width": 3, "height": 5}) == 15


def test_repeated_minus():
    assert evaluate("10 - 3 - 2") == 5


def test_repeated_division():
    assert evaluate("100 / 10 / 5") == 2


def test_parentheses_on_the_right():
    assert evaluate("10 - (3 - 2)") == 9


def test_unknown_name():
    with pytest.raises(FormulaError, match="unknown name: tax"):
        evaluate("1 + tax")


def test_incomplete_formula():
    with pytest.raises(FormulaError):
        evaluate("1 +")

import pytest

from formula import FormulaError, evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 - 2 - 3 - 4", -8),
        ("10 - 3 + 2", 9),
        ("10 + 3 - 2 + 1 - 4", 8),
        ("64 / 4 / 2 / 2", 4),
        ("100 / 10 * 5", 50),
        ("12 / 3 * 2 / 4", 2),
        ("2 * 9 / 3 / 2", 3),
        ("20 - 2 * 3 - 4", 10),
        ("20 - 12 / 3 / 2 - 1 - 1", 16),
        ("7-2-1", 4),
    ],
)
def test_operators_of_one_rank_go_from_left_to_right(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(10 - 3 - 2) * 2", 10),
        ("20 - (10 - 3 - 2) - 1", 14),
        ("48 / (8 / 2) / 3", 4),
        ("10 - (3 - (2 - 1))", 8),
        ("((7))", 7),
        ("2 + 3 * 4 + 5", 19),
        ("2 * 3 + 4 * 5", 26),
    ],
)
def test_parentheses_and_ranks(text, value):
    assert evaluate(text) == value


def test_names_in_a_chain():
    assert evaluate("total - rebate - tax / 2 / 5", {"total": 100, "rebate": 20, "tax": 30}) == 77


def test_long_chain():
    assert evaluate("500" + " - 1" * 200 + " + 3") == 303


@pytest.mark.parametrize("text", ["1 / 0", "8 / (3 - 2 - 1)", "4 / 2 / 0"])
def test_division_by_zero(text):
    with pytest.raises(FormulaError):
        evaluate(text)


@pytest.mark.parametrize(
    "text", ["", "3 - 2 -", "6 / 3 /", "1 2", "5 - 2 3", "(5 - 2 - 1", "5 - 2)", "* 3", "3 - * 2", "3 $ 2"]
)
def test_formulas_that_cannot_be_read(text):
    with pytest.raises(FormulaError):
        evaluate(text)


def test_unknown_name_in_a_chain():
    with pytest.raises(FormulaError):
        evaluate("10 - 3 - tax", {"rebate": 1})

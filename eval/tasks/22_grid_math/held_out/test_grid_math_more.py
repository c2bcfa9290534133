import pytest

from grid_math import identity, multiply, power, shape, transpose

A = [[1, 2], [3, 4], [5, 6]]
B = [[1, 0, 2, -1], [0, 3, 1, 2]]
C = [[2], [0], [1], [4]]


@pytest.mark.parametrize(
    ("left", "right", "product"),
    [
        (A, B, [[1, 6, 4, 3], [3, 12, 10, 5], [5, 18, 16, 7]]),
        (B, C, [[0], [9]]),
        ([[1], [2], [3]], [[4, 5]], [[4, 5], [8, 10], [12, 15]]),
        ([[1, 2, 3]], [[4], [5], [6]], [[32]]),
        ([[7]], [[1, 2, 3, 4]], [[7, 14, 21, 28]]),
        ([[2], [3]], [[5]], [[10], [15]]),
        ([[0.5, 2]], [[4], [0.25]], [[2.5]]),
    ],
)
def test_products_of_other_shapes(left, right, product):
    assert multiply(left, right) == product


@pytest.mark.parametrize("matrix", [A, B, C, transpose(A), [[5]]])
def test_identity_changes_nothing(matrix):
    rows, columns = shape(matrix)
    assert multiply(identity(rows), matrix) == matrix
    assert multiply(matrix, identity(columns)) == matrix


def test_three_factors():
    assert multiply(multiply(A, B), C) == multiply(A, multiply(B, C)) == [[18], [36], [54]]


def test_transposed_product():
    assert transpose(multiply(A, B)) == multiply(transpose(B), transpose(A))


@pytest.mark.parametrize(
    ("left", "right"), [(A, A), (B, A), (A, C), (C, C), ([[1, 2, 3]], [[1, 2, 3], [4, 5, 6]])]
)
def test_shapes_that_do_not_fit(left, right):
    with pytest.raises(ValueError):
        multiply(left, right)


def test_factors_are_left_alone():
    left, right = [[1, 2]], [[1, 2, 3], [4, 5, 6]]
    product = multiply(left, right)
    product[0][0] = 99
    assert (left, right) == ([[1, 2]], [[1, 2, 3], [4, 5, 6]])


def test_rows_of_the_product_are_independent():
    product = multiply([[1], [1]], [[1, 2, 3]])
    product[0][0] = 99
    assert product[1] == [1, 2, 3]


def test_powers():
    assert power([[2, 0], [1, 3]], 0) == identity(2)
    assert power([[2, 0], [1, 3]], 1) == [[2, 0], [1, 3]]
    assert power([[0, 1, 0], [0, 0, 1], [1, 0, 0]], 3) == identity(3)

import pytest

from grid_math import multiply, power, transpose


def test_square_matrices():
    assert multiply([[1, 2], [3, 4]], [[0, 1], [1, 0]]) == [[2, 1], [4, 3]]


def test_result_wider_than_the_left_matrix():
    assert multiply([[1, 2]], [[1, 2, 3], [4, 5, 6]]) == [[9, 12, 15]]


def test_result_narrower_than_the_left_matrix():
    assert multiply([[1, 2, 3], [4, 5, 6]], [[1], [0], [1]]) == [[4], [10]]


def test_shapes_must_fit():
    with pytest.raises(ValueError, match="cannot multiply"):
        multiply([[1, 2]], [[1, 2]])


def test_transpose():
    assert transpose([[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]


def test_power():
    assert power([[1, 1], [1, 0]], 5) == [[8, 5], [5, 3]]

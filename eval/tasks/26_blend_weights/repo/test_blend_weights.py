import pytest

from blend_weights import WeightError, fading_weights, normalise, recent_mean, weighted_mean


def test_normalised_list():
    assert normalise([1, 1, 2]) == [0.25, 0.25, 0.5]


def test_normalised_generator():
    assert normalise(n for n in (1, 3)) == [0.25, 0.75]


def test_weighted_mean():
    assert weighted_mean([10, 20], [3, 1]) == 12.5


def test_fading_weights():
    assert list(fading_weights(3)) == [1.0, 0.5, 0.25]


def test_recent_mean():
    assert recent_mean([6, 3]) == 5


def test_weights_without_a_sum():
    with pytest.raises(WeightError, match="must be positive"):
        normalise([0, 0])


def test_too_few_weights():
    with pytest.raises(WeightError, match="2 values but 1 weights"):
        weighted_mean([1, 2], [1])

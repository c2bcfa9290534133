import pytest

from blend_weights import WeightError, fading_weights, normalise, recent_mean, weighted_mean

KINDS = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda weights: (weight for weight in weights),
    "map": lambda weights: map(float, weights),
    "values": lambda weights: dict(enumerate(weights)).values(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_any_iterable(kind):
    assert normalise(KINDS[kind]([5])) == pytest.approx([1])
    assert normalise(KINDS[kind]([0, 4])) == pytest.approx([0, 1])
    assert normalise(KINDS[kind]([3, 0, 5])) == pytest.approx([0.375, 0, 0.625])


@pytest.mark.parametrize("kind", KINDS)
def test_mean_with_any_iterable(kind):
    assert weighted_mean([10, 20, 60], KINDS[kind]([2, 1, 1])) == pytest.approx(25)
    assert weighted_mean((7,), KINDS[kind]([3])) == pytest.approx(7)


@pytest.mark.parametrize("weights", [[], [0, 0], [1, -1], [2, -3]])
def test_sum_must_be_positive(weights):
    for kind in KINDS.values():
        with pytest.raises(WeightError):
            normalise(kind(weights))
        with pytest.raises(WeightError):
            weighted_mean([1] * len(weights), kind(weights))


@pytest.mark.parametrize("weights", [[1], [1, 1], [1, 1, 1, 1]])
def test_number_of_weights_must_fit(weights):
    for kind in KINDS.values():
        with pytest.raises(WeightError):
            weighted_mean([1, 2, 3], kind(weights))


def test_list_of_the_caller_is_left_alone():
    weights = [1, 3]
    assert normalise(weights) == normalise(weights) == [0.25, 0.75]
    assert weights == [1, 3]


def test_fading_weights_can_be_used():
    assert normalise(fading_weights(2)) == pytest.approx([2 / 3, 1 / 3])
    assert normalise(fading_weights(3, factor=1.0)) == pytest.approx([1 / 3] * 3)
    assert list(fading_weights(0)) == []


@pytest.mark.parametrize(
    ("values", "mean"), [([5], 5), ([4, 4, 4], 4), ([7, 0, 0], 4), ([0, 0, 7], 1), ([14, 7, 0], 10)]
)
def test_recent_means(values, mean):
    assert recent_mean(values) == pytest.approx(mean)


def test_recent_mean_of_nothing():
    with pytest.raises(WeightError):
        recent_mean([])

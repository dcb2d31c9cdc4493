"""The features of bags, compared with loops and by property."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested_rows import grid_vectors, nesting_of

from keras_mmil.interpretation.rules import features
from keras_mmil.interpretation.rules.features import (
    COUNT,
    FREQUENCY,
    OCCURRENCE,
    WEIGHT,
    bag_features,
)

BAGS, LABELS = [[0, 1, 2], [], [3, 3, 1], [2]], np.array([0, 2, 0, 1])


WEIGHTS = [[1, 2, 0.5], [], [1, 1, 1], [0]]


@pytest.mark.parametrize("feature", [OCCURRENCE, FREQUENCY, COUNT, WEIGHT])
def test_features_as_a_loop_computes_them(feature):
    expected = np.zeros((4, 3))
    for i, (bag, weights) in enumerate(zip(BAGS, WEIGHTS, strict=True)):
        for row, weight in zip(bag, weights, strict=True):
            expected[i, LABELS[row]] += weight
    if feature is OCCURRENCE:
        expected = expected > 0
    elif feature is FREQUENCY:
        expected = expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-9)
    found = bag_features(feature, LABELS, 3, nesting_of(BAGS, 4, list(map(np.array, WEIGHTS))))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.float32


def test_unknown_feature():
    with pytest.raises(ValueError, match="Received: features='presence'"):
        features.get("presence")


@given(st.sampled_from([OCCURRENCE, FREQUENCY, COUNT]), st.data())
def test_a_box_that_holds_a_vector_is_feasible(feature, data):
    bounds = st.sampled_from([-np.inf, -0.5, 0.0, 0.25, 0.3, 0.5, 0.75, 1.0, 2.5, np.inf])
    low = np.array([data.draw(bounds) for _ in range(3)])
    high = np.array([data.draw(bounds) for _ in range(3)])
    vectors = grid_vectors(feature, 3)
    if ((vectors > low) & (vectors <= high)).all(axis=1).any():
        assert feature.feasible(low, high)


@pytest.mark.parametrize(
    ("feature", "low", "high"),
    [
        (OCCURRENCE, [0.5, -np.inf], [0.5, np.inf]),
        (OCCURRENCE, [0.1, -np.inf], [0.9, np.inf]),
        (FREQUENCY, [0.6, 0.6], [np.inf, np.inf]),
        (FREQUENCY, [0.1, -np.inf], [0.4, 0.4]),
        (FREQUENCY, [0.3, -np.inf], [0.3, np.inf]),
        (COUNT, [-np.inf, -np.inf], [-0.5, np.inf]),
        (COUNT, [2.5, -np.inf], [1.5, np.inf]),
    ],
)
def test_boxes_without_any_bag(feature, low, high):
    assert not feature.feasible(np.array(low), np.array(high))

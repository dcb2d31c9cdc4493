"""Simplified clauses."""

import numpy as np

from keras_mmil.interpretation.rules.features import FREQUENCY
from keras_mmil.interpretation.rules.simplify import simplify
from keras_mmil.interpretation.rules.tree import Tree


def test_simplify_knows_that_frequencies_sum_to_one():
    """f1 > 0.6 implies f2 ≤ 0.5: no bag is in the second leaf, and the first needs no f2."""
    tree = Tree(
        feature=np.array([0, -1, 1, -1, -1]),
        threshold=np.array([0.6, 0, 0.5, 0, 0]),
        children=np.array([[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]]),
        label=np.array([2, 2, 0, 0, 1]),
        n_features=2,
    )
    boxes = simplify(tree.boxes(), FREQUENCY.feasible)
    np.testing.assert_array_equal(boxes.labels, [0, 2])
    inf = np.inf
    expected = [[[0.6, -inf], [inf, inf]], [[-inf, -inf], [0.6, inf]]]
    np.testing.assert_array_equal(boxes.bounds, expected)

"""The choice among combinations, and what trees learn from."""

import numpy as np

from keras_mmil.interpretation.fitting.search import GridPoint, choose, merge, tally


def test_choice_among_equals():
    grid = [
        GridPoint((4, 2), 0.9, 9),
        GridPoint((3, 3), 0.9, 8),
        GridPoint((2, 4), 0.9, 9),
        GridPoint((2, 2), 0.895, 4),
        GridPoint((2, 5), 0.9, 3),
        GridPoint((2, 3), 0.7, 2),
    ]
    assert choose(grid).n_clusters == (3, 3)
    assert choose(grid[:1] + grid[2:]).n_clusters == (2, 4)
    assert choose(grid, tolerance=0.004).n_clusters == (2, 5)
    assert choose(grid, tolerance=0.2).n_clusters == (2, 3)
    assert choose(grid[:4], tolerance=0.005).n_clusters == (2, 2)


def test_tally_merges_equal_examples():
    x = np.array([[0, 1], [1, 0], [0, 1], [0, 1]], np.float32)
    found = tally(*merge(x), np.array([1, 0, 1, 0]), np.array([1.0, 2, 3, 4]))
    triples = zip(found.bags.tolist(), found.labels, found.weights, strict=True)
    found = {(*bag, label): weight for bag, label, weight in triples}
    assert found == {(0, 1, 1): 4, (1, 0, 0): 2, (0, 1, 0): 4}

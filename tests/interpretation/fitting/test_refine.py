"""The search for numbers of clusters where there are too many combinations to try all."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil.interpretation.fitting import refine
from keras_mmil.layers import BagLayer

TO_50 = tuple(range(2, 51))


def test_few_combinations_are_all_tried():
    for options in ([tuple(range(2, 11))] * 2, [(7,), (3,)], [tuple(range(2, 300))]):
        assert refine.coarse(options) == options


def test_of_many_combinations_some_are_tried():
    first, second = refine.coarse([TO_50, TO_50])
    assert first == second == (2, 3, 5, 8, 13, 20, 32, 50)
    assert refine.coarse([TO_50, (2, 3, 4), TO_50])[1] == (2, 3, 4)
    gaps = (2, 9, 10, 11, 12, 13, 14, 15, 16, 40, 41)  # of numbers that the data allow
    found = refine.coarse([gaps] * 3)[0]
    assert set(found) < set(gaps)
    assert (found[0], found[-1]) == (2, 41)


@pytest.mark.parametrize(
    ("best", "tried", "expected"),
    [
        (8, {2, 5, 8, 13, 50}, (6, 8, 10)),
        (8, {2, 7, 8, 10, 50}, (8, 9)),
        (8, {2, 6, 8, 9}, (7, 8)),
        (8, {7, 8, 9}, None),
        (2, {2, 5}, (2, 3)),
        (50, {2, 30, 50}, (40, 50)),
        (2, {2}, None),
    ],
)
def test_around_the_best(best, tried, expected):
    assert refine.around((best,), [TO_50], [tried]) == (expected and [expected])


def test_levels_are_refined_together():
    found = refine.around((8, 3), [TO_50, TO_50], [{5, 8, 13}, {2, 3, 4}])
    assert found == [(6, 8, 10), (3,)]


@pytest.mark.parametrize("peak", [(2, 2), (17, 31), (50, 3), (23, 50)])
def test_climbs_to_a_single_peak(peak):
    """With fidelity that falls off on all sides, on a logarithmic scale, the best is found."""
    options = [TO_50, TO_50]
    tried, ks, n_tried = [set(), set()], refine.coarse(options), 0
    grid = {}
    while ks is not None:
        for known, more in zip(tried, ks, strict=True):
            known.update(more)
        for first in ks[0]:
            for second in ks[1]:
                n_tried += (first, second) not in grid
                misfit = np.log(first / peak[0]), np.log(second / peak[1])
                grid[first, second] = -np.hypot(*misfit)
        best = max(grid, key=grid.get)
        ks = refine.around(best, options, tried)
    assert best == peak
    assert n_tried < 110  # of 2,401


@pytest.mark.slow
@pytest.mark.nightly  # above, the same search without a network
def test_an_explainer_with_many_clusters():
    """Points of nine places; of which some make a bag positive: more clusters say more."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(9, 2)) * 8
    which = rng.integers(0, 9, (150, 6, 4))
    x = places[which] + rng.normal(size=(150, 6, 4, 2)) * 0.3
    y = ((which == 3).any(axis=2) & ~(which == 5).any(axis=2)).any(axis=1).astype(int)
    bags = tf.RaggedTensor.from_tensor(x.astype("float32"), ragged_rank=2)
    inputs = keras.Input((None, None, 2), ragged=True)
    hidden = BagLayer(16)(BagLayer(16)(inputs))
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy")
    model.fit(bags, y, epochs=15, verbose=0)
    # Rows that are drawn with one seed of five show too little of the few negative top-bags.
    arguments = {"max_rows": 500, "n_init": 1, "random_state": 1, "verbose": 0}
    explainer = keras_mmil.Explainer(max_clusters=24, **arguments)
    explainer.fit(model, bags[:100], bags[100:])
    tried = {point.n_clusters for point in explainer.grid_}
    assert 49 < len(tried) < 200  # of 529
    best = max(point.fidelity for point in explainer.grid_)
    assert explainer.fidelity_ == best == explainer.fidelity(bags[100:])
    again = keras_mmil.Explainer(n_clusters=explainer.n_clusters_, **arguments)
    again.fit(model, bags[:100], bags[100:])
    assert str(again.rules_) == str(explainer.rules_)

"""Rules are compared with generating ones: on the paper's example offside, and on digits."""

import functools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil.datasets.synthetic import points
from keras_mmil.interpretation.rules.features import OCCURRENCE, Bag, Space
from keras_mmil.layers import BagLayer
from keras_mmil.zoo.experiments.digits import matches_generating_rule
from keras_mmil.zoo.experiments.truth_table import rules_match

pytestmark = pytest.mark.graphs  # trainings of many steps

IN_FRONT, CANNOT_BE_TOLD = 1, 2  # latent labels of players; 0 is behind
NOT_OFFSIDE, OFFSIDE, INCONCLUSIVE = 0, 1, 2  # labels of images


def image_rule(has):
    return np.select(
        [has(IN_FRONT), ~has(CANNOT_BE_TOLD)], [NOT_OFFSIDE, OFFSIDE], default=INCONCLUSIVE
    )


def referee_rule(has):
    return has(OFFSIDE) & ~has(NOT_OFFSIDE)


@functools.cache
def offside(seed=0):
    """A network trained on the offside problem, its rules, and the majority of each cluster."""
    keras.utils.set_random_seed(seed)
    (x, y, _), (x_valid, _, z_valid), (x_test, y_test, _) = points.load_offside(
        n_train=500, n_valid=200, n_test=500, seed=seed, instance_labels=True
    )
    bags = keras.Input((None, None, 2), ragged=True)
    labels = keras.layers.Dense(1, activation="sigmoid")(BagLayer(16)(BagLayer(16)(bags)))
    model = keras_mmil.Model(bags, labels)
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=20, batch_size=20, verbose=0)
    explainer = keras_mmil.Explainer(max_clusters=4, verbose=0).fit(model, x, x_valid)
    majority = explainer.describe(x_valid, instance_labels=z_valid)[0].majority
    return model, explainer, majority, (x_test, y_test)


@pytest.mark.slow
def test_rules_of_offside_are_the_generating_ones():
    model, explainer, majority, (x_test, y_test) = offside()
    assert model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"] >= 0.97
    assert explainer.fidelity(x_test) >= 0.97
    assert explainer.score(x_test, y_test) >= 0.97
    assert rules_match(explainer, majority, [image_rule, referee_rule], largest_bag=6)


@pytest.mark.slow
def test_truth_table_rejects_other_rules():
    _, explainer, majority, _ = offside()
    for wrong in (
        [lambda has: np.where(has(IN_FRONT), NOT_OFFSIDE, OFFSIDE), referee_rule],
        [image_rule, lambda has: has(OFFSIDE)],
        [image_rule, lambda has: ~has(OFFSIDE) | has(NOT_OFFSIDE)],
    ):
        assert not rules_match(explainer, majority, wrong, largest_bag=6)
    # It depends on the meanings.
    swapped = np.array([1, 0, 2])[majority]
    assert not rules_match(explainer, swapped, [image_rule, referee_rule], largest_bag=6)
    # In bags of one member no rule can be told from "only members of this kind".
    single = [lambda has: np.select([has(IN_FRONT), has(0)], [0, 1], 2), lambda has: has(OFFSIDE)]
    assert rules_match(explainer, majority, single, largest_bag=1)
    # It is of occurrences at each level.
    with pytest.raises(ValueError, match=r"at 1 levels. Received: .*'occurrence', 'occurrence'"):
        rules_match(explainer, majority, [image_rule], largest_bag=6)
    # Nor are the rules of offside those of digits.
    *_, (x, _, z) = points.load_offside(
        n_train=1, n_valid=1, n_test=50, seed=1, instance_labels=True
    )
    assert not matches_generating_rule(explainer, x, tf.gather([0, 7, 3], z))


def test_records_with_several_bags_have_no_truth_table():
    bags = Bag(0, OCCURRENCE, ("u1", "u2")), Bag(1, OCCURRENCE, ("v1", "v2"))
    space = Space(bags)
    level = SimpleNamespace(space=space, rules=SimpleNamespace(columns=space.columns))
    explainer = SimpleNamespace(levels_=[level])
    with pytest.raises(ValueError, match=r"hold one bag each. Received: records with 2 bags"):
        rules_match(explainer, [0, 1], [referee_rule], largest_bag=2)

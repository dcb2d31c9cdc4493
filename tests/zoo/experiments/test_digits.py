"""The experiment on digits, and truth tables of its rules."""

import functools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil.datasets.synthetic import points
from keras_mmil.layers import BagLayer
from keras_mmil.rules.trees.columns import Column
from keras_mmil.rules.trees.features import OCCURRENCE, Bag, Space
from keras_mmil.zoo.experiments import digits
from keras_mmil.zoo.experiments.digits import matches_generating_rule, rules_match


def columns_of(n_clusters):
    return tuple(Column("occurrence", f"u{i + 1}") for i in range(n_clusters))


def explainer_of(majority, sub_bag_rule, top_bag_rule, n_sub_bag_clusters=2):
    """What `matches_generating_rule` sees of an explainer with given rules."""
    sizes_and_rules = ((len(majority), sub_bag_rule), (n_sub_bag_clusters, top_bag_rule))
    levels = [
        SimpleNamespace(
            rules=SimpleNamespace(predict=rule, columns=columns_of(n)),
            space=SimpleNamespace(bags=[None]),
        )
        for n, rule in sizes_and_rules
    ]
    description = [SimpleNamespace(majority=np.array(majority))]
    return SimpleNamespace(levels_=levels, describe=lambda x, instance_labels: description)


def holds_7_and_no_3(sets):  # clusters: another digit, 7, 3, 7
    return ((sets[:, 1] + sets[:, 3] > 0) & (sets[:, 2] == 0)).astype(int)


def holds_second(sets):
    return sets[:, 1].astype(int)


@pytest.mark.parametrize(
    ("majority", "sub_bag_rule", "top_bag_rule", "expected"),
    [
        ([0, 7, 3, 7], holds_7_and_no_3, holds_second, True),
        # The names of the clusters do not matter, if the level above knows them.
        (
            [0, 7, 3, 7],
            lambda sets: 1 - holds_7_and_no_3(sets),
            lambda sets: sets[:, 0].astype(int),
            True,
        ),
        ([0, 7, 3, 7], lambda sets: 1 - holds_7_and_no_3(sets), holds_second, False),
        ([0, 7, 3, 7], lambda sets: (sets[:, 1] > 0).astype(int), holds_second, False),
        ([0, 7, 3, 7], holds_7_and_no_3, lambda sets: np.zeros(len(sets), int), False),
        # Rules that know no 7 never say positive, and there is nothing to be positive: no match.
        ([0, 1, 3, 2], lambda sets: np.zeros(len(sets), int), holds_second, False),
        ([0, 7, 7, 7], lambda sets: (sets[:, 1:].max(1) > 0).astype(int), holds_second, False),
    ],
)
def test_truth_table(majority, sub_bag_rule, top_bag_rule, expected):
    explainer = explainer_of(majority, sub_bag_rule, top_bag_rule)
    assert digits.matches_generating_rule(explainer, None, None) is expected


def test_truth_table_with_more_clusters_of_sub_bags_than_labels():
    def two_kinds_of_negative(sets):
        return np.where(holds_7_and_no_3(sets) == 1, 2, sets[:, 2].astype(int))

    explainer = explainer_of(
        [0, 7, 3, 7], two_kinds_of_negative, lambda sets: sets[:, 2].astype(int), 3
    )
    assert digits.matches_generating_rule(explainer, None, None)


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


@pytest.mark.graphs  # trainings of many steps
@pytest.mark.slow
def test_rules_of_offside_are_the_generating_ones():
    model, explainer, majority, (x_test, y_test) = offside()
    assert model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"] >= 0.97
    assert explainer.fidelity(x_test) >= 0.97
    assert explainer.score(x_test, y_test) >= 0.97
    assert rules_match(explainer, majority, [image_rule, referee_rule], largest_bag=6)


@pytest.mark.graphs  # trainings of many steps
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

"""What clusters are worth to a class, and rankings by that."""

from dataclasses import replace

import numpy as np
import pytest
from digit_networks import random_ids, vectors

from keras_mmil import ragged
from keras_mmil.interpretation.readout.worth import concatenated, places_of, worths


def worth_by_recursion(levels, layer, cluster, label):
    """The same for one cluster and one class, from the cluster upwards."""
    (level,) = (each for each in levels if layer in [bag.level for bag in each.clusters])
    (at,) = (at for bag, at in level.space.of_bags if bag.level == layer)
    total = 0.0
    for rule in level.rules:
        if level is levels[-1]:
            conclusion = 1.0 if rule.conclusion == label else -1.0
        else:
            conclusion = worth_by_recursion(levels, level.record, rule.conclusion, label)
        for condition in rule.conditions:
            if condition.column == at.start + cluster:
                total += conclusion * rule.coverage * (1 if condition.low >= 0 else -1)
    return total


def test_worths_of_clusters(digit_explainer):
    for layer, found in enumerate(worths(digit_explainer.levels_, 2)):
        for (label, cluster), worth in np.ndenumerate(found):
            expected = worth_by_recursion(digit_explainer.levels_, layer, cluster, label)
            assert worth == pytest.approx(expected)


def test_a_digit_is_worth_what_the_rule_says(digit_explainer):
    """A top-bag is positive iff a sub-bag holds a 3 and no 2."""
    ids = ragged.from_nested_lists([[[0], [1], [2], [3]]])
    labels = digit_explainer.labels(vectors(ids))[0].flat_values.numpy()
    negative, positive = worths(digit_explainer.levels_, 2)[0][:, labels]
    np.testing.assert_allclose(negative, -positive)
    assert positive[3] > 0 > positive[2]
    assert positive[0] == positive[1] == 0


def test_places_are_projections():
    rng = np.random.default_rng(0)
    rows, centroids = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    distances = np.linalg.norm(rows[:, None] - centroids, axis=2)
    nearest = distances.argmin(axis=1)
    places, values = places_of(rows, nearest, centroids), rng.normal(size=4)
    for i, row in enumerate(rows):
        own, other = centroids[np.argsort(distances[i])[:2]]
        share = (row - other) @ (own - other) / ((own - other) @ (own - other))
        assert places.share[i] == pytest.approx(share)
        assert (centroids[places.other[i]] == other).all()
        a, b = values[nearest[i]], values[places.other[i]]
        assert places.between(nearest, values)[i] == pytest.approx(share * a + (1 - share) * b)
    halves = concatenated(
        [places_of(rows[at], nearest[at], centroids) for at in np.split(np.arange(50), 2)]
    )
    np.testing.assert_allclose(halves.share, places.share)
    np.testing.assert_array_equal(halves.other, places.other)


def test_places_of_no_rows():
    places = places_of(np.ones((0, 3)), np.zeros(0, int), np.ones((4, 3)))
    assert len(places.other) == len(places.share) == 0


def test_places_where_there_is_no_other_centroid():
    rows, nearest = np.ones((2, 3)), np.zeros(2, int)
    for centroids in (np.zeros((1, 3)), np.zeros((2, 3))):
        places = places_of(rows, nearest, centroids)
        np.testing.assert_array_equal(places.between(nearest, np.full(len(centroids), 5.0)), 5.0)


def test_ranking_of_instances(digit_explainer):
    ids = ragged.from_nested_lists([[[2, 0, 3], [3, 1], [0]], [[0, 2, 3], [3, 1, 2]]])
    positive, negative = digit_explainer.explain(vectors(ids))
    assert (positive.label, negative.label) == (1, 0)
    ranked = [part.position for part in positive.ranking()]
    assert sorted(ranked) == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0)]
    assert ranked[:2] == [(0, 1, 0), (0, 0, 2)]  # the 3 that decides, then another one
    assert ranked[-1] == (0, 0, 0)  # the 2 speaks against it
    ranked = [part.position for part in negative.ranking()]
    assert set(ranked[:2]) == {(1, 0, 1), (1, 1, 2)}
    assert set(ranked[-2:]) == {(1, 0, 2), (1, 1, 0)}
    assert next(part.position for part in positive.ranking(1)) == (0, 1)
    with pytest.raises(ValueError, match="level"):
        positive.ranking(2)


def test_without_the_first_ones_the_class_is_another(digit_model, digit_explainer):
    """By removal, one after the other, from many top-bags: none is left in half of the order."""
    x = vectors(random_ids(40, seed=3))
    explanations = digit_explainer.explain(x)
    for values, explanation in zip(x.to_list(), explanations, strict=True):
        if explanation.network == 0:
            continue
        gone = {part.position[1:] for part in explanation.ranking() if part.worth > 0}
        kept = [
            [row for j, row in enumerate(bag) if (i, j) not in gone] for i, bag in enumerate(values)
        ]
        rest = ragged.from_nested_lists([kept], inner_shape=(4,), depth=2, dtype="float32")
        assert digit_model(rest).numpy()[0, 0] < 0.5
        assert all(part.worth > 0 for part in explanation.ranking()[: len(gone)])


def test_what_decides_for_another_class_comes_last(digit_explainer):
    ids = ragged.from_nested_lists([[[2, 0, 3], [3, 1], [0]]])
    (explanation,) = digit_explainer.explain(vectors(ids))
    assert explanation.ranking()[0].position == (0, 1, 0)  # the 3 that decides
    another = replace(explanation, network=0)
    assert not another.agrees
    assert another.ranking()[-1].position == (0, 1, 0)

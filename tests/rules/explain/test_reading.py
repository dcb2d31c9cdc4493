"""How much clusters contribute to a class, and rankings by that."""

from dataclasses import replace

import numpy as np
import pytest
from digit_networks import random_ids, vectors

from keras_mmil import ragged
from keras_mmil.rules.explain.reading import contributions, interpolate


def by_recursion(levels, layer, cluster, label):
    """The contribution of one cluster to one class, from the cluster upwards."""
    (level,) = (each for each in levels if layer in [bag.level for bag in each.clusters])
    (at,) = (at for bag, at in level.space.of_bags if bag.level == layer)
    total = 0.0
    for rule in level.rules:
        if level is levels[-1]:
            conclusion = 1.0 if rule.conclusion == label else -1.0
        else:
            conclusion = by_recursion(levels, level.record, rule.conclusion, label)
        for condition in rule.conditions:
            if condition.column == at.start + cluster:
                total += conclusion * rule.coverage * (1 if condition.low >= 0 else -1)
    return total


def test_contributions_of_clusters(digit_explainer):
    """A top-bag is positive iff a sub-bag holds a 3 and no 2."""
    found = contributions(digit_explainer.levels_, 2)
    for layer, of_layer in enumerate(found):
        for (label, cluster), value in np.ndenumerate(of_layer):
            expected = by_recursion(digit_explainer.levels_, layer, cluster, label)
            assert value == pytest.approx(expected)
    ids = ragged.from_nested_lists([[[0], [1], [2], [3]]])
    labels = digit_explainer.labels(vectors(ids))[0].flat_values.numpy()
    negative, positive = found[0][:, labels]
    np.testing.assert_allclose(negative, -positive)
    assert positive[3] > 0 > positive[2]
    assert positive[0] == positive[1] == 0


def test_interpolations_are_projections():
    rng = np.random.default_rng(0)
    rows, centroids = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    distances = np.linalg.norm(rows[:, None] - centroids, axis=2)
    nearest = distances.argmin(axis=1)
    found, values = interpolate(rows, nearest, centroids), rng.normal(size=4)
    for i, row in enumerate(rows):
        own, other = centroids[np.argsort(distances[i])[:2]]
        share = (row - other) @ (own - other) / ((own - other) @ (own - other))
        assert found.share[i] == pytest.approx(share)
        assert (centroids[found.other[i]] == other).all()
        a, b = values[nearest[i]], values[found.other[i]]
        assert found.of(nearest, values)[i] == pytest.approx(share * a + (1 - share) * b)


def test_interpolations_without_rows_or_another_centroid():
    found = interpolate(np.ones((0, 3)), np.zeros(0, int), np.ones((4, 3)))
    assert len(found.other) == len(found.share) == 0
    rows, nearest = np.ones((2, 3)), np.zeros(2, int)
    for centroids in (np.zeros((1, 3)), np.zeros((2, 3))):
        values = interpolate(rows, nearest, centroids).of(nearest, np.full(len(centroids), 5.0))
        np.testing.assert_array_equal(values, 5.0)


def test_ranking_of_instances(digit_explainer):
    ids = ragged.from_nested_lists([[[2, 0, 3], [3, 1], [0]], [[0, 2, 3], [3, 1, 2]]])
    positive, negative = digit_explainer.explain(vectors(ids))
    assert (positive.label, negative.label) == (1, 0)
    ranked = [part.position for part in positive.ranking()]
    assert sorted(ranked) == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0)]
    assert ranked[:2] == [(0, 1, 0), (0, 0, 2)]  # the 3 that decides, then another one
    assert ranked[-1] == (0, 0, 0)  # the 2 speaks against it
    # Where rules and network disagree, what decides comes last.
    another = replace(positive, network=0)
    assert not another.agrees
    assert another.ranking()[-1].position == (0, 1, 0)
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
        ranking = explanation.ranking()
        gone = {part.position[1:] for part in ranking if part.contribution > 0}
        kept = [
            [row for j, row in enumerate(bag) if (i, j) not in gone] for i, bag in enumerate(values)
        ]
        rest = ragged.from_nested_lists([kept], inner_shape=(4,), depth=2, dtype="float32")
        assert digit_model(rest).numpy()[0, 0] < 0.5
        assert all(part.contribution > 0 for part in ranking[: len(gone)])
    # The same in small batches.
    size = digit_explainer.batch_size
    in_batches = digit_explainer.set_params(batch_size=7).explain(x)
    digit_explainer.set_params(batch_size=size)
    for ours, theirs in zip(explanations, in_batches, strict=True):
        pairs = zip(ours.ranking(), theirs.ranking(), strict=True)
        assert all(a.contribution == pytest.approx(b.contribution, abs=1e-5) for a, b in pairs)

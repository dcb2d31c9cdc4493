"""Clusters by their sizes and true labels."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from digit_networks import N_DIGITS, vectors
from record_networks import read

from keras_mmil import ragged
from keras_mmil.interpretation.readout.description import describe


@pytest.mark.slow
def test_description(digit_ids, digit_explainer):
    x = vectors(digit_ids)
    sizes = [level.sizes for level in digit_explainer.describe()]
    np.testing.assert_allclose([s.sum() for s in sizes], 1)
    positive = digit_ids.with_values(
        ragged.from_flat(
            [int(3 in s and 2 not in s) for top in digit_ids.to_list() for s in top],
            [digit_ids.row_lengths()],
        ).values
    )
    description = digit_explainer.describe(
        x,
        instance_labels=digit_ids,
        sub_bag_labels=positive,
        label_names={"sub-bag": ("no", "yes")},
    )
    table = description[0].table
    clusters = digit_explainer.labels(x)[0].flat_values.numpy()
    expected = np.zeros((3, N_DIGITS))
    for cluster, digit in zip(clusters, digit_ids.flat_values.numpy(), strict=True):
        expected[cluster, digit] += 1
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_allclose(description[0].sizes, expected.sum(axis=1) / expected.sum())
    np.testing.assert_allclose(description[1].share, 1)
    assert "of which 100.0 % are yes" in str(description)
    records = description.to_dict()
    assert [r["majority"] for r in records["sub-bag"]] in (["no", "yes"], ["yes", "no"])
    assert json.loads(json.dumps(records)) == records
    assert not all(description[0].needed)
    assert "(not used)" in str(description)
    with pytest.raises(ValueError, match=r"one for|integer label ≥ 0 for each of \d+ instances"):
        digit_explainer.describe(x, instance_labels=digit_ids[:3])
    with pytest.raises(ValueError, match="Received: x=None"):
        digit_explainer.describe(instance_labels=digit_ids)
    with pytest.raises(ValueError, match="labels below 1"):
        digit_explainer.describe(x, sub_bag_labels=positive, label_names={"sub-bag": ("no",)})


@pytest.mark.slow
def test_labels_of_levels_that_there_are_not(churn_explainer, customers):
    """In a tree, no bag-layer is that of the sub-bags."""
    x = read(customers[:5])
    paths = r"orders\.items\.product\.tags, orders\.items, orders, visits"
    with pytest.raises(ValueError, match=f"labels of instances only.*bag-layers on {paths}"):
        churn_explainer.describe(x, instance_labels=np.zeros(3, int))
    with pytest.raises(ValueError, match=f"labels of sub-bags only.*bag-layers on {paths}"):
        churn_explainer.describe(x, sub_bag_labels=np.zeros(3, int))


def test_labels_of_sub_bags_where_there_are_none():
    levels = [
        SimpleNamespace(record=1, clusters=(bag,), needed=((True, True),))
        for bag in (SimpleNamespace(level=0, path="", word="instance"),)
    ]
    with pytest.raises(ValueError, match=r"labels of sub-bags only.*bag-layers on instance$"):
        describe(levels, None, {0: None, 1: np.zeros(3, int)}, {})

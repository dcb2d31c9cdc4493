"""Whether rules about digits are those that generated the data."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.zoo.experiments import digits


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

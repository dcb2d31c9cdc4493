"""The experiment "A Semi-Synthetic Dataset", whose rules are checked by truth table."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.types import Array, Ints, Tensors
from keras_mmil.bags import Bags
from keras_mmil.datasets import mnist
from keras_mmil.rules import Explainer
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import Data, Experiment, Split, at_most
from keras_mmil.zoo.images import mnist_mmil

__all__ = ["GeneratingRule", "Has", "digit_experiment", "matches_generating_rule", "rules_match"]


def digit_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`."""
    return Experiment(
        **vars(entry),
        build=mnist_mmil,
        load=_load,
        batch_size=20,
        called=("image", "bag"),
        check_rules=matches_generating_rule,
    )


def _load(
    *, seed: int = 0, limit: int | None = None, source: str = "mnist", unlabelled: bool = False
) -> Data:
    parts = mnist.load_mmil(
        n_train=at_most(limit, 5000),
        n_valid=at_most(limit, 1000),
        n_test=at_most(limit, 5000),
        source=source,
        seed=seed,
        instance_labels=True,
    )
    train, valid, test = (Split(*part) for part in parts)

    def name_clusters(explainer: Explainer, _: Bags | Tensors) -> None:
        """After the digits that most of their images show."""
        explainer.rename(0, explainer.describe(valid.x, valid.instance_labels)[0].majority_names)

    return Data(train=train, valid=valid, test=test, name_clusters=name_clusters)


def matches_generating_rule(
    explainer: Explainer, x: Tensors, digits: tf.RaggedTensor, largest_bag: int = 6
) -> bool:
    """Whether rules are logically equal to the rule that generated the data; see `rules_match`.

    Each cluster of instances stands for the majority of its `digits`, which are ragged like `x`.
    """
    majority = explainer.describe(x, instance_labels=digits)[0].majority  # (clusters,)
    rules: list[GeneratingRule] = [lambda has: has(7) & ~has(3), lambda has: has(True)]
    return rules_match(explainer, majority, rules, largest_bag)


# A function from a meaning to whether each set of clusters contains it, bool [sets].
Has: TypeAlias = Callable[[int], npt.NDArray[np.bool_]]
# A function from `has` to the meanings of the sets themselves, bool or int [sets].
GeneratingRule: TypeAlias = Callable[[Has], Array]


def rules_match(
    explainer: Explainer,
    meanings: Sequence[int] | Ints,
    generating_rules: Sequence[GeneratingRule],
    largest_bag: int,
) -> bool:
    """Whether rules are logically equal to the generating rules, by truth table.

    At each level, the rules are applied to every set of clusters that a bag can hold, and the
    generating rule to the meanings of these clusters. Each cluster of bags must have one meaning,
    which is used at the next level, and each class of top-bags must mean itself.

    Args:
        explainer: a fitted `Explainer` whose rules are about occurrences.
        meanings: of the clusters of instances, such as majority labels: integers [clusters].
        generating_rules: a function for each level, from the instances upwards, which maps `has`, a
            function from a meaning to whether each set contains it, bool [sets], to the meanings of
            these sets, bool or int [sets].
        largest_bag: the greatest number of members in a bag.

    Raises:
        ValueError: if the rules are not about occurrences, have another number of levels, or are
            about records with several bags.

    Example: a sub-bag is positive iff it holds a 7 and no 3, a top-bag iff it holds such a sub-bag.

    >>> rules = [lambda has: has(7) & ~has(3), lambda has: has(True)]
    >>> rules_match(explainer, majority_digits, rules, largest_bag=6)
    """
    levels = explainer.levels_
    features = ["+".join(sorted({c.feature for c in level.rules.columns})) for level in levels]
    if features != ["occurrence"] * len(generating_rules):
        raise ValueError(
            f"Expected rules on the occurrence of clusters at {len(generating_rules)} levels. "
            f"Received: rules on {features}"
        )
    several = [str(len(level.space.bags)) for level in levels if len(level.space.bags) != 1]
    if several:
        raise ValueError(
            "Expected levels whose records hold one bag each. "
            f"Received: records with {', '.join(several)} bags"
        )
    meaning_of = dict(enumerate(meanings))  # of every cluster that a bag can hold
    for level, generating_rule in zip(levels, generating_rules, strict=True):
        sets = _possible_sets(list(meaning_of), largest_bag, len(level.rules.columns))
        contains = _Contains(sets, meaning_of)
        expected = np.asarray(generating_rule(contains)).astype(int)
        if contains.unknown:
            return False  # no cluster has a meaning of the generating rule
        pairs = set(zip(level.rules.predict(sets).tolist(), expected.tolist(), strict=True))
        meaning_of = dict(pairs)
        if len(meaning_of) < len(pairs):  # a cluster with two meanings
            return False
    return all(label == meaning for label, meaning in meaning_of.items())


def _possible_sets(clusters: Sequence[int], largest: int, n_clusters: int) -> Array:
    """Occurrence vectors, float [sets, n_clusters], of all sets of 1 to `largest` clusters."""
    chosen = [
        subset
        for size in range(1, min(largest, len(clusters)) + 1)
        for subset in itertools.combinations(clusters, size)
    ]
    sets = np.zeros((len(chosen), n_clusters), "float32")
    for row, subset in enumerate(chosen):
        sets[row, list(subset)] = 1
    return sets


class _Contains:
    """`Has` for some sets; `unknown` collects the meanings that no cluster has."""

    def __init__(self, sets: Array, meaning_of: Mapping[int, int]) -> None:
        self.unknown: list[int] = []
        self._sets, self._meaning_of = sets, meaning_of

    def __call__(self, meaning: int) -> npt.NDArray[np.bool_]:
        clusters = [cluster for cluster, own in self._meaning_of.items() if own == meaning]
        if not clusters:
            self.unknown.append(meaning)
        return np.logical_or.reduce(self._sets[:, clusters], axis=1)

"""Whether rules are logically equal to those that generated the data, decided by truth table."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation import Explainer

__all__ = ["GeneratingRule", "Has", "rules_match"]

# From a meaning to whether each set of clusters contains it, bool [sets].
Has: TypeAlias = Callable[[int], npt.NDArray[np.bool_]]
# From `has` to the meanings of the sets themselves, bool or int [sets].
GeneratingRule: TypeAlias = Callable[[Has], Array]


def rules_match(
    explainer: Explainer,
    meanings: Sequence[int] | Ints,
    generating_rules: Sequence[GeneratingRule],
    largest_bag: int,
) -> bool:
    """Whether an explainer's rules are the same functions of sets as the generating rules.

    Every cluster of instances stands for its meaning. At each level the rules are applied to every
    set of clusters that a bag can hold, and the generating rule to the meanings of that set. Then
    each cluster of bags must stand for one meaning only, which is carried to the next level; and
    each class of top-bags for itself. What a generating rule asks for must be the meaning of some
    cluster.

    Args:
        explainer: a fitted `Explainer` whose rules are about occurrences.
        meanings: what each cluster of instances stands for, such as its majority label: integers
            [clusters].
        generating_rules: a function for each level, from the instances upwards. It is given `has`,
            a function from a meaning to whether each set contains it, bool [sets], and returns the
            meanings of these sets, bool or int [sets].
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
            return False  # no cluster stands for what the rule asks for
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
    """`Has` for given sets.

    Attributes:
        unknown: the meanings that were asked for and that no cluster has.
    """

    def __init__(self, sets: Array, meaning_of: Mapping[int, int]) -> None:
        self.unknown: list[int] = []
        self._sets, self._meaning_of = sets, meaning_of

    def __call__(self, meaning: int) -> npt.NDArray[np.bool_]:
        clusters = [cluster for cluster, own in self._meaning_of.items() if own == meaning]
        if not clusters:
            self.unknown.append(meaning)
        return np.logical_or.reduce(self._sets[:, clusters], axis=1)

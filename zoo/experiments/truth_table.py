"""Whether rules are logically those that data were made by, decided by truth table."""

import itertools

import numpy as np

__all__ = ["rules_match"]


def rules_match(explainer, meanings, generating_rules, largest_bag):
    """Whether an explainer's rules compute the same functions of sets as the generating ones.

    Every cluster of instances stands for its meaning. At each level the rules are applied to every
    set of clusters that a bag can hold, and the generating rule to the meanings of that set. Then
    each cluster of bags must stand for one meaning only, which is carried to the next level; and
    each class of top-bags for itself. What a generating rule speaks of must be the meaning of some
    cluster.

    Args:
        explainer: a fitted `Explainer` whose rules speak of occurrences.
        meanings: what each cluster of instances stands for, such as its majority label: integers
            [clusters].
        generating_rules: a function for each level, from the instances upwards. It is given `has`,
            a function from a meaning to bool [sets], whether each set contains it, and returns the
            meanings of these sets, bool or int [sets].
        largest_bag: the greatest number of members in a bag.

    Returns:
        bool.

    Raises:
        ValueError: if rules do not speak of occurrences, or are of another number of levels.

    Example: a sub-bag is positive iff it holds a 7 and no 3, a top-bag iff it holds such a sub-bag.

    >>> rules = [lambda has: has(7) & ~has(3), lambda has: has(True)]
    >>> rules_match(explainer, majority_digits, rules, largest_bag=6)
    """
    levels = explainer.levels_
    features = [level.feature.name for level in levels]
    if features != ["occurrence"] * len(generating_rules):
        raise ValueError(
            f"Expected rules on the occurrence of clusters at {len(generating_rules)} levels. "
            f"Received: rules on {features}"
        )
    meanings = dict(enumerate(meanings))  # of every cluster that a bag can hold
    for level, generating_rule in zip(levels, generating_rules, strict=True):
        sets = _possible_sets(meanings, largest_bag, level.n_clusters)
        contains = _Contains(sets, meanings)
        expected = np.asarray(generating_rule(contains)).astype(int)
        if contains.unknown:
            return False  # no cluster stands for what the rule speaks of
        pairs = set(zip(level.rules.predict(sets).tolist(), expected.tolist(), strict=True))
        meanings = dict(pairs)
        if len(meanings) < len(pairs):  # a cluster with two meanings
            return False
    return all(label == meaning for label, meaning in meanings.items())


def _possible_sets(clusters, largest, n_clusters):
    """Occurrence vectors, float [sets, n_clusters], of all sets of 1 to `largest` clusters."""
    clusters = list(clusters)
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
    """The function from a meaning to whether each set contains a cluster of it, bool [sets].

    It notes in `unknown` the meanings that no cluster has.
    """

    def __init__(self, sets, meanings):
        self.sets, self.meanings, self.unknown = sets, meanings, []

    def __call__(self, meaning):
        clusters = [cluster for cluster, own in self.meanings.items() if own == meaning]
        if not clusters:
            self.unknown.append(meaning)
        return self.sets[:, clusters].any(axis=1)

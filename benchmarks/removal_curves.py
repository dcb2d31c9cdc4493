"""What a network makes of top-bags while instances are removed, or added, in a given order."""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import auc

from keras_mmil import ragged
from keras_mmil._support.rows import keep_members

__all__ = ["Curves", "Scale", "curves", "kept", "sizes"]

_AT_ONCE = 1024  # edited top-bags


@dataclass(frozen=True)
class Scale:
    """What a network says on average of whole top-bags, and of empty ones.

    Attributes:
        full, empty: mean probabilities of the classes that it gives the whole top-bags.
    """

    full: float
    empty: float

    def areas(self, areas):
        """Areas under curves where `empty` is 0 and `full` is 1."""
        return (np.asarray(areas) - self.empty) / (self.full - self.empty)


@dataclass(frozen=True)
class Curves:
    """Areas under the curves of some top-bags.

    Attributes:
        deletion, insertion: areas of the probability over the share of instances that are removed,
            or added, [top-bags].
        full, empty: the probability of the class of each whole top-bag, and of an empty one.
        is_positive: whether the network puts each whole top-bag into the positive class.
    """

    deletion: np.ndarray
    insertion: np.ndarray
    full: np.ndarray
    empty: np.ndarray
    is_positive: np.ndarray

    @property
    def scale(self):
        """The averages."""
        return Scale(float(self.full.mean()), float(self.empty.mean()))


def sizes(x):
    """The number of instances in each top-bag."""
    splits = np.arange(x.nested_row_splits[-1][-1] + 1)
    for each in reversed(x.nested_row_splits):
        splits = splits[each.numpy()]
    return np.diff(splits)


def kept(x, which, stay):
    """Some top-bags with some of their instances; bags that are empty then go away.

    Args:
        x: RaggedTensor [top-bags, (n), (m), ...].
        which: indices of top-bags, which may be repeated.
        stay: for each of them bool [instances].
    """
    found = keep_members(ragged.take(x, np.asarray(which)), x.ragged_rank - 1, np.concatenate(stay))
    for level in reversed(range(x.ragged_rank - 1)):
        splits = found.nested_row_splits[level + 1].numpy()
        found = keep_members(found, level, np.diff(splits) > 0)
    return found


def curves(probability, x, scores, steps=None):
    """The curves of some top-bags.

    Args:
        probability: function from top-bags to the probability that they are positive.
        x: RaggedTensor of top-bags.
        scores: for each of them a number for each instance: the highest is removed, or added,
            first; of equal ones the first.
        steps: into which the instances are parted; None for one instance a step.
    """
    is_positive = np.asarray(probability(x)) > 0.5
    jobs, n_waiting, found = [], 0, []
    for i, of_one in enumerate(scores):
        n = len(of_one)
        rank = np.empty(n, int)
        rank[np.argsort(-np.asarray(of_one), kind="stable")] = np.arange(n)
        n_steps = n if steps is None else min(n, steps)
        counts = np.round(np.linspace(0, n, n_steps + 1)).astype(int)
        jobs.append((i, rank, counts))
        n_waiting += 2 * len(counts)
        if n_waiting >= _AT_ONCE or i == len(scores) - 1:
            found += _areas(probability, x, jobs, is_positive)
            jobs, n_waiting = [], 0
    return Curves(*np.array(found).T, is_positive)


def _areas(probability, x, jobs, is_positive):
    """For each job: areas of deletion and insertion, and the ends of the curves."""
    which, stay = [], []
    for i, rank, counts in jobs:
        which += [i] * (2 * len(counts))
        stay += [rank >= count for count in counts]
        stay += [rank < count for count in counts]
    positive = np.asarray(probability(kept(x, which, stay)))
    found, start = [], 0
    for i, _, counts in jobs:
        stop = start + 2 * len(counts)
        here = positive[start:stop] if is_positive[i] else 1 - positive[start:stop]
        deletion, insertion = np.split(here, 2)
        shares = counts / counts[-1]
        found.append((auc(shares, deletion), auc(shares, insertion), deletion[0], deletion[-1]))
        start = stop
    return found

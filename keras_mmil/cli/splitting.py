"""Records for training, validation and test."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from keras_mmil._support.types import Array, Bools, Floats, Ints

__all__ = ["Split", "at_random", "by_group", "by_time"]

_ONE_IN = 5  # records is for test, and of the others for validation
_LEAST_GROUPS = 3


class Split(NamedTuple):
    """Numbers of the records of each part, increasing.

    Attributes:
        train: those to train on.
        valid: those by which the training stops and rules are chosen.
        test: those that figures are of.
    """

    train: Ints
    valid: Ints
    test: Ints


def at_random(classes: Ints, seed: int) -> Split:
    """Parts with the same share of each class, up to one record of it.

    At least one record of each class is for training.

    Args:
        classes: of the records, [records]; all the same for numbers.
        seed: int.
    """
    random = np.random.default_rng(seed)
    test = _drawn(classes, random)
    others = np.setdiff1d(np.arange(len(classes)), test)
    valid = others[_drawn(classes[others], random)]
    return Split(np.setdiff1d(others, valid), valid, test)


def by_group(groups: Ints, classes: Ints | None, seed: int) -> Split:
    """Parts such that no group is in two of them, of about the same shares of each class.

    Args:
        groups: of the records, [records].
        classes: likewise; None for numbers.
        seed: int.

    Raises:
        ValueError: if there are too few groups.
    """
    n = len(np.unique(groups))
    if n < _LEAST_GROUPS:
        raise ValueError(
            f"Expected at least {_LEAST_GROUPS} different values, one for each part. Received: {n}"
        )
    test = _fold(groups, classes, seed)
    others = np.setdiff1d(np.arange(len(groups)), test)
    valid = others[_fold(groups[others], None if classes is None else classes[others], seed)]
    return Split(np.setdiff1d(others, valid), valid, test)


def by_time(times: Floats) -> tuple[Split, float, float]:
    """Parts one after another: the latest records are for test, those before for validation.

    Records of the same time are in the same part.

    Args:
        times: of the records, [records].

    Returns:
        The parts, and the first times of the validation and of the test.

    Raises:
        ValueError: if there are too few times.
    """
    first_of_test = _start_of_last(times)
    first_of_valid = _start_of_last(times[times < first_of_test])
    is_test, is_valid = times >= first_of_test, times >= first_of_valid
    parts = (~is_valid, is_valid & ~is_test, is_test)
    return Split(*map(np.flatnonzero, parts)), first_of_valid, first_of_test


def _drawn(classes: Ints, random: np.random.Generator) -> Ints:
    """Some of the records of each class, but never all of one."""
    order = random.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    is_first: Bools = np.diff(classes[order], prepend=-1) != 0
    left = order[~is_first]
    return np.sort(left[random.integers(min(_ONE_IN, len(left))) :: _ONE_IN])


def _fold(groups: Ints, classes: Ints | None, seed: int) -> Ints:
    n_splits = min(_ONE_IN, len(np.unique(groups)))
    has_many = classes is not None and np.bincount(classes).max() >= n_splits
    kind = StratifiedGroupKFold if has_many else GroupKFold
    folds = kind(n_splits, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        _, chosen = next(folds.split(groups, classes, groups))
    return chosen


def _start_of_last(times: Array) -> float:
    """The time from which on about as many records are as a part shall have."""
    different, counts = np.unique(times, return_counts=True)
    if len(different) < 2:
        raise ValueError(
            "Expected at least 3 different times, one for each part. "
            "Received: fewer, or nearly all records of one time"
        )
    after = np.cumsum(counts[::-1])[::-1][1:]  # records from each time on, but the first
    return float(different[1:][np.argmin(np.abs(after - len(times) / _ONE_IN))])

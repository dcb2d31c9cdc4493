"""Bags of numbered members as multisets: equal members merged, equal bags given equal keys.

Bags are flat arrays, as in a RaggedTensor: `members` int `[members]`, `weights` float32 `[members]`
(how often a member occurs) and `splits` int64 `[bags + 1]`. Nothing here loops over bags.
"""

import numpy as np

__all__ = ["keys_of", "merge_equal"]


def merge_equal(members, weights, splits):
    """Sorts the members of each bag, and merges the equal ones into one of summed weight.

    Returns:
        Positions of the members that stay `[merged]`, one of each, sorted by bag and member;
        their weights, float32 `[merged]`; and the row splits of the bags `[bags + 1]`.
    """
    bags = np.repeat(np.arange(len(splits) - 1), np.diff(splits))
    # By weight too: the sum of floats then does not depend on the order of the members.
    order = np.lexsort((weights, members, bags))
    bags, members = bags[order], members[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (bags[1:] != bags[:-1]) | (members[1:] != members[:-1])
    summed = np.bincount(np.cumsum(is_first) - 1, weights=weights[order])
    lengths = np.bincount(bags[is_first], minlength=len(splits) - 1)
    return order[is_first], summed.astype(np.float32), np.append(0, np.cumsum(lengths))


def keys_of(members, weights, splits):
    """Keys, int64 `[bags]`, equal exactly where bags hold equal sequences of (member, weight).

    Neighbours in a bag are paired and the pairs numbered, round after round, until one number is
    left of each bag: nothing is hashed, and each round works on half as many numbers.

    Returns:
        Keys from 0 to the number of distinct bags - 1.
    """
    keys = np.zeros(len(splits) - 1, np.int64)  # 0: the empty bag
    lengths = np.diff(splits)
    bags = np.flatnonzero(lengths)
    lengths = lengths[bags]
    codes = _number_pairs(_number(members), _number(weights))
    n_used = 1
    while len(bags):
        # Equal bags are as long as each other, hence done in the same round.
        is_done = np.repeat(lengths == 1, lengths)
        keys[bags[lengths == 1]] = n_used + codes[is_done]
        n_used += len(members)
        codes, bags, lengths = codes[~is_done], bags[lengths > 1], lengths[lengths > 1]
        codes, lengths = _pair_up(codes, lengths)
    return _number(keys)


def _pair_up(codes, lengths):
    """Numbers the pairs of neighbours in bags; the last of an odd number is paired with 0."""
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(len(codes)) - np.repeat(starts, lengths)  # within the bag
    is_left = positions % 2 == 0
    has_right = positions + 1 < np.repeat(lengths, lengths)
    right = np.where(has_right, np.roll(codes, -1) + 1, 0)
    return _number_pairs(codes[is_left], right[is_left]), (lengths + 1) // 2


def _number_pairs(left, right):
    return _number(left * (right.max(initial=0) + 1) + right)


def _number(values):
    """Numbers 0, 1, ... of the distinct values `[n]`, in their order."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)

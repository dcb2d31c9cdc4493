"""Bags of numbered members as multisets: equal members merged, equal bags told by keys.

Bags are flat arrays, as in a RaggedTensor: `members` int `[members]`, `weights` float32 `[members]`
(how often a member occurs) and `splits` int64 `[bags + 1]`. Nothing here loops over bags.
"""

import math

import numpy as np

__all__ = ["apart", "fingerprints", "keys_of", "merge_equal"]

# Two independent functions for fingerprints: the odd fractions of the golden ratio and of √3.
_SALTS = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], np.uint64)


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


def fingerprints(members, weights, splits, salt=0):
    """Hashes of bags as multisets of (member, weight): of their content, and of nothing else.

    They are equal for equal content in whatever data set, order of members, dtype of ids and
    machine. Two different bags have the same by chance only: n bags some two with a chance of
    about n²/2⁶⁵.

    Args:
        members: ids, ints of any dtype `[members]`, or the fingerprints of members that are bags;
            `[members, window_size]` where an instance is several ids.
        weights: float32 `[members]`.
        splits: int64 `[bags + 1]`.
        salt: 0 or 1, which of two independent functions.

    Returns:
        int64 `[bags]`.
    """
    ids = members.astype(np.int64).view(np.uint64)
    hashes = np.full(len(ids), _SALTS[salt])
    for column in ids.reshape(len(ids), math.prod(ids.shape[1:])).T:
        hashes = _mix(hashes + column)
    hashes = _mix(hashes ^ weights.astype(np.float32).view(np.uint32))
    # A sum knows no order; sums of unsigned integers wrap around, so that their differences are
    # right. The sum of an empty bag is 0.
    sums = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))[splits]
    return _mix(sums[1:] - sums[:-1] + np.diff(splits).astype(np.uint64)).view(np.int64)


def apart(prints):
    """Fingerprints `[bags]` that tell apart equal ones, too, by their place."""
    places = np.arange(1, len(prints) + 1, dtype=np.uint64)
    return _mix(prints.view(np.uint64) + _mix(places)).view(np.int64)


def _mix(x):
    """Changes about half of the bits for each bit of uint64 `[n]`; no two numbers become equal.

    Source:
        Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014 (the variant 13
        of Stafford's, as in Java's SplittableRandom).
    """
    x = x + _SALTS[:1]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


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

"""Bags of numbered members as multisets: equal members are merged, equal bags have equal keys.

Bags are flat arrays, as in a RaggedTensor: `members` int `[members]`, `weights` float32 `[members]`
(how often a member occurs) and `splits` int64 `[bags + 1]`. Nothing here loops over bags.
"""

import math

import numpy as np
import numpy.typing as npt

from keras_mmil._support.rows import bags_of_members, positions_in_bags, row_splits
from keras_mmil._support.types import Floats, Ints

# Two independent functions for fingerprints: the odd fractions of the golden ratio and of √3.
_SALTS = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], np.uint64)


def merge_equal(
    members: Ints, weights: Floats, splits: Ints
) -> tuple[Ints, npt.NDArray[np.float32], Ints]:
    """Sort the members of each bag, and merge equal ones into one with the sum of their weights.

    Returns the indices of the members that stay, sorted by bag and member, their weights, float32
    `[merged]`, and the row splits of the bags.
    """
    bags = bags_of_members(splits)
    # By weight too: the sum of floats then does not depend on the order of the members.
    order = np.lexsort((weights, members, bags))
    bags, members = bags[order], members[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (bags[1:] != bags[:-1]) | (members[1:] != members[:-1])
    summed = np.bincount(np.cumsum(is_first) - 1, weights=weights[order])
    lengths = np.bincount(bags[is_first], minlength=len(splits) - 1)
    return order[is_first], summed.astype(np.float32), np.append(0, np.cumsum(lengths))


def keys_of(members: Ints, weights: Floats, splits: Ints) -> npt.NDArray[np.int64]:
    """Keys, int64 `[bags]`, equal if and only if bags are equal sequences of (member, weight).

    Neighbours in a bag are paired and the pairs numbered, round after round, until one number of
    each bag is left: nothing is hashed, and each round works on half as many numbers. Keys run from
    0 to the number of distinct bags - 1.
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


def fingerprints(
    members: Ints, weights: Floats, splits: Ints, salt: int = 0
) -> npt.NDArray[np.int64]:
    """Hashes, int64 `[bags]`, of bags as multisets of (member, weight), and of nothing else.

    They do not depend on the data set, the order of the members, the dtype of the ids or the
    machine. Different bags have equal fingerprints only by chance: some two of n bags with a
    probability of about n²/2⁶⁵.

    Members are ids, `[members, window_size]` if an instance is several, or the fingerprints of
    bags. `salt`, 0 or 1, selects one of two independent functions.
    """
    ids = members.astype(np.int64).view(np.uint64)
    hashes = np.full(len(ids), _SALTS[salt])
    for column in ids.reshape(len(ids), math.prod(ids.shape[1:])).T:
        hashes = _mix(hashes + column)
    hashes = _mix(np.bitwise_xor(hashes, weights.astype(np.float32).view(np.uint32)))
    # A sum knows no order; sums of unsigned integers wrap around, so that their differences are
    # right. The sum of an empty bag is 0.
    sums = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))[splits]
    return _mix(sums[1:] - sums[:-1] + np.diff(splits).astype(np.uint64)).view(np.int64)


def distinct_fingerprints(prints: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Fingerprints `[bags]` that differ even for equal bags: their position is hashed, too."""
    places = np.arange(1, len(prints) + 1, dtype=np.uint64)
    return _mix(prints.view(np.uint64) + _mix(places)).view(np.int64)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash uint64 `[n]`, one to one; each bit of a number changes about half of its hash.

    Source:
        Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014 (the variant 13
        of Stafford's, as in Java's SplittableRandom).
    """
    x = x + _SALTS[:1]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _pair_up(codes: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Number the pairs of neighbours in bags; the last of an odd number is paired with 0."""
    positions = positions_in_bags(row_splits(lengths))
    is_left = positions % 2 == 0
    has_right = positions + 1 < np.repeat(lengths, lengths)
    right = np.where(has_right, np.roll(codes, -1) + 1, 0)
    return _number_pairs(codes[is_left], right[is_left]), (lengths + 1) // 2


def _number_pairs(left: Ints, right: Ints) -> Ints:
    return _number(left * (right.max(initial=0) + 1) + right)


def _number(values: Ints | Floats) -> npt.NDArray[np.int64]:
    """The numbers 0, 1, … of the distinct values `[n]`, in their order."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)

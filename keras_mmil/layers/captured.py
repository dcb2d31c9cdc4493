"""What a bag-layer shows of itself to be read."""

from typing import NamedTuple

import tensorflow as tf

__all__ = ["Captured"]


class Captured(NamedTuple):
    """What a bag-layer sees: the representations, and how they are grouped into bags.

    Attributes:
        representations: ρ, float [rows, units].
        members: row of each instance, int [instances]; None where instance i is row i.
        row_splits: instances `row_splits[b]` to `row_splits[b + 1]` belong to bag b, [bags + 1].
        weights: multiplicity or importance of each instance, float [instances], or None for 1.
    """

    representations: tf.Tensor
    members: tf.Tensor | None
    row_splits: tf.Tensor
    weights: tf.Tensor | None

"""Reductions of instances to bags, as pure functions on values and sorted row ids."""

from keras_mmil.layers.segments.kernels import gather_rows, spread
from keras_mmil.layers.segments.reductions import (
    segment_counts,
    segment_lse,
    segment_max,
    segment_mean,
    segment_pnorm,
    segment_softmax,
    segment_std,
    segment_sum,
)

__all__ = [
    "gather_rows",
    "segment_counts",
    "segment_lse",
    "segment_max",
    "segment_mean",
    "segment_pnorm",
    "segment_softmax",
    "segment_std",
    "segment_sum",
    "spread",
]

"""Sum of each bag."""

import keras

from keras_mmil.layers import segments
from keras_mmil.layers.aggregations.base import Aggregation

__all__ = ["Sum"]


@keras.saving.register_keras_serializable("keras_mmil")
class Sum(Aggregation):
    """Weighted sum: Σᵢ wᵢ ρᵢ."""

    def reduce(self, values, row_ids, num_segments, weights):
        return segments.segment_sum(values, row_ids, num_segments, weights)

    def reduce_members(self, values, members, row_ids, num_segments, weights):
        return segments.segment_sum(values, row_ids, num_segments, weights, members)

"""Mean of each bag."""

import keras

from keras_mmil.layers import segments
from keras_mmil.layers.aggregations.base import Aggregation

__all__ = ["Mean"]


@keras.saving.register_keras_serializable("keras_mmil")
class Mean(Aggregation):
    """Weighted mean: Σᵢ wᵢ ρᵢ / Σᵢ wᵢ."""

    def reduce(self, values, row_ids, num_segments, weights):
        return segments.segment_mean(values, row_ids, num_segments, weights)

    def reduce_members(self, values, members, row_ids, num_segments, weights):
        return segments.segment_mean(values, row_ids, num_segments, weights, members)

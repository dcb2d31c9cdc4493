"""Maximum of each bag."""

import keras

from keras_mmil.layers import segments
from keras_mmil.layers.aggregations.base import Aggregation

__all__ = ["Max"]


@keras.saving.register_keras_serializable("keras_mmil")
class Max(Aggregation):
    """Maximum: maxᵢ ρᵢ. Multiplicities do not change it; ties share the gradient."""

    keeps_order = True

    def reduce(self, values, row_ids, num_segments, weights):
        return segments.segment_max(values, row_ids, num_segments, weights)

    def reduce_members(self, values, members, row_ids, num_segments, weights):
        return segments.segment_max(values, row_ids, num_segments, weights, members)

"""Standard deviation of each bag."""

import keras

from keras_mmil.layers import segments
from keras_mmil.layers.aggregations.base import Aggregation

__all__ = ["Std"]


@keras.saving.register_keras_serializable("keras_mmil")
class Std(Aggregation):
    """Weighted population standard deviation: √(Σᵢ wᵢ (ρᵢ - ρ̄)² / Σᵢ wᵢ)."""

    def reduce(self, values, row_ids, num_segments, weights):
        return segments.segment_std(values, row_ids, num_segments, weights)

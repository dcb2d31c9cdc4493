"""Maximum, mean, sum and standard deviation."""

import keras
import tensorflow as tf

from keras_mmil.layers import segments
from keras_mmil.layers.aggregations.base import Aggregation

__all__ = ["Max", "Mean", "Std", "Sum"]


@keras.saving.register_keras_serializable("keras_mmil")
class Max(Aggregation):
    """Maximum: maxᵢ ρᵢ. Multiplicities do not change it; ties share the gradient."""

    keeps_order = True

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        return segments.segment_max(values, row_ids, num_segments, weights)

    def reduce_members(
        self,
        values: tf.Tensor,
        members: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        return segments.segment_max(values, row_ids, num_segments, weights, members)


@keras.saving.register_keras_serializable("keras_mmil")
class Mean(Aggregation):
    """Weighted mean: Σᵢ wᵢ ρᵢ / Σᵢ wᵢ."""

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        return segments.segment_mean(values, row_ids, num_segments, weights)

    def reduce_members(
        self,
        values: tf.Tensor,
        members: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        return segments.segment_mean(values, row_ids, num_segments, weights, members)


@keras.saving.register_keras_serializable("keras_mmil")
class Sum(Aggregation):
    """Weighted sum: Σᵢ wᵢ ρᵢ."""

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        return segments.segment_sum(values, row_ids, num_segments, weights)

    def reduce_members(
        self,
        values: tf.Tensor,
        members: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        return segments.segment_sum(values, row_ids, num_segments, weights, members)


@keras.saving.register_keras_serializable("keras_mmil")
class Std(Aggregation):
    """Weighted population standard deviation: √(Σᵢ wᵢ (ρᵢ - ρ̄)² / Σᵢ wᵢ)."""

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
    ) -> tf.Tensor:
        return segments.segment_std(values, row_ids, num_segments, weights)

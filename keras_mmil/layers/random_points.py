"""Some points of each cloud, others in every step of a training."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers.grouping import (
    bag_of_each,
    depth_of,
    group,
    with_innermost,
)

__all__ = ["RandomPoints"]

_ROUNDING = 1e-6  # relative error of a coordinate that was shifted


@keras.saving.register_keras_serializable("keras_mmil")
class RandomPoints(RawInputs):
    """Keep some points of each cloud in training, drawn at random in every step.

    What is drawn is normalised like a cloud of that size: shifted to mean 0 on each axis, and
    scaled to variance 1 over all coordinates (`builders.clouds.normalise`). Outside of training,
    clouds pass as they are. A network learns so from clouds of more points than it will see.

    Args:
        n_points: number of points of each cloud that are kept; of a smaller cloud, all.
        same_in_bag: whether the clouds of a bag keep the points at the same places, as rotations of
            one cloud should, of which a network would otherwise see more points in training than
            later.
        seed: of the random numbers.
        name, dtype: as in `keras.layers.Layer`.

    Input shape:
        RaggedTensor [batch, (n₁), …, (n_K), 3]: the innermost bags are the clouds. With
        `same_in_bag`, K is at least 2.

    Output shape:
        The same, with at most `n_points` points in a cloud in training, in random order.

    Raises:
        ValueError: if an argument is out of range, or the inputs are no ragged clouds of points in
            space.

    Example:

    >>> clouds = tf.RaggedTensor.from_tensor(tf.random.normal((2, 1024, 3)))
    >>> keras_mmil.layers.RandomPoints(100)(clouds, training=True).row_lengths().numpy()
    array([100, 100])
    """

    def __init__(
        self,
        n_points: int,
        same_in_bag: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.n_points = positive_int("n_points", n_points)
        self.same_in_bag = bool(same_in_bag)
        self.seed = check_int("seed", seed, optional=True)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build(self, inputs_shape: Shape) -> None:
        """Nothing to create."""

    def call(self, inputs: tf.RaggedTensor, training: bool = False) -> tf.RaggedTensor:
        is_ragged = isinstance(inputs, tf.RaggedTensor)
        self._check(inputs.shape, inputs.ragged_rank if is_ragged else 0)
        inputs = tf.cast(inputs, self.compute_dtype)
        if not training:
            return inputs
        rows, bags, _ = group(inputs, item_rank=1)
        splits = bags.row_splits
        cloud = bag_of_each(splits)
        place = tf.range(splits[-1], dtype=splits.dtype) - tf.gather(splits, cloud)
        scores = self._scores(inputs, cloud, place)
        # Sorted by cloud, and in a cloud at random; float64 has room for both.
        order = tf.argsort(tf.cast(cloud, tf.float64) + tf.cast(scores, tf.float64))
        is_kept = place < self.n_points  # of the sorted points
        rows = tf.gather(rows, tf.boolean_mask(order, is_kept))
        sizes = tf.minimum(splits[1:] - splits[:-1], self.n_points)
        kept = tf.RaggedTensor.from_row_lengths(
            _normalised(rows, tf.boolean_mask(cloud, is_kept)), sizes, validate=False
        )
        return with_innermost(inputs, kept)

    def _scores(self, inputs: tf.RaggedTensor, cloud: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
        """Random numbers within [0, 1), one for each point, whose place is that in its cloud."""
        if not self.same_in_bag:
            return self._uniform(tf.shape(cloud))
        splits = inputs.nested_row_splits[-2]
        largest = tf.maximum(tf.reduce_max(place) + 1, 0)  # of no points, the maximum is negative
        scores = self._uniform([tf.shape(splits)[0] - 1, tf.cast(largest, tf.int32)])
        bag = tf.gather(bag_of_each(splits), cloud)  # of each point
        return tf.gather_nd(scores, tf.stack([bag, place], axis=1))

    def _uniform(self, shape: tf.Tensor | list[tf.Tensor]) -> tf.Tensor:
        return keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)

    def compute_output_spec(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        self._check(inputs.shape, depth_of(inputs.shape) - 1 if inputs.ragged else 0)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype, ragged=True)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "n_points": self.n_points,
            "same_in_bag": self.same_in_bag,
            "seed": self.seed,
        }

    def _check(self, shape: Shape, ragged_rank: int) -> None:
        least = "[batch, (n), (m), 3]" if self.same_in_bag else "[batch, (n), 3]"
        if len(shape) < 3 + self.same_in_bag or shape[-1] != 3 or ragged_rank != len(shape) - 2:
            raise ValueError(
                f"RandomPoints '{self.name}' expected ragged clouds {least} or deeper. "
                f"Received: inputs.shape={tuple(shape)}, with {ragged_rank} ragged axes"
            )


def _normalised(points: tf.Tensor, cloud: tf.Tensor) -> tf.Tensor:
    """Points [n, 3] of clouds, shifted and scaled cloud by cloud; `cloud` is sorted."""
    x = tf.cast(points, tf.float32)
    largest = tf.reduce_max(tf.math.segment_max(tf.abs(x), cloud), axis=1)
    x -= tf.gather(tf.math.segment_mean(x, cloud), cloud)
    scale = tf.sqrt(tf.reduce_mean(tf.math.segment_mean(tf.square(x), cloud), axis=1))
    # Where all points are equal, only rounding errors are left, which must not be scaled up.
    scale = tf.where(scale > _ROUNDING * largest, scale, tf.zeros_like(scale))
    return tf.cast(tf.math.divide_no_nan(x, tf.gather(scale, cloud)[:, None]), points.dtype)

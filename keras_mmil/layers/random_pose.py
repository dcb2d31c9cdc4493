"""Random changes of point clouds in training."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_int, check_number
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import bag_of_each, group, with_rows

__all__ = ["RandomPose"]


@keras.saving.register_keras_serializable("keras_mmil")
class RandomPose(RawInputs):
    """Turn, stretch and jitter clouds of points at random in training; each cloud in its own way.

    Args:
        rotation: clouds are turned about the z axis by up to this fraction of a full turn, either
            way.
        scale: smallest and largest factor by which each axis is stretched.
        jitter: standard deviation of what is added to each coordinate of each point.
        seed: of the random numbers.
        name, dtype: as in `keras.layers.Layer`.

    Input shape:
        RaggedTensor or tensor [batch, (n₁), …, (n_K), 3]: the innermost bags are the clouds.

    Output shape:
        The same.

    Raises:
        ValueError: if an argument is out of range, or the inputs are no clouds of points in space.

    Example:

    >>> clouds = tf.random.normal((2, 100, 3))
    >>> keras_mmil.layers.RandomPose()(clouds, training=True).shape
    TensorShape([2, 100, 3])

    Source:
        The default values are those of the authors' program of Zaheer et al., Deep Sets, 2017.
    """

    def __init__(
        self,
        rotation: float = 0.05,
        scale: Sequence[float] = (0.8, 1.25),
        jitter: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if len(scale) != 2 or not 0 < scale[0] <= scale[1]:
            raise ValueError(f"Expected two factors, 0 < low <= high. Received: {scale=}")
        self.rotation = check_number("rotation", rotation, 0, 0.5)
        self.scale = tuple(check_number("scale", factor) for factor in scale)
        self.jitter = check_number("jitter", jitter, 0)
        self.seed = check_int("seed", seed, optional=True)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build(self, inputs_shape: Shape) -> None:
        """Nothing to create."""

    def call(self, inputs: Nested, training: bool = False) -> Nested:
        self._check(inputs.shape)
        inputs = tf.cast(inputs, self.compute_dtype)
        if not training:
            return inputs
        rows, bags, _ = group(inputs, item_rank=1)
        rows = tf.reshape(rows, [-1, 3])
        n = tf.shape(bags.row_splits)[0] - 1
        angles = 2 * math.pi * self._uniform([n], -self.rotation, self.rotation)
        poses = _turns(angles) * self._uniform([n, 3, 1], *self.scale)  # rows are scaled axes
        rows = tf.einsum("nij,nj->ni", tf.gather(poses, bag_of_each(bags.row_splits)), rows)
        if self.jitter:
            noise = keras.random.normal(tf.shape(rows), dtype=rows.dtype, seed=self.seed_generator)
            rows += self.jitter * noise
        return with_rows(inputs, rows)

    def compute_output_spec(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        self._check(inputs.shape)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype, ragged=inputs.ragged)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "rotation": self.rotation,
            "scale": self.scale,
            "jitter": self.jitter,
            "seed": self.seed,
        }

    def _uniform(self, shape: list[tf.Tensor | int], low: float, high: float) -> tf.Tensor:
        return keras.random.uniform(
            shape, low, high, dtype=self.compute_dtype, seed=self.seed_generator
        )

    def _check(self, shape: Shape) -> None:
        if len(shape) < 3 or shape[-1] != 3:
            raise ValueError(
                f"RandomPose '{self.name}' expected clouds [batch, (n), 3] or deeper. "
                f"Received: inputs.shape={tuple(shape)}"
            )


def _turns(angles: tf.Tensor) -> tf.Tensor:
    """Matrices [n, 3, 3] that turn about the z axis by angles [n], in radians."""
    cos, sin = tf.cos(angles), tf.sin(angles)
    zero, one = tf.zeros_like(angles), tf.ones_like(angles)
    flat = tf.stack([cos, -sin, zero, sin, cos, zero, zero, zero, one], axis=1)
    return tf.reshape(flat, [-1, 3, 3])

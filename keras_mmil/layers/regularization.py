"""Layers that change something in training only."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_int, check_number, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._checks import assert_same_splits, check_ids, splits_of
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import bag_of_each, depth_of, group, with_innermost, with_rows

__all__ = ["MaskKnownLabels", "MemberDropout", "RandomPoints", "RandomPose"]


@keras.saving.register_keras_serializable("keras_mmil")
class MemberDropout(RawInputs):
    """Randomly drop members of bags in training, each with the same probability.

    Weights are not rescaled: means are over the remaining members, and sums become smaller. This is
    word dropout for texts, and edge dropout for neighbourhoods. For dropout of features, use
    `keras.layers.Dropout` on the rows.

    Args:
        rate: probability of dropping a member, from 0 to below 1.
        seed: random seed.
        name, dtype: as in `keras.layers.Dropout`.

    Call arguments:
        members: ragged ids of the members of each bag, as from `Distinct`.
        weights: their weights, or None for 1.
        training: whether to drop any.

    Input shape:
        RaggedTensors [bags, (n)]; `members` may have a last axis of size `window_size`.

    Output shape:
        The weights for a `BagLayer`, RaggedTensor [bags, (n)]: 0 for dropped members.

    Raises:
        ValueError: if the rate is out of range, or the inputs are not bags of ids.
        InvalidArgumentError: if the weights are in bags of other sizes.

    Example:

    >>> rows, words, papers = Distinct()(bag_inputs(depth=2))
    >>> members, weights = words
    >>> weights = MemberDropout(0.5)(members, weights)
    >>> x = BagLayer(250, vocabulary_size=1433)(rows, members, weights)

    Reference:
        Iyyer et al., Deep Unordered Composition Rivals Syntactic Methods for Text Classification,
        2015; Rong et al., DropEdge, 2020.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if check_number("rate", rate, 0, 1) == 1:
            raise ValueError(f"Expected a rate from 0 to below 1. Received: rate={rate!r}")
        self.rate = float(rate)
        self.seed = check_int("seed", seed, optional=True)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build(self, members_shape: Shape | None = None, weights_shape: Shape | None = None) -> None:
        """Nothing to create."""

    def call(
        self,
        members: tf.RaggedTensor,
        weights: tf.RaggedTensor | None = None,
        training: bool = False,
    ) -> tf.RaggedTensor:
        self._check(members)
        flat = self._flat_weights(members, weights)
        if training and self.rate:
            scores = keras.random.uniform(tf.shape(flat), dtype="float32", seed=self.seed_generator)
            flat = tf.where(scores < self.rate, tf.zeros_like(flat), flat)
        return tf.RaggedTensor.from_row_splits(flat, members.row_splits, validate=False)

    def _flat_weights(self, members: tf.RaggedTensor, weights: tf.RaggedTensor | None) -> tf.Tensor:
        if weights is None:
            return tf.ones(tf.shape(members.values)[:1], self.compute_dtype)
        assert_same_splits(
            {"weights": ([members.row_splits], splits_of(weights))},
            f"MemberDropout '{self.name}' expected one weight for each member, in bags of the same "
            "sizes",
        )
        return weights.values

    def compute_output_spec(
        self,
        members: keras.KerasTensor,
        weights: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        self._check(members)
        dtype = self.compute_dtype if weights is None else weights.dtype
        return keras.KerasTensor(members.shape[:2], dtype=dtype, ragged=True)

    def _check(self, members: tf.RaggedTensor | keras.KerasTensor) -> None:
        symbolic = isinstance(members, keras.KerasTensor)
        is_ragged = members.ragged if symbolic else isinstance(members, tf.RaggedTensor)
        depth = depth_of(members.shape) - 1 if symbolic else getattr(members, "ragged_rank", 0)
        if not is_ragged or depth != 1:
            raise ValueError(
                f"MemberDropout '{self.name}' expected ragged ids [bags, (n)]. "
                f"Received: members.shape={tuple(members.shape)}, ragged={is_ragged}"
            )
        check_ids(self, members=members)

    def get_config(self) -> Config:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


_ROUNDING = 1e-6  # relative error of a shifted coordinate


@keras.saving.register_keras_serializable("keras_mmil")
class RandomPoints(RawInputs):
    """Randomly sample points of each cloud in every training step.

    The sample is normalised: shifted to mean 0 on each axis, and scaled to variance 1 over all
    coordinates (`builders.clouds.normalise`). Outside of training, clouds pass unchanged. So a
    network can learn from denser clouds than it will see.

    Args:
        n_points: number of points to keep of each cloud; smaller clouds keep all.
        same_in_bag: whether the clouds of a bag keep points of the same index, as rotations of one
            cloud should: a network would else see more of its points in training than later.
        seed: random seed.
        name, dtype: as in `keras.layers.Layer`.

    Input shape:
        RaggedTensor [batch, (n₁), …, (n_K), 3]: the innermost bags are the clouds. With
        `same_in_bag`, K is at least 2.

    Output shape:
        The same; in training with at most `n_points` points in a cloud, in random order.

    Raises:
        ValueError: if an argument is out of range, or the inputs are not ragged clouds of 3-D
            points.

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
        # Sorted by cloud, and at random within each; float64 has room for both.
        order = tf.argsort(tf.cast(cloud, tf.float64) + tf.cast(scores, tf.float64))
        is_kept = place < self.n_points  # of the sorted points
        rows = tf.gather(rows, tf.boolean_mask(order, is_kept))
        sizes = tf.minimum(splits[1:] - splits[:-1], self.n_points)
        kept = tf.RaggedTensor.from_row_lengths(
            _normalised(rows, tf.boolean_mask(cloud, is_kept)), sizes, validate=False
        )
        return with_innermost(inputs, kept)

    def _scores(self, inputs: tf.RaggedTensor, cloud: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
        """A random number within [0, 1) for each point; `place` is its index in its cloud."""
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
    """Points [n, 3] shifted and scaled by cloud; `cloud` is sorted."""
    x = tf.cast(points, tf.float32)
    largest = tf.reduce_max(tf.math.segment_max(tf.abs(x), cloud), axis=1)
    x -= tf.gather(tf.math.segment_mean(x, cloud), cloud)
    scale = tf.sqrt(tf.reduce_mean(tf.math.segment_mean(tf.square(x), cloud), axis=1))
    # Equal points differ by rounding errors only, which must not be scaled up.
    scale = tf.where(scale > _ROUNDING * largest, scale, tf.zeros_like(scale))
    return tf.cast(tf.math.divide_no_nan(x, tf.gather(scale, cloud)[:, None]), points.dtype)


@keras.saving.register_keras_serializable("keras_mmil")
class RandomPose(RawInputs):
    """Randomly rotate, stretch and jitter each point cloud in training.

    Args:
        rotation: greatest rotation about the z axis in either direction, as a fraction of a turn.
        scale: smallest and largest factor by which each axis is stretched.
        jitter: standard deviation of the noise added to each coordinate of each point.
        seed: random seed.
        name, dtype: as in `keras.layers.Layer`.

    Input shape:
        RaggedTensor or tensor [batch, (n₁), …, (n_K), 3]: the innermost bags are the clouds.

    Output shape:
        The same.

    Raises:
        ValueError: if an argument is out of range, or the inputs are not clouds of 3-D points.

    Example:

    >>> clouds = tf.random.normal((2, 100, 3))
    >>> keras_mmil.layers.RandomPose()(clouds, training=True).shape
    TensorShape([2, 100, 3])

    Source:
        The defaults are those of the authors' code of Zaheer et al., Deep Sets, 2017.
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
    """Matrices [n, 3, 3] that rotate about the z axis by angles [n], in radians."""
    cos, sin = tf.cos(angles), tf.sin(angles)
    zero, one = tf.zeros_like(angles), tf.ones_like(angles)
    flat = tf.stack([cos, -sin, zero, sin, cos, zero, zero, zero, one], axis=1)
    return tf.reshape(flat, [-1, 3, 3])


@keras.saving.register_keras_serializable("keras_mmil")
class MaskKnownLabels(keras.layers.Layer):
    """Mask the outputs for labels that the network is given: they become 1 in training.

    For a network that is given some labels of an example, and predicts the others. Repeating the
    given labels is useless, and learning to do so harms the others. With a `MemberDropout` of rate
    r on the bag of given labels, the network learns from the dropped labels, and from those that
    are absent.

    Outside of training, outputs pass unchanged: for a given label, the output is what the network
    would predict without it. As only the share r of the labels was dropped, odds are r times those
    of the label: an output above r / (1 + r) means that it is likelier than not (Elkan and Noto).

    Call arguments:
        outputs: probabilities.
        told: above 0 for the labels that the network is given.
        training: whether this is training.

    Input shape:
        Two float tensors of the same shape, [batch, labels].

    Output shape:
        The same.

    Raises:
        ValueError: if the shapes differ.

    Example:

    >>> outputs, told = tf.constant([[0.2, 0.7]]), tf.constant([[1.0, 0.0]])
    >>> keras_mmil.layers.MaskKnownLabels()(outputs, told, training=True).numpy()
    array([[1. , 0.7]], dtype=float32)

    Reference:
        Elkan and Noto, Learning Classifiers from Only Positive and Unlabeled Data, 2008.
    """

    def build(self, outputs_shape: Shape, told_shape: Shape) -> None:
        """Nothing to create."""
        if tuple(outputs_shape) != tuple(told_shape):
            raise ValueError(
                f"MaskKnownLabels '{self.name}' expected tensors of one shape. Received: "
                f"outputs.shape={tuple(outputs_shape)}, told.shape={tuple(told_shape)}"
            )

    def call(self, outputs: tf.Tensor, told: tf.Tensor, training: bool = False) -> tf.Tensor:
        return tf.where(told > 0, tf.ones_like(outputs), outputs) if training else outputs

    def compute_output_shape(self, outputs_shape: Shape, told_shape: Shape) -> Shape:
        return outputs_shape

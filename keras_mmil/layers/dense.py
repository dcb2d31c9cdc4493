"""Dense layers on concatenated rows, and on the differences of instances from their bag."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers import aggregations
from keras_mmil.layers._checks import ReadsOldConfigs, check_ids
from keras_mmil.layers._types import Activation, Initializer, Nested
from keras_mmil.layers.aggregations import Identifier
from keras_mmil.layers.grouping import bag_of_each, group, with_rows
from keras_mmil.layers.segments import gather_rows, spread

__all__ = [
    "ConcatDense",
    "EquivariantBagLayer",
    "GroupedDense",
    "features_of_group",
    "in_groups",
    "join_groups",
    "project",
    "project_tuples",
]


@keras.saving.register_keras_serializable("keras_mmil")
class ConcatDense(ReadsOldConfigs, RawInputs, keras.layers.Dense):
    """Dense layer on concatenations of P rows, which are never made: α(w·[φ¹; …; φᴾ] + b).

    As w·[φ¹; …; φᴾ] = w¹φ¹ + … + wᴾφᴾ, each row, such as a word, is multiplied once with the part
    of w for each position, however many instances (its trigrams) contain it; the products are then
    gathered and added. `BagLayer(window_size=P)` does the same within a bag-layer.

    Args:
        units: size of the output.
        window_size: P.
        activation, use_bias, kernel_initializer, …: as in `keras.layers.Dense`.

    Call arguments:
        inputs: distinct rows, float [rows, features].
        members: the P rows of each instance, ragged or dense ints with a last axis of size P.

    Input shape:
        [rows, features], and members [batch, …, P].

    Output shape:
        That of `members` with units for P. The weights are those of a `Dense` on the
        concatenations: kernel [P * features, units].

    Raises:
        ValueError: if `members` is missing, is not of integers, or its last axis is not of size P;
            or if an input has a Keras mask.

    Example:

    >>> words = tf.random.normal((5, 4))
    >>> trigrams = tf.ragged.constant([[[0, 1, 2], [1, 2, 4]], [[3, 3, 3]]], inner_shape=(3,))
    >>> keras_mmil.layers.ConcatDense(6, window_size=3)(words, trigrams).shape
    TensorShape([2, None, 6])
    """

    def __init__(self, units: int, window_size: int, **kwargs: Any) -> None:
        super().__init__(positive_int("units", units), **kwargs)
        self.window_size = positive_int("window_size", window_size)

    def build(self, inputs_shape: Shape, members_shape: Shape | None = None) -> None:
        features = self._check(inputs_shape, members_shape)
        super().build((None, features * self.window_size))
        self.input_spec = None  # Dense's is about concatenations

    def call(self, inputs: tf.Tensor, members: Nested) -> Nested:
        self._check(inputs.shape, members.shape)
        check_ids(self, members=members)
        ids = members.flat_values if isinstance(members, tf.RaggedTensor) else members
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype) if self.use_bias else None
        rows = tf.cast(inputs, self.compute_dtype)
        x = project_tuples(rows, kernel, bias, tf.reshape(ids, [-1, self.window_size]))
        x = x if self.activation is None else self.activation(x)  # (instances, units)
        return with_rows(members, x)

    def compute_output_spec(
        self, inputs: keras.KerasTensor, members: keras.KerasTensor
    ) -> keras.KerasTensor:
        self._check(inputs.shape, members.shape)
        check_ids(self, members=members)
        return keras.KerasTensor(
            (*members.shape[:-1], self.units), dtype=self.compute_dtype, ragged=members.ragged
        )

    def get_config(self) -> Config:
        return {**super().get_config(), "window_size": self.window_size}

    def _check(self, inputs_shape: Shape, members_shape: Shape | None) -> int:
        """The number of features of a row; ValueError for invalid shapes."""
        features = inputs_shape[-1] if len(inputs_shape) == 2 else None
        if features is None:
            raise ValueError(
                f"ConcatDense '{self.name}' expected rows [rows, features]. "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )
        if members_shape is None or len(members_shape) < 2 or members_shape[-1] != self.window_size:
            shape = None if members_shape is None else tuple(members_shape)
            raise ValueError(
                f"ConcatDense '{self.name}' expected members [batch, …, {self.window_size}], the "
                f"rows of each instance. Received: members.shape={shape}"
            )
        return features


@keras.saving.register_keras_serializable("keras_mmil")
class EquivariantBagLayer(RawInputs, keras.layers.Dense):
    """Map each instance's difference from its bag: ρᵢ = α(w(φᵢ - Ξⱼ φⱼ) + b).

    Bags keep their structure, so that such layers can be stacked below a `BagLayer`. The result
    does not depend on the order of the instances.

    Args:
        units: size of ρ.
        activation: α.
        aggregation: Ξ, "max" or "mean"; or another that `BagLayer` takes.
        use_bias, kernel_initializer, …: as in `keras.layers.Dense`.

    Input shape:
        RaggedTensor or tensor [batch, (n₁), …, (n_K), features]: Ξ reduces the innermost bags.

    Output shape:
        [batch, (n₁), …, (n_K), units].

    Raises:
        ValueError: if the inputs are not bags of vectors, or have a Keras mask.

    Example:

    >>> clouds = tf.random.normal((2, 100, 3))
    >>> x = keras_mmil.layers.EquivariantBagLayer(256)(clouds)
    >>> keras_mmil.layers.BagLayer(None)(x).shape
    TensorShape([2, 256])

    Reference:
        Zaheer et al., Deep Sets, 2017: equation 4, and its variant by maxima.
    """

    def __init__(
        self,
        units: int,
        activation: Activation = "tanh",
        aggregation: Identifier = "max",
        **kwargs: Any,
    ) -> None:
        super().__init__(positive_int("units", units), activation=activation, **kwargs)
        self.aggregation = aggregations.get(aggregation)
        if not self.aggregation.built:
            self.aggregation.dtype_policy = self.dtype_policy

    def build(self, inputs_shape: Shape) -> None:
        self._check(inputs_shape)
        features = inputs_shape[-1]
        super().build((None, features))
        self.input_spec = None  # Dense's knows no ragged axes
        if not self.aggregation.built:
            self.aggregation.build((None, features))

    def call(self, inputs: Nested) -> Nested:
        self._check(inputs.shape)
        rows, bags, _ = group(tf.cast(inputs, self.compute_dtype), item_rank=1)
        # A batch without instances loses its inner dimension, hence the reshape.
        rows = tf.reshape(rows, [-1, inputs.shape[-1]])
        row_ids = bag_of_each(bags.row_splits)
        n_bags = tf.shape(bags.row_splits)[0] - 1
        centres = self.aggregation(rows, row_ids=row_ids, num_segments=n_bags)
        kernel = tf.cast(self.kernel, self.compute_dtype)
        shifts = -(centres @ kernel)  # (bags, units): the product is linear
        if self.use_bias:
            shifts += tf.cast(self.bias, self.compute_dtype)
        x = self.activation(rows @ kernel + spread(shifts, row_ids))  # (instances, units)
        return with_rows(inputs, x)

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        self._check(inputs.shape)
        return keras.KerasTensor(
            (*inputs.shape[:-1], self.units), dtype=self.compute_dtype, ragged=inputs.ragged
        )

    def get_config(self) -> Config:
        return {**super().get_config(), "aggregation": aggregations.serialize(self.aggregation)}

    def _check(self, shape: Shape) -> None:
        if len(shape) < 3 or shape[-1] is None:
            raise ValueError(
                f"EquivariantBagLayer '{self.name}' expected bags [batch, (n), features] or "
                f"deeper, of a known number of features. Received: inputs.shape={tuple(shape)}"
            )


_SHAPES = "inputs_shape", "shared_shape", "partly_shape"


@keras.saving.register_keras_serializable("keras_mmil")
class GroupedDense(RawInputs):
    """Dense layers side by side: each group of units reads its own group of features.

    So the members of an ensemble are one network: a layer of one of them is a group.

    Args:
        units: size of the output, a multiple of `groups`.
        groups: number of groups, which are next to each other in the inputs and in the output.
        activation: of the units.
        n_blind: number of groups, the last ones, that do not read `partly`.
        kernel_initializer, bias_initializer: of each group.

    Call arguments:
        inputs: [n, features], whose features are in groups of equal size; None for none.
        shared: [n, features] that all groups read; None for none.
        partly: [n, features] that all groups but the blind ones read; None for none.

    Output shape:
        [n, units].

    Raises:
        ValueError: if units or features do not split into the groups, or there is no input.

    Example:

    >>> members = keras_mmil.layers.GroupedDense(8 * 16, groups=8, activation="relu")
    >>> members(None, tf.random.normal((2, 5))).shape
    TensorShape([2, 128])
    """

    def __init__(
        self,
        units: int,
        groups: int,
        activation: Activation = None,
        n_blind: int = 0,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units, self.groups = positive_int("units", units), positive_int("groups", groups)
        self.n_blind = check_int("n_blind", n_blind, most=self.groups)
        if self.units % self.groups:
            raise ValueError(f"Expected units in {groups} groups. Received: units={units}")
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(
        self,
        inputs_shape: Shape | None = None,
        shared_shape: Shape | None = None,
        partly_shape: Shape | None = None,
    ) -> None:
        shapes = inputs_shape, shared_shape, partly_shape
        if shapes == (None, None, None):
            raise ValueError(f"GroupedDense '{self.name}' expected an input. Received: None")
        self._shapes = dict(zip(_SHAPES, shapes, strict=True))
        initializer = in_groups(self.kernel_initializer, self.groups)
        self.kernel = self.shared_kernel = self.partly_kernel = None
        if inputs_shape is not None:
            features = features_of_group(self, inputs_shape[-1], self.groups)
            self.kernel = self.add_weight(
                shape=(features, self.units), initializer=initializer, name="kernel"
            )
        if shared_shape is not None:
            self.shared_kernel = self.add_weight(
                shape=(shared_shape[-1], self.units), initializer=initializer, name="shared_kernel"
            )
        n_seeing = self.groups - self.n_blind
        if partly_shape is not None and n_seeing:
            self.partly_kernel = self.add_weight(
                shape=(partly_shape[-1], self.units // self.groups * n_seeing),
                initializer=in_groups(self.kernel_initializer, n_seeing),
                name="partly_kernel",
            )
        self.bias = self.add_weight(
            shape=(self.units,), initializer=self.bias_initializer, name="bias"
        )

    def get_build_config(self) -> Config:
        """The shapes of all inputs: Keras takes the only one for the first."""
        return self._shapes

    def build_from_config(self, config: Config) -> None:
        """Create the weights of a saved layer."""
        shapes = [config[name] for name in _SHAPES]
        self.build(*(None if shape is None else tuple(shape) for shape in shapes))
        self.built = True

    def call(
        self,
        inputs: tf.Tensor | None,
        shared: tf.Tensor | None = None,
        partly: tf.Tensor | None = None,
    ) -> tf.Tensor:
        x = tf.cast(self.bias, self.compute_dtype)
        if self.kernel is not None:
            kernel = tf.cast(self.kernel, self.compute_dtype)
            x += project(tf.cast(inputs, x.dtype), kernel, groups=self.groups)
        if self.shared_kernel is not None:
            x += tf.cast(shared, x.dtype) @ tf.cast(self.shared_kernel, self.compute_dtype)
        if self.partly_kernel is not None:
            seen = tf.cast(partly, x.dtype) @ tf.cast(self.partly_kernel, self.compute_dtype)
            x += tf.pad(seen, [[0, 0], [0, self.units - self.partly_kernel.shape[1]]])
        return self.activation(x)

    def compute_output_spec(
        self,
        inputs: keras.KerasTensor | None,
        shared: keras.KerasTensor | None = None,
        partly: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        (n,) = {x.shape[0] for x in (inputs, shared, partly) if x is not None}
        return keras.KerasTensor((n, self.units), dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "groups": self.groups,
            "n_blind": self.n_blind,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


def features_of_group(layer: keras.Layer, features: int | None, groups: int) -> int:
    """The number of features of a group; ValueError if they do not split evenly."""
    if features is None or features % groups:
        raise ValueError(
            f"{type(layer).__name__} '{layer.name}' expected features in {groups} groups of equal "
            f"size. Received: {features} features"
        )
    return features // groups


def in_groups(initializer: Any, groups: int) -> Any:
    """An initializer of kernels [features, units] by that of the kernel of each group.

    It depends on the number of units; and an initializer of Keras returns the same each time.
    """
    if groups == 1:
        return initializer

    def initialize(shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
        of_group = (*shape[:-1], shape[-1] // groups)
        each = [keras.initializers.get(initializer).clone() for _ in range(groups)]
        return tf.concat([one(of_group, dtype=dtype) for one in each], axis=-1)

    return initialize


def join_groups(parts: Sequence[tf.Tensor], groups: int) -> tf.Tensor:
    """Features [n, features] of several parts as one, those of each group next to each other."""
    if groups == 1 or len(parts) == 1:
        return tf.concat(parts, axis=1)
    split = [tf.reshape(x, [-1, groups, x.shape[1] // groups]) for x in parts]
    return tf.reshape(tf.concat(split, axis=2), [-1, sum(x.shape[1] for x in parts)])


def project(
    rows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None, groups: int = 1
) -> tf.Tensor:
    """w φ + b [rows, units] of rows [rows, features], or of ids [rows] of one-hot vectors.

    In groups, `kernel` is [features / groups, units], and each group of units has its features.
    """
    if groups > 1:
        # Written out, this takes two thirds of the time of `tf.einsum`.
        by_group = (_by_group(x, groups) for x in (rows, kernel))
        x = tf.transpose(tf.matmul(*by_group), [1, 0, 2])
        x = tf.reshape(x, [-1, kernel.shape[1]])
    else:
        x = tf.gather(kernel, rows) if rows.dtype.is_integer else rows @ kernel
    return x if bias is None else x + bias


def _by_group(x: tf.Tensor, groups: int) -> tf.Tensor:
    """[groups, n, features / groups] of [n, features]."""
    return tf.transpose(tf.reshape(x, [-1, groups, x.shape[1] // groups]), [1, 0, 2])


def project_tuples(
    rows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None, tuples: tf.Tensor
) -> tf.Tensor:
    """w φ + b [instances, units] of concatenations φ of the P rows `tuples` [instances, P].

    `rows` as for `project`; `kernel` is w, [P * features, units].
    """
    kernels = tf.split(kernel, tuples.shape[1])
    biases = [bias] + [None] * (len(kernels) - 1)
    return tf.add_n(
        [
            gather_rows(project(rows, kernel, bias), members)
            for kernel, bias, members in zip(
                kernels, biases, tf.unstack(tuples, axis=1), strict=True
            )
        ]
    )

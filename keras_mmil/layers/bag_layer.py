"""The bag-layer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers import aggregations
from keras_mmil.layers._checks import ReadsOldConfigs, check_ids
from keras_mmil.layers._types import Activation, Constraint, Initializer, Nested, Regularizer
from keras_mmil.layers.aggregations import Aggregation, Identifier
from keras_mmil.layers.dense import (
    features_of_group,
    in_groups,
    join_groups,
    project,
    project_tuples,
)
from keras_mmil.layers.grouping import (
    Grouping,
    Wrap,
    bag_of_each,
    drop_absent,
    group,
    row_count,
    with_rows,
)
from keras_mmil.layers.segments import segment_counts
from keras_mmil.layers.symbols import Symbols

__all__ = ["BagLayer"]

# As max α(x) = α(max x) for these, α is computed once for each bag; and while many instances may
# have a ReLU of 0, few have the same x, so that the gradient need not be shared.
_INCREASING = {
    keras.activations.get(name)
    for name in (
        *("elu", "exponential", "hard_sigmoid", "hard_tanh", "leaky_relu", "linear", "log_sigmoid"),
        *("relu", "relu6", "selu", "sigmoid", "softplus", "softsign", "tanh"),
    )
}


@keras.saving.register_keras_serializable("keras_mmil")
class BagLayer(ReadsOldConfigs, RawInputs):
    """Map each bag of instances to one vector: g({φ₁ … φₙ}) = Ξᵢ ρᵢ with ρᵢ = α(w φᵢ + b).

    Each bag-layer reduces the innermost bags, so K bag-layers read bags nested K times.

    Args:
        units: size of ρ and of the output; None for ρᵢ = φᵢ, without activation, kernel and bias.
        activation: α.
        aggregation: Ξ: a name ("max", "mean", "sum", "lse", "pnorm", "std", "attention",
            "gated_attention"), an `Aggregation`, or several, as in `("max", "mean")` or
            `"max|mean"`, which share the units evenly; with `units=None`, each aggregates all of φ.
        use_bias: whether to add b.
        empty: output for a bag without instances: "learned", a trained vector that starts at zero,
            or "zeros".
        vocabulary_size: for inputs that are integer ids < vocabulary_size, which stand for one-hot
            vectors that are never materialised; None for vectors.
        window_size: number of rows that are concatenated to an instance, such as the three words
            of a trigram: the size of the last axis of `members`. Each row is multiplied once with
            the part of w for each position. None where each row is an instance.
        groups: number of groups of features and of units, as in `keras.layers.Conv1D`: each group
            of units reads its own features. Several aggregations share the units of each group.
        symbols: number of symbols that stand for the instances, or a `Symbols` layer. Each ρ is
            then replaced by the nearest of k vectors, so that rules can tell exactly what a bag
            holds; see `rules.symbolize`. None for none.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        kernel_constraint, bias_constraint, activity_regularizer, name, dtype, trainable:
            as in `keras.layers.Dense`.

    Call arguments:
        inputs: the instances, nested in bags; with `members`, one row for each distinct instance.
        members: optional ragged ids of rows of `inputs`; ρ is then computed once for each row.
        weights: optional multiplicities or importance of the instances, ≥ 0, nested like them. An
            instance of weight 0 is not in the bag.
        training: whether this is training, which only makes a difference to symbols.

    Input shape:
        RaggedTensor or tensor [batch, (n₁), …, (n_K), features] (with `vocabulary_size`: without
        the last axis). With `members` [batch, (n₁), …, (n_K)]: tensor [rows, features].

    Output shape:
        [batch, (n₁), …, (n_K-1), units]: ragged for K > 1 where the input is, dense for K = 1.

    Raises:
        ValueError: if an argument is invalid, an input has the wrong rank or a Keras mask, or ids
            are not integers.
        InvalidArgumentError: if the weights are in bags of other sizes; on a CPU also for an id out
            of range. (A GPU reads zeros for it, so `keras_mmil.Model` checks ids before training.)

    Example:

    >>> bags = tf.ragged.constant([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]], inner_shape=(2,))
    >>> keras_mmil.layers.BagLayer(3)(bags).shape
    TensorShape([2, 3])

    Reference:
        Tibo, Jaeger and Frasconi, Learning and Interpreting Multi-Multi-Instance Learning
        Networks, 2020, section "A Network Architecture for MMIL".
    """

    def __init__(
        self,
        units: int | None,
        activation: Activation = "relu",
        aggregation: Identifier | Sequence[Identifier] = "max",
        use_bias: bool = True,
        empty: str = "learned",
        vocabulary_size: int | None = None,
        window_size: int | None = None,
        groups: int = 1,
        symbols: int | Symbols | Config | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        activity_regularizer: Regularizer = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = positive_int("units", units, optional=True)
        self.vocabulary_size = positive_int("vocabulary_size", vocabulary_size, optional=True)
        self.window_size = positive_int("window_size", window_size, optional=True)
        self.groups = positive_int("groups", groups)
        self.empty = empty
        self.symbols = Symbols.get(symbols)
        self.aggregations = aggregations.get_all(aggregation)
        self._check_arguments()
        for each in self.aggregations:
            if not each.built:
                each.dtype_policy = self.dtype_policy
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        # Keras would apply its own attribute to a RaggedTensor, and fail.
        self.output_regularizer = keras.regularizers.get(activity_regularizer)

    @property
    def _item_rank(self) -> int:
        return 1 if self.vocabulary_size is None else 0

    @property
    def _member_rank(self) -> int:
        return 0 if self.window_size is None else 1

    def build(
        self,
        inputs_shape: Shape,
        members_shape: Shape | None = None,
        weights_shape: Shape | None = None,
    ) -> None:
        self._check_shapes(inputs_shape, members_shape)
        features = self.vocabulary_size or inputs_shape[-1]
        if features is None:
            raise ValueError(
                f"BagLayer '{self.name}' expected a known number of features. "
                f"Received: inputs.shape={tuple(inputs_shape)}. If the innermost lists are "
                "instances, give their inner_shape to `ragged.from_nested_lists` or "
                "`tf.ragged.constant`, such as inner_shape=(3,)"
            )
        self._features = features
        if self.units is not None:
            self.kernel = self.add_weight(
                shape=(
                    features_of_group(self, features, self.groups) * (self.window_size or 1),
                    self.units,
                ),
                initializer=in_groups(self.kernel_initializer, self.groups),
                regularizer=self.kernel_regularizer,
                constraint=self.kernel_constraint,
                name="kernel",
            )
            if self.use_bias:
                self.bias = self.add_weight(
                    shape=(self.units,),
                    initializer=self.bias_initializer,
                    regularizer=self.bias_regularizer,
                    constraint=self.bias_constraint,
                    name="bias",
                )
        if self.empty == "learned":
            self.empty_vector = self.add_weight(
                shape=(self._output_units(features),), initializer="zeros", name="empty_vector"
            )
        if self.symbols is not None and not self.symbols.built:
            self.symbols.dtype_policy = self.dtype_policy
            self.symbols.build((None, self.units or features))
        width = features if self.units is None else self.units // len(self.aggregations)
        for each in self.aggregations:
            if not each.built:
                each.build((None, width))

    def call(
        self,
        inputs: Nested,
        members: Nested | None = None,
        weights: Nested | None = None,
        training: bool = False,
    ) -> Nested:
        rows, bags, wrap = self._read(inputs, members, weights)
        row_ids = bag_of_each(bags.row_splits)
        members, weights = bags.members, bags.weights
        if weights is not None and members is None:
            rows, row_ids, weights = drop_absent(rows, row_ids, weights)
        elif weights is not None:
            members, row_ids, weights = drop_absent(members, row_ids, weights)
        parts, members = self._preactivate(rows, members)
        if self.symbols is not None:
            parts = self._symbolized(parts, training)
        outputs = wrap(
            self._activate_and_aggregate(
                parts,
                row_ids=row_ids,
                num_segments=tf.shape(bags.row_splits)[0] - 1,
                weights=weights,
                members=members,
            )
        )
        if self.output_regularizer is not None:
            self._add_output_loss(outputs)
        return outputs

    def represent(
        self, inputs: Nested, members: Nested | None = None, weights: Nested | None = None
    ) -> Nested:
        """The representations ρ before aggregation, nested like `inputs`.

        With `members`: [rows, units], or with `window_size` [instances, units].
        """
        representations, _ = self._represent(inputs, members, weights)
        if members is not None:
            return representations
        return with_rows(inputs, representations, self._item_rank)

    def capture(
        self, inputs: Nested, members: Nested | None = None, weights: Nested | None = None
    ) -> tuple[tf.Tensor, Grouping[tf.Tensor | None]]:
        """The representations ρ [rows, units], and the `Grouping` of these rows into bags."""
        return self._represent(inputs, members, weights)

    def compute_output_spec(
        self,
        inputs: keras.KerasTensor,
        members: keras.KerasTensor | None = None,
        weights: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        self._check(inputs, members)
        if members is None:
            structure, item_rank = inputs, self._item_rank
        else:
            structure, item_rank = members, self._member_rank
        leading = structure.shape[: -1 - item_rank]
        return keras.KerasTensor(
            (*leading, self._output_units(self.vocabulary_size or inputs.shape[-1])),
            dtype=self.compute_dtype,
            ragged=structure.ragged and len(leading) > 1,
        )

    def get_config(self) -> Config:
        serialized = [aggregations.serialize(each) for each in self.aggregations]
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "aggregation": serialized[0] if len(serialized) == 1 else serialized,
            "use_bias": self.use_bias,
            "empty": self.empty,
            "vocabulary_size": self.vocabulary_size,
            "window_size": self.window_size,
            "groups": self.groups,
            "symbols": keras.saving.serialize_keras_object(self.symbols),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
            "activity_regularizer": keras.regularizers.serialize(self.output_regularizer),
        }

    def _check_arguments(self) -> None:
        units, vocabulary_size, window_size = self.units, self.vocabulary_size, self.window_size
        if units is None and (vocabulary_size, window_size) != (None, None):
            raise ValueError(
                "Expected units where ids stand for one-hot vectors, or several rows for one "
                f"instance. Received: units=None, {vocabulary_size=}, {window_size=}"
            )
        if self.groups > 1 and (units is None or (vocabulary_size, window_size) != (None, None)):
            raise ValueError(
                "Expected groups of units that read vectors, one row for each instance. "
                f"Received: groups={self.groups}, {units=}, {vocabulary_size=}, {window_size=}"
            )
        if self.groups > 1 and self.symbols is not None:
            raise ValueError(
                "Expected one group of units, for symbols. "
                f"Received: groups={self.groups}, symbols={self.symbols.k}"
            )
        if self.empty not in ("learned", "zeros"):
            raise ValueError(f"Expected 'learned' or 'zeros'. Received: empty={self.empty!r}")
        if units is not None and units % (len(self.aggregations) * self.groups):
            groups = f" in each of {self.groups} groups" if self.groups > 1 else ""
            raise ValueError(
                f"Expected units that split evenly between {len(self.aggregations)} aggregations"
                f"{groups}. Received: units={units}"
            )

    def _check_shapes(self, inputs_shape: Shape, members_shape: Shape | None) -> None:
        rank, window_size = self._item_rank, self.window_size

        def expect(right: bool, expected: str, **received: Shape | None) -> None:
            if not right:
                ((name, shape),) = received.items()
                shown = f"{name}=None" if shape is None else f"{name}.shape={tuple(shape)}"
                raise ValueError(f"BagLayer '{self.name}' expected {expected}. Received: {shown}")

        if members_shape is None:
            axes = "[batch, (n), features]" if rank else "ids [batch, (n)]"
            expect(len(inputs_shape) >= 2 + rank, f"bags, {axes} or deeper", inputs=inputs_shape)
            needed = f"members, {window_size} rows for each instance"
            expect(window_size is None, needed, members=None)
            return
        axes = "[rows, features]" if rank else "ids [rows]"
        expect(len(inputs_shape) == 1 + rank, f"distinct rows, {axes}", inputs=inputs_shape)
        if window_size is None:
            right, axes = len(members_shape) >= 2, "[batch, (n)]"
        else:
            right = len(members_shape) >= 3 and members_shape[-1] == window_size
            axes = f"[batch, (n), {window_size}]"
        expect(right, f"bags of row ids, {axes} or deeper", members=members_shape)

    def _check(
        self, inputs: Nested | keras.KerasTensor, members: Nested | keras.KerasTensor | None
    ) -> None:
        self._check_shapes(inputs.shape, None if members is None else members.shape)
        check_ids(self, members=members, inputs=inputs if self.vocabulary_size else None)

    def _read(
        self, inputs: Nested, members: Nested | None, weights: Nested | None
    ) -> tuple[tf.Tensor, Grouping[tf.Tensor | None], Wrap]:
        """Rows [rows, features] or ids [rows], their `Grouping`, and how to nest the results."""
        self._check(inputs, members)
        if members is None:
            rows, bags, wrap = group(inputs, self._item_rank, weights)
        else:
            rows = inputs
            _, bags, wrap = group(members, self._member_rank, weights, n_rows=row_count(rows))
        if self.vocabulary_size is None:
            # A batch without instances loses its inner dimension, hence the reshape.
            rows = tf.reshape(tf.cast(rows, self.compute_dtype), [-1, self._features])
        return rows, bags, wrap

    def _represent(
        self, inputs: Nested, members: Nested | None, weights: Nested | None
    ) -> tuple[tf.Tensor, Grouping[tf.Tensor | None]]:
        """ρ = α(w φ + b) [rows, units], or its symbol, and the `Grouping` of its rows."""
        rows, bags, _ = self._read(inputs, members, weights)
        if self.units is not None:
            parts, members = self._preactivate(rows, bags.members)
            rows = self.activation(join_groups(parts, self.groups))
            # With window_size the instances have become the rows.
            bags = replace(bags, members=members, n_rows=row_count(rows))
        return (rows if self.symbols is None else self.symbols(rows)), bags

    def _preactivate(
        self, rows: tf.Tensor, members: tf.Tensor | None
    ) -> tuple[list[tf.Tensor], tf.Tensor | None]:
        """w φ + b for each aggregation, [rows, units / aggregations], and the members of them."""
        n = len(self.aggregations)
        if self.units is None:
            return [rows] * n, members
        # A product for each, as splitting the result of a single one would copy it.
        kernels = self._of_aggregations(self.kernel)
        biases = self._of_aggregations(self.bias) if self.use_bias else [None] * n
        pairs = list(zip(kernels, biases, strict=True))
        if self.window_size is None:
            return [project(rows, *pair, groups=self.groups) for pair in pairs], members
        return [project_tuples(rows, *pair, members) for pair in pairs], None

    def _symbolized(self, parts: Sequence[tf.Tensor], training: bool) -> list[tf.Tensor]:
        """The symbols of ρ for each aggregation, [rows, units / aggregations]."""
        assert self.symbols is not None
        n = len(self.aggregations)
        if self.units is None:
            return [self.symbols(parts[0], training=training)] * n
        representations = self.activation(join_groups(parts, self.groups))
        return _regrouped(self.symbols(representations, training=training), self.groups, n)

    def _of_aggregations(self, weights: tf.Tensor) -> list[tf.Tensor]:
        """The weights [..., units] of the units of each aggregation, in groups."""
        return _regrouped(tf.cast(weights, self.compute_dtype), self.groups, len(self.aggregations))

    def _activate_and_aggregate(
        self, parts: Sequence[tf.Tensor], row_ids: tf.Tensor, **bags: tf.Tensor | None
    ) -> tf.Tensor:
        """Ξ α(x) of each bag for each aggregation Ξ, side by side: [num_segments, output units].

        `parts` holds x of each aggregation, [rows, units]; or its symbol, which is activated.
        """
        is_plain = self.units is None or self.symbols is not None
        activation = keras.activations.linear if is_plain else self.activation

        def reduced(x: tf.Tensor, aggregation: Aggregation) -> tf.Tensor:
            if aggregation.keeps_order and activation in _INCREASING:
                return activation(aggregation(x, row_ids=row_ids, **bags))
            return aggregation(activation(x), row_ids=row_ids, **bags)

        results = list(map(reduced, parts, self.aggregations))
        x = join_groups(results, self.groups)
        is_empty = tf.equal(segment_counts(row_ids, bags["num_segments"]), 0)
        empty = self.empty_vector if self.empty == "learned" else 0
        return tf.where(is_empty[:, None], tf.cast(empty, x.dtype), x)

    def _add_output_loss(self, outputs: Nested) -> None:
        """Regularise the output per top-bag, as Keras does for dense outputs."""
        ragged = isinstance(outputs, tf.RaggedTensor)
        loss = self.output_regularizer(outputs.flat_values if ragged else outputs)
        top_bags = outputs.nrows() if ragged else tf.shape(outputs)[0]
        self.add_loss(loss / tf.cast(tf.maximum(top_bags, 1), loss.dtype))

    def _output_units(self, features: int) -> int:
        return self.units if self.units is not None else features * len(self.aggregations)


def _regrouped(x: tf.Tensor, groups: int, n: int) -> list[tf.Tensor]:
    """n tensors: each has an n-th of each group of the last axis."""
    if groups == 1:
        return tf.split(x, n, axis=-1)
    leading = x.shape[:-1].as_list()
    parts = tf.split(tf.reshape(x, [*leading, groups, -1]), n, axis=-1)
    return [tf.reshape(part, [*leading, x.shape[-1] // n]) for part in parts]

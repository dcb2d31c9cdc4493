"""Aggregations Ξ: how the instances of a bag become one vector."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_number, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers import segments

__all__ = [
    "LSE",
    "NAMES",
    "Aggregation",
    "Attention",
    "Max",
    "Mean",
    "PNorm",
    "Std",
    "Sum",
    "get",
    "get_all",
    "serialize",
]


class Aggregation(RawInputs):
    """Element-wise aggregation of the instances of each bag to one vector.

    A subclass implements its formula in `reduce`, and creates its weights, if any, in `build`. It
    may override `reduce_members` where gathering the instances can be avoided.

    Input shape:
        `values` [instances, units], float; `row_ids` [instances], sorted, int32 or int64: the bag
        of each instance; `num_segments`: the number of bags; `weights` [instances] or None:
        multiplicities or importance, > 0. With `members` [instances], ints, `values` are
        [rows, units], and instance i is row `members[i]`.

    Output shape:
        [num_segments, units]. An empty bag yields zeros.
    """

    # Whether an increasing function may be applied after the aggregation instead of before.
    keeps_order = False

    @property
    def identifier(self) -> str:
        """Name by which `aggregations.get` finds this aggregation."""
        return type(self).__name__.lower()

    def build(self, values_shape: Shape) -> None:
        """Create the weights for values of shape [instances, units]."""

    def call(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor | None = None,
        num_segments: tf.Tensor | int | None = None,
        weights: tf.Tensor | None = None,
        members: tf.Tensor | None = None,
    ) -> tf.Tensor:
        if values.shape.rank != 2 or not values.dtype.is_floating:
            raise ValueError(
                f"Aggregation '{self.name}' expected float values of shape [instances, units]. "
                f"Received: values.shape={values.shape}, values.dtype={values.dtype.name}"
            )
        if row_ids is None or num_segments is None:
            raise ValueError(
                f"Aggregation '{self.name}' expected the bag of each instance and the number "
                f"of bags. Received: row_ids={row_ids}, num_segments={num_segments}"
            )
        if members is None:
            return self.reduce(values, row_ids, num_segments, weights)
        return self.reduce_members(values, members, row_ids, num_segments, weights)

    def reduce(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
        /,
    ) -> tf.Tensor:
        """Reduce `values` [instances, units] to [num_segments, units]."""
        raise NotImplementedError

    def reduce_members(
        self,
        values: tf.Tensor,
        members: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None,
        /,
    ) -> tf.Tensor:
        """Reduce the rows `members` [instances] of `values` [rows, units] in the same way."""
        instances = segments.gather_rows(values, members)
        return self.reduce(instances, row_ids, num_segments, weights)

    def compute_output_spec(
        self, values: keras.KerasTensor, *bags: Any, **named_bags: Any
    ) -> keras.KerasTensor:
        return keras.KerasTensor((None, values.shape[-1]), dtype=self.compute_dtype)


class _SegmentReduction(Aggregation):
    """An aggregation that is a function of `layers.segments`, which gathers members itself."""

    reduction: ClassVar[Callable[..., tf.Tensor]]

    def reduce(self, values: tf.Tensor, *bags: Any) -> tf.Tensor:
        return self.reduction(values, *bags)

    def reduce_members(self, values: tf.Tensor, members: tf.Tensor, *bags: Any) -> tf.Tensor:
        return self.reduction(values, *bags, members)


@keras.saving.register_keras_serializable("keras_mmil")
class Max(_SegmentReduction):
    """Maximum: maxᵢ ρᵢ. Multiplicities do not change it; ties share the gradient."""

    keeps_order = True
    reduction = staticmethod(segments.segment_max)


@keras.saving.register_keras_serializable("keras_mmil")
class Mean(_SegmentReduction):
    """Weighted mean: Σᵢ wᵢ ρᵢ / Σᵢ wᵢ."""

    reduction = staticmethod(segments.segment_mean)


@keras.saving.register_keras_serializable("keras_mmil")
class Sum(_SegmentReduction):
    """Weighted sum: Σᵢ wᵢ ρᵢ."""

    reduction = staticmethod(segments.segment_sum)


@keras.saving.register_keras_serializable("keras_mmil")
class Std(Aggregation):
    """Weighted population standard deviation: √(Σᵢ wᵢ (ρᵢ - ρ̄)² / Σᵢ wᵢ)."""

    def reduce(self, values: tf.Tensor, *bags: Any) -> tf.Tensor:
        return segments.segment_std(values, *bags)


@keras.saving.register_keras_serializable("keras_mmil")
class LSE(Aggregation):
    """Smooth maximum (log-sum-exp): log(Σᵢ wᵢ exp(M ρᵢ)) / M.

    Args:
        sharpness: M > 0, its initial value where it is learned; M → ∞ gives the maximum.
        learned: whether M is learned, one for each unit (as its logarithm, so that it stays
            positive).

    Reference:
        Ramon and De Raedt, Multi Instance Neural Networks, 2000.
    """

    def __init__(self, sharpness: float = 1.0, learned: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sharpness = check_number("sharpness", sharpness)
        if not 0 < self.sharpness < math.inf:
            raise ValueError(f"Expected a finite sharpness > 0. Received: sharpness={sharpness}")
        self.learned = bool(learned)

    def build(self, values_shape: Shape) -> None:
        if self.learned:
            self.log_sharpness = self.add_weight(
                shape=(values_shape[-1],),
                initializer=keras.initializers.Constant(math.log(self.sharpness)),
                name="log_sharpness",
            )

    def reduce(self, values: tf.Tensor, *bags: Any) -> tf.Tensor:
        sharpness = keras.ops.exp(self.log_sharpness) if self.learned else self.sharpness
        row_ids, num_segments, weights = bags
        return segments.segment_lse(values, row_ids, num_segments, weights, sharpness)

    def get_config(self) -> Config:
        return {**super().get_config(), "sharpness": self.sharpness, "learned": self.learned}


@keras.saving.register_keras_serializable("keras_mmil")
class PNorm(Aggregation):
    """Power mean: (Σᵢ wᵢ |ρᵢ|ᵖ / Σᵢ wᵢ)^(1/p); p = 1 is the mean of |ρ|, p → ∞ its maximum.

    Args:
        p: the exponent, ≥ 1, or > 1 where it is learned (its initial value).
        learned: whether p is learned, one for each unit (as p = 1 + exp(r)).

    Reference:
        Gulcehre et al., Learned-Norm Pooling for Deep Feedforward and Recurrent Neural
        Networks, 2014.
    """

    def __init__(self, p: float = 2.0, learned: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 1 <= p < math.inf or (learned and p == 1):
            raise ValueError(
                "Expected a finite exponent p ≥ 1, and > 1 where it is learned. "
                f"Received: p={p}, learned={learned}"
            )
        self.p = float(p)
        self.learned = bool(learned)

    def build(self, values_shape: Shape) -> None:
        if self.learned:
            self.raw_p = self.add_weight(
                shape=(values_shape[-1],),
                initializer=keras.initializers.Constant(math.log(self.p - 1.0)),
                name="raw_p",
            )

    def reduce(self, values: tf.Tensor, *bags: Any) -> tf.Tensor:
        p = 1.0 + keras.ops.exp(self.raw_p) if self.learned else self.p
        row_ids, num_segments, weights = bags
        return segments.segment_pnorm(values, row_ids, num_segments, weights, p)

    def get_config(self) -> Config:
        return {**super().get_config(), "p": self.p, "learned": self.learned}


@keras.saving.register_keras_serializable("keras_mmil")
class Attention(Aggregation):
    """Attention: Σᵢ aᵢ ρᵢ with a = softmax(s) in each bag, sᵢ = q · tanh(V ρᵢ).

    The gated form is sᵢ = q · (tanh(V ρᵢ) ⊙ sigmoid(U ρᵢ)). A multiplicity wᵢ counts as wᵢ
    equal instances: aᵢ ∝ wᵢ exp(sᵢ).

    Args:
        hidden_units: number of rows of V (and U).
        gated: whether to use the gated form.

    Reference:
        Ilse, Tomczak and Welling, Attention-based Deep Multiple Instance Learning, 2018.
    """

    def __init__(self, hidden_units: int = 64, gated: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_units = positive_int("hidden_units", hidden_units)
        self.gated = bool(gated)

    def build(self, values_shape: Shape) -> None:
        shape = (values_shape[-1], self.hidden_units)
        self.content = self.add_weight(shape=shape, name="content")  # V
        if self.gated:
            self.gate = self.add_weight(shape=shape, name="gate")  # U
        self.query = self.add_weight(shape=(self.hidden_units, 1), name="query")  # q

    def attention_weights(
        self,
        values: tf.Tensor,
        row_ids: tf.Tensor,
        num_segments: tf.Tensor | int,
        weights: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """The share aᵢ of each instance in its bag, [instances, 1]; sums to 1 in each bag."""
        hidden = keras.ops.tanh(keras.ops.matmul(values, self.content))  # (instances, hidden)
        if self.gated:
            hidden *= keras.ops.sigmoid(keras.ops.matmul(values, self.gate))
        scores = keras.ops.matmul(hidden, self.query)  # (instances, 1)
        return segments.segment_softmax(scores, row_ids, num_segments, weights)

    def reduce(self, values: tf.Tensor, *bags: Any) -> tf.Tensor:
        row_ids, num_segments, _ = bags
        shares = self.attention_weights(values, *bags)
        return segments.segment_sum(values * shares, row_ids, num_segments)

    def get_config(self) -> Config:
        config = {"hidden_units": self.hidden_units, "gated": self.gated}
        return {**super().get_config(), **config}


_BY_NAME: dict[str, Callable[[], Aggregation]] = {
    "max": Max,
    "mean": Mean,
    "sum": Sum,
    "lse": LSE,
    "pnorm": PNorm,
    "std": Std,
    "attention": Attention,
    "gated_attention": functools.partial(Attention, gated=True),
}
NAMES = tuple(_BY_NAME)
"""The names that `get`, and so `BagLayer(aggregation=...)`, accepts."""
Identifier: TypeAlias = str | Aggregation | Config  # what `get` takes
Aggregations: TypeAlias = Identifier | Sequence[Identifier]  # one, or several side by side


def get(identifier: Identifier) -> Aggregation:
    """Retrieve an aggregation.

    Args:
        identifier: one of `NAMES`, an `Aggregation`, or its config.

    Returns:
        The `Aggregation` itself if it is one, else a new one.

    Raises:
        ValueError: if the identifier is none of these.
    """
    if isinstance(identifier, Aggregation):
        return identifier
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    if isinstance(identifier, dict):
        aggregation = keras.saving.deserialize_keras_object(identifier)
        if isinstance(aggregation, Aggregation):
            return aggregation
    raise ValueError(
        f"Expected an Aggregation, its config, or one of {', '.join(NAMES)}. "
        f"Received: aggregation={identifier!r}"
    )


def get_all(identifiers: Aggregations) -> tuple[Aggregation, ...]:
    """Retrieve one or several aggregations, as a tuple.

    Args:
        identifiers: what `get` takes, a list or tuple of it, or names joined by "|", as in
            "max|mean".
    """
    if isinstance(identifiers, str):
        identifiers = identifiers.split("|")
    several = identifiers if isinstance(identifiers, (list, tuple)) else (identifiers,)
    if not several:
        raise ValueError(f"Expected at least one aggregation. Received: {several!r}")
    return tuple(get(identifier) for identifier in several)


def serialize(aggregation: Aggregation) -> Config:
    """The config of an aggregation, for `get`."""
    return keras.saving.serialize_keras_object(aggregation)

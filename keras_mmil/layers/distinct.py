"""Each distinct instance and sub-bag of a batch once."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Shape
from keras_mmil.bags import input_names, level_names
from keras_mmil.layers._checks import assert_same_splits, check_ids
from keras_mmil.layers.grouping import depth_of, with_innermost

__all__ = ["Distinct", "bag_inputs"]

# By name, those of `Bags`; what is optional may be None.
Inputs: TypeAlias = Mapping[str, tf.RaggedTensor]


def bag_inputs(
    depth: int = 2, dtype: str | tf.DType = "int32", window_size: int | None = None
) -> dict[str, keras.KerasTensor]:
    """Keras inputs for nested bags of ids, plain or compressed: those of `Bags.inputs`.

    Args:
        depth: K, how many times bags are nested.
        dtype: that of the ids.
        window_size: number of ids that make one instance, such as the 3 words of a trigram; None
            where an instance is one id.

    Returns:
        A dict of ragged `keras.Input`s: `bags` [batch, (n₁), …, (n_K)], with a last axis for
        `window_size`; and, all optional, `counts` [batch, (n₁), …, (n_K)], and `sub_bag_counts`,
        `sub_bag_keys` for every level of sub-bags.

    Raises:
        ValueError: if the depth or the window size is no integer of at least 1, or the dtype is not
            one of integers.
    """
    names = input_names(positive_int("depth", depth))
    window_size = positive_int("window_size", window_size, optional=True)
    if not keras.backend.is_int_dtype(keras.backend.standardize_dtype(dtype)):
        raise ValueError(f"Expected a dtype of integers. Received: dtype={dtype!r}")
    counts, keys = level_names(depth)
    inner = () if window_size is None else (window_size,)
    dtypes = {"bags": dtype} | dict.fromkeys(counts, "float32") | dict.fromkeys(keys, "int64")
    return {
        name: keras.Input(
            # Two inputs a level, from the instances upwards.
            (None,) * (depth - i // 2) + (inner if name == "bags" else ()),
            dtype=dtypes[name],
            ragged=True,
            optional=name != "bags",
            name=name,
        )
        for i, name in enumerate(names)
    }


@keras.saving.register_keras_serializable("keras_mmil")
class Distinct(RawInputs):
    """Turn nested bags of ids into their distinct rows, and what is needed to go back.

    Between this layer and the bag-layers flow dense rows only, one for each distinct id of the
    batch, so that any Keras layer may work on them. Sub-bags of equal key are merged too.

    Call arguments:
        inputs: the dict of `bag_inputs`, `Bags.inputs`: `bags`, and optionally the counts and
            keys of each level.

    Input shape:
        `bags` RaggedTensor of ids [batch, (n₁), …, (n_K)], or [batch, (n₁), …, (n_K), window_size];
        `counts` [batch, (n₁), …, (n_K)]; `sub_bag_counts` and `sub_bag_keys`
        [batch, (n₁), …, (n_K-1)]; and so on upwards.

    Output shape:
        A list: the distinct ids [rows]; then, from the instances upwards, for each level a tuple
        (members, weights) of RaggedTensors [bags, (n)]: the rows (or, above, the sub-bags) in
        each bag, and their multiplicities. The last level's bags are the batch. Where no counts
        are given, there are no weights: None. With `window_size` the first members are
        [bags, (n), window_size].

    Raises:
        ValueError: if the ids or keys are no integers, or counts or keys are nested otherwise than
            the bags.
        InvalidArgumentError: if counts or keys are of bags of other sizes.

    Example:

    >>> inputs = bag_inputs(depth=2)
    >>> rows, sub_bags, top_bags = Distinct()(inputs)
    >>> x = keras.layers.Embedding(1000, 16)(rows)
    >>> x = BagLayer(8)(x, *sub_bags)
    >>> x = BagLayer(8)(x, *top_bags)
    """

    def build(self, inputs_shape: Mapping[str, Shape] | None = None) -> None:
        """Nothing to create."""

    def call(self, inputs: Inputs) -> list[Any]:
        self._check(inputs)
        bags = inputs["bags"]
        flat = bags.flat_values
        counts, keys = (
            [inputs.get(name) for name in names]
            for names in level_names(bags.shape.rank - flat.shape.rank)
        )
        rows, ids = tf.unique(tf.reshape(flat, [-1]))
        ids = tf.reshape(ids, [-1, *flat.shape[1:]])
        levels, structure = [], bags
        for level, weights in enumerate(counts):
            members = _innermost(structure).with_values(ids)  # [bags of this level, (n)]
            if weights is not None:
                weights = members.with_values(weights.flat_values)
            if level < len(keys):
                structure = with_innermost(structure, tf.range(members.nrows()))
                ids, first = _merge(keys[level], members.nrows())
                if first is not None:
                    members = tf.gather(members, first)
                    if weights is not None:  # in the very row splits of the members
                        weights = members.with_values(tf.gather(weights, first).values)
            levels.append((members, weights))
        return [rows, *levels]

    def _check(self, inputs: Inputs) -> None:
        """Counts and keys, where given, are in bags of the same sizes as the ids."""
        bags = inputs["bags"]
        check_ids(self, **{name: x for name, x in inputs.items() if "counts" not in name})
        splits = bags.nested_row_splits
        _, *names = input_names(len(splits))
        # From the instances upwards: the counts of one level, and the keys of the same bags.
        levels = {name: len(splits) - (i + 1) // 2 for i, name in enumerate(names)}
        pairs = {
            name: (splits[:level], inputs[name].nested_row_splits)
            for name, level in levels.items()
            if inputs.get(name) is not None
        }
        assert_same_splits(pairs, f"Distinct '{self.name}' expected bags of the sizes of the ids")

    def compute_output_spec(self, inputs: Mapping[str, keras.KerasTensor]) -> list[Any]:
        bags = inputs["bags"]
        check_ids(self, bags=bags)
        depth = depth_of(bags.shape) - 1
        inner = [bags.shape[1 + depth :], *[()] * (depth - 1)]
        levels = [
            (
                keras.KerasTensor((None, None, *axes), dtype="int32", ragged=True),
                keras.KerasTensor((None, None), dtype="float32", ragged=True),
            )
            for axes in inner
        ]
        return [keras.KerasTensor((None,), dtype=bags.dtype), *levels]


def _merge(keys: tf.RaggedTensor | None, num_bags: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Index of each sub-bag among the distinct ones, and the first sub-bag of each (or None)."""
    if keys is None:
        return tf.range(tf.cast(num_bags, tf.int32)), None
    distinct, ids = tf.unique(keys.flat_values)
    order = tf.range(tf.size(ids))
    return ids, tf.math.unsorted_segment_min(order, ids, tf.size(distinct))


def _innermost(ragged: tf.RaggedTensor) -> tf.RaggedTensor:
    """The innermost bags of a RaggedTensor, [bags, (n)]."""
    while ragged.ragged_rank > 1:
        ragged = ragged.values
    return ragged

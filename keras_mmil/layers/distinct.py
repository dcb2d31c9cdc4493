"""Each distinct instance and sub-bag of a batch once."""

import keras
import tensorflow as tf

from keras_mmil.bags import input_names
from keras_mmil.layers.grouping import depth_of, with_innermost
from keras_mmil.layers.raw_inputs import RawInputs

__all__ = ["Distinct", "bag_inputs"]


def bag_inputs(depth=2, dtype="int32", positions=None):
    """Keras inputs for nested bags of ids, plain or compressed: those of `Bags.inputs`.

    Args:
        depth: K, how many times bags are nested.
        dtype: that of the ids.
        positions: number of ids that make one instance, such as 3 words in a trigram; None where
            an instance is one id.

    Returns:
        A dict of ragged `keras.Input`s: `bags` [batch, (n₁), …, (n_K)], with a last axis for
        `positions`; and, all optional, `counts` [batch, (n₁), …, (n_K)], and `sub_bag_counts`,
        `sub_bag_keys` for every level of sub-bags.
    """
    if depth < 1:
        raise ValueError(f"Expected bags nested at least once. Received: depth={depth}")
    names = input_names(depth)
    counts, keys = _counts_and_keys(names)
    inner = () if positions is None else (positions,)
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
class Distinct(RawInputs, keras.Layer):
    """Turn nested bags of ids into their distinct rows, and what is needed to go back.

    Between this layer and the bag-layers flow dense rows only, one for each distinct id of the
    batch, so that any Keras layer may work on them. Sub-bags of equal key are merged too.

    Call arguments:
        inputs: the dict of `bag_inputs`, `Bags.inputs`: `bags`, and optionally the counts and
            keys of each level.

    Input shape:
        `bags` RaggedTensor of ids [batch, (n₁), …, (n_K)], or [batch, (n₁), …, (n_K), positions];
        `counts` [batch, (n₁), …, (n_K)]; `sub_bag_counts` and `sub_bag_keys`
        [batch, (n₁), …, (n_K-1)]; and so on upwards.

    Output shape:
        A list: the distinct ids [rows]; then, from the instances upwards, for each level a tuple
        (members, weights) of RaggedTensors [bags, (n)]: the rows (or, above, the sub-bags) in
        each bag, and their multiplicities. The last level's bags are the batch. Where no counts
        are given, there are no weights: None. With `positions` the first members are
        [bags, (n), positions].

    Example:

    >>> inputs = bag_inputs(depth=2)
    >>> rows, sub_bags, top_bags = Distinct()(inputs)
    >>> x = keras.layers.Embedding(1000, 16)(rows)
    >>> x = BagLayer(8)(x, *sub_bags)
    >>> x = BagLayer(8)(x, *top_bags)
    """

    def build(self, inputs_shape=None):
        """Nothing to create."""

    def call(self, inputs):
        bags = inputs["bags"]
        flat = bags.flat_values
        names = _counts_and_keys(input_names(bags.shape.rank - flat.shape.rank))
        counts, keys = ([inputs.get(name) for name in level_names] for level_names in names)
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
                    weights = None if weights is None else tf.gather(weights, first)
            levels.append((members, weights))
        return [rows, *levels]

    def compute_output_spec(self, inputs):
        bags = inputs["bags"]
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


def _merge(keys, num_bags):
    """Index of each sub-bag among the distinct ones, and the first sub-bag of each (or None)."""
    if keys is None:
        return tf.range(tf.cast(num_bags, tf.int32)), None
    distinct, ids = tf.unique(keys.flat_values)
    order = tf.range(tf.size(ids))
    return ids, tf.math.unsorted_segment_min(order, ids, tf.size(distinct))


def _innermost(ragged):
    """The innermost bags of a RaggedTensor, [bags, (n)]."""
    while ragged.ragged_rank > 1:
        ragged = ragged.values
    return ragged


def _counts_and_keys(names):
    """The names of the counts, one for each level, and of the keys, one for each inner level."""
    _, counts, *above = names
    return [counts, *above[0::2]], above[1::2]

"""Whether a network computes what is above a bag-layer from one bag at a time."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array
from keras_mmil.functional.chain import tensors_above
from keras_mmil.functional.cut import moved, rows_of
from keras_mmil.functional.graph import Node, nodes_under, ordered_nodes
from keras_mmil.functional.run import run_nodes
from keras_mmil.layers._types import Nested

__all__ = ["check_rowwise"]

_NEGLIGIBLE = 1e-3  # change of a row, relative to the largest value


def check_rowwise(model: keras.Model, nodes: Sequence[Node], outputs: Sequence[Nested]) -> None:
    """Move half the rows of a bag-layer's output at random, and see whether others change above it.

    Rules label a bag by its members alone. What a network adds from the bags around it, such as by
    attention between them, they do not know.

    Args:
        model: a functional Keras model.
        nodes: the nodes of its bag-layers, from the instances upwards.
        outputs: what each of them computed on a batch.

    Raises:
        ValueError: if rows are mixed between a bag-layer and the next, or the model's outputs.
    """
    for node, above, h in zip(nodes, tensors_above(model, nodes), outputs, strict=True):
        under = nodes_under(above, node.outputs)
        between = [each for each in ordered_nodes(model) if each in under]
        rows = rows_of(h)
        n = int(np.prod(rows.shape[:-1]))
        rng = np.random.default_rng(0)
        is_moved = rng.permutation(n) < n // 2
        step = rng.normal(size=(n, rows.shape[-1])) * is_moved[:, None]
        step = step * (1 + np.abs(tf.cast(rows, tf.float32)).max(initial=0))
        before, after = (
            _rows_above(between, node, above, x) for x in (h, moved(h, step.reshape(rows.shape)))
        )
        for old, new in zip(before, after, strict=True):
            change = np.abs(new - old)[~is_moved].max(initial=0) if len(old) == n else 0
            if change > _NEGLIGIBLE * np.abs(old).max(initial=0):
                raise ValueError(
                    "Expected each bag to be computed from its members alone, for rules read "
                    f"nothing else. Received: {[each.operation.name for each in between]} above "
                    f"bag-layer {node.operation.name!r}, by which bags change with others"
                )


def _rows_above(
    between: Sequence[Node], node: Node, above: Sequence[keras.KerasTensor], h: Nested
) -> list[Array]:
    """Tensors above a bag-layer whose output is `h`, as float32 [rows, features]."""
    values = {id(node.outputs[0]): h}
    run_nodes(between, values, training=False)
    parts = [tf.cast(rows_of(values[id(x)]), tf.float32).numpy() for x in above]
    units = [part.shape[-1] if part.ndim > 1 else 1 for part in parts]
    return [part.reshape(-1, size) for part, size in zip(parts, units, strict=True)]

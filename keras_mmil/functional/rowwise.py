"""Whether a network computes each record from what is in it, and from nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Ints
from keras_mmil.functional.cut import moved, rows_of
from keras_mmil.functional.graph import Node, call_arguments, nodes_under, ordered_nodes
from keras_mmil.functional.run import input_values, run_nodes
from keras_mmil.functional.tree import BagTree, Record
from keras_mmil.layers._types import Nested

__all__ = ["boundaries", "check_own_features", "check_rowwise", "row_index"]


def boundaries(tree: BagTree) -> list[keras.KerasTensor]:
    """The tensors that `check_rowwise` needs the values of: what records are computed from."""
    found = [x for record in tree.records for x in record.boundary]
    return list({id(x): x for x in found}.values())


def row_index(ids: Sequence[keras.KerasTensor], values: Mapping[int, Nested]) -> Ints | None:
    """Which row belongs to each record: see `Read.ids`; None where row i belongs to record i.

    Args:
        ids: symbolic indices.
        values: dict from the ids of symbolic tensors to values.
    """
    index: Ints | None = None
    for each in ids:
        here = rows_of(values[id(each)]).numpy().reshape(-1)
        index = here if index is None else index[here]
    return index


_NEGLIGIBLE = 1e-3  # change of a row, relative to the largest value


def check_rowwise(model: keras.Model, tree: BagTree, values: Mapping[int, Nested]) -> None:
    """Move half the rows of a bag-layer's output at random, and see whether others change above it.

    Rules label a record by what is in it. What a network adds from the records around it, such as
    by attention between them, they do not know.

    Args:
        model: a functional Keras model.
        tree: its bag-layers.
        values: dict from the ids of the `boundaries` to what they are for a batch.

    Raises:
        ValueError: if rows are mixed between a bag-layer and the next, or the model's outputs.
    """
    for record in tree.records:
        between = _between(model, record)
        start = {id(x): values[id(x)] for x in record.boundary}
        for read in record.bags:
            (output,) = read.node.outputs
            h = values[id(output)]
            is_moved, other = _half_moved(h)
            before, after = (
                _rows_above(between, record.tensors, {**start, id(output): x}) for x in (h, other)
            )
            index = row_index(read.ids, values)
            is_above = is_moved if index is None else is_moved[index]
            for old, new in zip(before, after, strict=True):
                if len(old) == len(is_above) and _differ(old, new, ~is_above):
                    raise ValueError(
                        "Expected each bag to be computed from its members alone, for rules read "
                        f"nothing else. Received: {_above(between, read.node)} above bag-layer "
                        f"{read.node.operation.name!r}, by which bags change with others"
                    )


def check_own_features(
    model: keras.Model, source: keras.KerasTensor, node: Node, inputs: Any
) -> None:
    """Move half the instances in an input at random, and see whether others change.

    Args:
        model: a functional Keras model.
        source: the input, [top-bags, (n), …, features].
        node: of the bag-layer whose instances are computed from it.
        inputs: what the model takes, a batch.

    Raises:
        ValueError: if the bag-layer has other rows than the input, or an instance is not computed
            from its own features alone.
    """
    tensor = call_arguments(node)["inputs"]
    under = nodes_under([tensor], [source])
    between = [each for each in ordered_nodes(model) if each in under]
    values = input_values(model, inputs)
    is_moved, other = _half_moved(values[id(source)])
    (before,), (after,) = (
        _rows_above(between, [tensor], {**values, id(source): x})
        for x in (values[id(source)], other)
    )
    if len(before) != len(is_moved) or _differ(before, after, ~is_moved):
        raise ValueError(
            "Expected instances that are each computed from their own features alone, for "
            f"feature_names. Received: {[each.operation.name for each in between]} below bag-layer "
            f"{node.operation.name!r}, by which instances change with others"
        )


def _half_moved(h: Nested) -> tuple[Array, Nested]:
    """Which half of the rows is moved at random, bool [rows], and all rows afterwards."""
    rows = rows_of(h)
    n = int(np.prod(rows.shape[:-1]))
    rng = np.random.default_rng(0)
    is_moved = rng.permutation(n) < n // 2
    step = rng.normal(size=(n, rows.shape[-1])) * is_moved[:, None]
    step = step * (1 + np.abs(tf.cast(rows, tf.float32)).max(initial=0))
    return is_moved, moved(h, step.reshape(rows.shape))


def _differ(old: Array, new: Array, at: Array) -> bool:
    """Whether some of the rows have changed by more than rounding."""
    change = np.abs(new - old)[at].max(initial=0)
    return bool(change > _NEGLIGIBLE * np.abs(old).max(initial=0))


def _between(model: keras.Model, record: Record) -> list[Node]:
    """The nodes between what a record holds and its tensors, in an order they can be run in."""
    under = nodes_under(record.tensors, record.boundary)
    return [each for each in ordered_nodes(model) if each in under]


def _above(between: Sequence[Node], node: Node) -> list[str]:
    """The names of those between, in their order, that depend on a node."""
    dependent = {id(x) for x in node.outputs}
    names = []
    for each in between:
        if any(id(x) in dependent for x in each.input_tensors):
            dependent |= {id(x) for x in each.outputs}
            names.append(each.operation.name)
    return names


def _rows_above(
    between: Sequence[Node], tensors: Sequence[keras.KerasTensor], values: Mapping[int, Nested]
) -> list[Array]:
    """What nodes compute of some values: tensors, as float32 [rows, features]."""
    computed = dict(values)
    run_nodes(between, computed, training=False)
    parts = [tf.cast(rows_of(computed[id(x)]), tf.float32).numpy() for x in tensors]
    units = [part.shape[-1] if part.ndim > 1 else 1 for part in parts]
    return [part.reshape(-1, size) for part, size in zip(parts, units, strict=True)]

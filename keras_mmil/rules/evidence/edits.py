"""Top-bags with members removed or added, or without some fields."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mmil._support.rows import as_tensor, keep_members
from keras_mmil._support.types import MISSING_INT, MISSING_TEXT, Array, Ints, Tensors
from keras_mmil.bags import Bags, input_names, level_names
from keras_mmil.layers.grouping import depth_of
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.nesting import above

__all__ = ["Editor", "Member", "UneditableError"]

# A member of a bag: index of the bag-layer whose row it is, and its position in the data.
Member = tuple[int, tuple[int, ...]]

_ALONE = ""  # name of the only input of a model


class UneditableError(ValueError):
    """Members of these top-bags cannot be removed or added."""


class Editor:
    """Edits the inputs of a network."""

    def __init__(self, network: Network) -> None:
        self._network, self._expected = network, network.model.input

    def has_field(self, name: str) -> bool:
        """Whether the network reads an input of this name."""
        return isinstance(self._expected, Mapping) and name in self._expected

    def plain(self, batch: Tensors) -> Tensors:
        """Inputs whose members can be removed: ragged, with repetitions in place of multiplicities.

        Raises:
            UneditableError: if members cannot be removed, as for texts, or for several inputs
                without names; or if multiplicities are not integers.
        """
        inputs = self._by_name(batch)
        bags = inputs.get("bags")
        if isinstance(bags, tf.RaggedTensor) and "counts" in inputs:
            names, components = level_names(bags.ragged_rank), input_names(bags.ragged_rank)
            counts, *level_counts = (inputs[name] for name in names.counts)
            keys = tuple(inputs[name] for name in names.keys)
            try:
                plain = Bags(bags, counts, tuple(level_counts), keys).to_ragged()
            except ValueError as error:  # multiplicities that are not integers
                raise UneditableError(str(error)) from error
            others = {name: x for name, x in inputs.items() if name not in components}
            inputs = {**others, "bags": plain}
        result = {name: self._as_ragged(name, part) for name, part in inputs.items()}
        for layer in range(len(self._network.layers)):
            self._names(layer, result)
        return self._packed(result)

    def without(self, batch: Tensors, members: Iterable[Member]) -> Tensors:
        """Plain inputs without some members and their contents."""
        inputs = self._by_name(batch)
        by_layer: dict[int, list[tuple[int, ...]]] = {}
        for layer, position in members:
            by_layer.setdefault(layer, []).append(position)
        # The deepest bags first, so that positions in the others stay valid.
        for layer in sorted(by_layer, key=self._level, reverse=True):
            level = self._level(layer)
            for name in self._names(layer, inputs):
                splits = [x.numpy() for x in inputs[name].nested_row_splits]
                stay = np.ones(splits[level][-1], bool)
                stay[[_flat_index(splits, position) for position in by_layer[layer]]] = False
                inputs[name] = keep_members(inputs[name], level, stay)
        return self._packed(inputs)

    def without_bags(self, batch: Tensors, layer: int) -> Tensors:
        """Plain inputs in which all bags of a bag-layer are empty."""
        inputs, level = self._by_name(batch), self._level(layer)
        for name in self._names(layer, inputs):
            n_members = int(inputs[name].nested_row_splits[level][-1])
            inputs[name] = keep_members(inputs[name], level, np.zeros(n_members, bool))
        return self._packed(inputs)

    def without_fields(self, batch: Tensors, names: Iterable[str]) -> Tensors:
        """Plain inputs in which some fields, inputs of these names, are missing everywhere."""
        inputs = self._by_name(batch)
        for name in names:
            x = as_tensor(inputs[name])
            flat = x.flat_values if isinstance(x, tf.RaggedTensor) else x
            missing: float | str = MISSING_TEXT if flat.dtype == tf.string else MISSING_INT
            missing = math.nan if flat.dtype.is_floating else missing
            nothing = tf.fill(tf.shape(flat), tf.constant(missing, flat.dtype))
            inputs[name] = x.with_flat_values(nothing) if flat is not x else nothing
        return self._packed(inputs)

    def with_added(
        self, batch: Tensors, donors: Tensors, members: Mapping[int, Sequence[tuple[int, ...]]]
    ) -> Tensors:
        """Plain inputs of one top-bag, with members of others added to its own bags.

        `members` are positions in `donors`, by the index of the bag-layer whose rows they are.
        """
        inputs, of_donors = self._by_name(batch), self._by_name(donors)
        for layer, positions in members.items():
            for name in self._names(layer, inputs):
                splits = of_donors[name].row_splits.numpy()
                rows = [_flat_index([splits], position) for position in positions]
                parts = [inputs[name].values, tf.gather(of_donors[name].values, rows)]
                if isinstance(parts[0], tf.RaggedTensor):
                    parts = [part.with_row_splits_dtype(tf.int64) for part in parts]
                values = tf.concat(parts, axis=0)
                row_splits = np.array([0, inputs[name].row_splits.numpy()[-1] + len(rows)])
                inputs[name] = tf.RaggedTensor.from_row_splits(values, row_splits)
        return self._packed(inputs)

    def _level(self, layer: int) -> int:
        """How many bags enclose those that a bag-layer reads."""
        return len(above(layer, self._network.parents)) - 1

    def _names(self, layer: int, inputs: Mapping[str, Any]) -> list[str]:
        """The inputs with data of each member of the bags of a bag-layer."""
        path = self._network.paths[layer]
        if not path:
            names = [name for name in (_ALONE, "bags") if name in inputs]
            is_all = len(inputs) == len(names)
        else:
            inner = (f"{path}.", f"{path}[]")
            names = [name for name in inputs if name == path or name.startswith(inner)]
            is_all = True
        level = self._level(layer)
        depths = [getattr(inputs[name], "ragged_rank", 0) for name in names]
        if not names or not is_all or min(depths) <= level:
            raise UneditableError(
                "Expected inputs of which members can be removed: one of nested bags, or records "
                f"with a ragged input for each field. Received: {sorted(inputs)}, of which "
                f"{names} are of bag-layer {self._network.layers[layer].name!r}"
            )
        return names

    def _by_name(self, batch: Tensors) -> dict[str, Any]:
        if not isinstance(self._expected, Mapping):
            if isinstance(batch, (list, tuple)):
                raise UneditableError(
                    "Expected one input, or inputs with names, to remove members. "
                    f"Received: {len(batch)} inputs in a list"
                )
            return {_ALONE: batch}
        named = batch if isinstance(batch, Mapping) else {"bags": batch}
        return {name: part for name, part in named.items() if part is not None}

    def _packed(self, inputs: dict[str, Any]) -> Tensors:
        return inputs if isinstance(self._expected, Mapping) else inputs[_ALONE]

    def _as_ragged(self, name: str, part: Any) -> Any:
        spec = self._expected[name] if isinstance(self._expected, Mapping) else self._expected
        if isinstance(part, tf.RaggedTensor):
            missing = depth_of(spec.shape) - 1 - part.ragged_rank
            if not spec.ragged or missing <= 0:
                return part
            values = tf.RaggedTensor.from_tensor(part.flat_values, ragged_rank=missing)
            return part.with_flat_values(values)
        if spec.ragged:
            return tf.RaggedTensor.from_tensor(part, ragged_rank=depth_of(spec.shape) - 1)
        return part


def _flat_index(splits: Sequence[Array | Ints], position: Sequence[int]) -> int:
    """The index, among all members at its level, of the one at a position."""
    row = int(position[0])
    for level, index in zip(splits, position[1:], strict=False):
        row = int(level[row]) + int(index)
    return row

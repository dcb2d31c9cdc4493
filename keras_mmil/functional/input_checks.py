"""Checks of data by the inputs of a functional model, and by what its layers ask of them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.rows import as_tensor
from keras_mmil._support.splits import first_difference
from keras_mmil.bags import Bags, check_keys
from keras_mmil.functional.input_uses import (
    alike_inputs,
    compressed_inputs,
    id_limits,
    inputs_with_missing,
)
from keras_mmil.inputs import check_alike, check_ids, check_inputs, complete_inputs

__all__ = ["InputChecks"]


class InputChecks:
    """Checks of data for a functional model, by its inputs and by what its layers ask of them.

    Args:
        model: a functional Keras model.

    Call arguments:
        x: RaggedTensor, tensor, array, `Bags`, or a dict or list of the model's inputs.
        name: what to call `x` in errors.

    Returns:
        What `keras_mmil.inputs.check_inputs` returns.

    Raises:
        TypeError, ValueError: as `check_inputs`; for an id that is negative or not below the number
            of ids of a layer; for inputs whose bags meet, but differ in size; and for sub-bags of
            equal key that are not equal.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._id_limits = id_limits(model)
        self._alike = alike_inputs(model)
        self._compressed = compressed_inputs(model)
        keys = self._keys()
        self._may_be_missing = {keys[i] for i in inputs_with_missing(model)}
        # Pairs of inputs that the model was seen to take, though they differ in size.
        self._may_differ: set[tuple[int, ...]] = set()

    @property
    def expected(self) -> Any:
        """The model's inputs: a `KerasTensor`, or a dict or list of them."""
        return self._model.input

    def __call__(self, x: Any, name: str = "x") -> Any:  # noqa: D102
        is_named, has_checked_keys = isinstance(x, (Bags, dict)), isinstance(x, Bags)
        x = check_inputs(x, self.expected, name, self._may_be_missing)
        parts = dict(self._by_index(x))
        names = self._names(name, is_named)
        for index, limit in self._id_limits.items():
            if index in parts:
                expected = self._model.inputs[index]
                check_ids(
                    parts[index], expected, size=limit.size, layer=limit.layer, name=names[index]
                )
        parts = {i: part for i, part in parts.items() if isinstance(part, tf.RaggedTensor)}
        for bags, part, levels in self._alike:
            if bags in parts and part in parts:
                check_alike(parts[bags], parts[part], levels, (names[bags], names[part]))
        for indices in [] if has_checked_keys else self._compressed:
            check_keys({name: parts[i] for name, i in indices.items() if i in parts})
        self._check_that_meet(x, parts, names)
        return x

    def _keys(self) -> list[Any]:
        """The key of each of `model.inputs` in the structure of inputs, None for a single one."""
        structure = self.expected
        if isinstance(structure, dict):
            return sorted(structure)  # as Keras flattens it
        return list(range(len(structure))) if isinstance(structure, (list, tuple)) else [None]

    def _by_index(self, x: Any) -> Iterator[tuple[int, Any]]:
        for index, key in enumerate(self._keys()):
            if key is None:
                yield index, x
            elif not isinstance(x, dict) or key in x:
                yield index, x[key]

    def _names(self, name: str, is_named: bool) -> list[str]:
        is_list = isinstance(self.expected, (list, tuple))
        return [f"{name}[{key!r}]" if is_named or is_list else name for key in self._keys()]

    def _check_that_meet(
        self, x: Any, parts: Mapping[int, tf.RaggedTensor], names: Sequence[str]
    ) -> None:
        """Raise where inputs differ in size that are joined; whether they are, tells the model.

        Only a single top-bag is computed, and only once for a pair of inputs that may differ.
        """
        for pair in itertools.combinations(parts, 2):
            if pair in self._may_differ:
                continue
            differing = first_difference(*(parts[i] for i in pair))
            if differing is None:
                continue
            one = ragged.take(x, [differing.top_bag])
            one = complete_inputs(tf.nest.map_structure(as_tensor, one), self.expected)
            try:
                self._model(one, training=False)
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(
                    "Expected bags of the same sizes in inputs that are joined instance by "
                    f"instance. Received: {_described(differing.top_bag, parts, names)}"
                ) from error
            self._may_differ |= set(_differing(differing.top_bag, parts))


def _differing(top_bag: int, parts: Mapping[int, tf.RaggedTensor]) -> Iterator[tuple[int, int]]:
    """Pairs of ragged inputs that differ in size in a top-bag."""
    ones = {i: part[top_bag : top_bag + 1] for i, part in parts.items()}
    for a, b in itertools.combinations(ones, 2):
        if first_difference(ones[a], ones[b]) is not None:
            yield a, b


def _described(top_bag: int, parts: Mapping[int, tf.RaggedTensor], names: Sequence[str]) -> str:
    """How ragged inputs differ in a top-bag, pair by pair."""
    differing = []
    for a, b in _differing(top_bag, parts):
        found = first_difference(*(parts[i][top_bag : top_bag + 1] for i in (a, b)))
        assert found is not None
        ours, theirs = found.sizes
        differing.append(f"a bag of {ours} members in {names[a]}, of {theirs} in {names[b]}")
    return f"in top-bag {top_bag} " + "; ".join(differing)

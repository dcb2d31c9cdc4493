"""What is to be predicted of records."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import MISSING_INT, MISSING_TEXT, Array, Bools
from keras_mmil.records.fields import Field

__all__ = ["Target", "TargetPaths", "warn_of_missing"]

# The path of what is to be predicted, or several.
TargetPaths: TypeAlias = str | Sequence[str]

_N_SHOWN = 3
_NOTHING = (MISSING_TEXT.encode(), MISSING_INT)
_MISSING, _UNKNOWN = -1, -2


@dataclass(frozen=True)
class Target:
    """Parts whose values are labels.

    Attributes:
        kind: "classes": one of some classes for each record; "labels": each of some labels is or is
            not given to a record; or "numbers".
        parts: what the labels are read of.
        classes: of classes, the values that they stand for, in order; of labels, their names, one
            for each column: paths of booleans, or the categories in a bag. Empty for numbers.
        shape: of the labels of a record: (), or (columns,).
    """

    kind: Literal["classes", "labels", "numbers"]
    parts: tuple[Field, ...]
    classes: tuple[Any, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, paths: TargetPaths, part_of: Callable[[str], Field]) -> Self:
        """The labels at a path, or at several.

        Args:
            paths: of a number, a boolean, a category, or a bag of categories; or several, of
                booleans or of numbers.
            part_of: from a path to the part there.

        Raises:
            KeyError: if there is no such path.
            ValueError: if the parts are none of these.
        """
        if not isinstance(paths, str):
            return cls._of_several(paths, part_of)
        part = part_of(paths)
        if part.kind == "number":
            return cls("numbers", (part,), (), ())
        if part.kind == "boolean":
            return cls("classes", (part,), (False, True), ())
        if part.kind == "category":
            return cls("classes", (part,), _values(part), ())
        members = [each for each in part.parts if not each.is_left_out]
        if part.kind == "bag" and [each.kind for each in members] == ["category"]:
            values = _values(members[0])
            return cls("labels", (part,), values, (len(values),))
        raise ValueError(
            "Expected a number, a boolean, a category or a bag of categories as target. "
            f"Received: {paths!r}, which is {part.kind}"
        )

    @classmethod
    def _of_several(cls, paths: Sequence[str], part_of: Callable[[str], Field]) -> Self:
        parts = tuple(map(part_of, paths))
        kinds = {part.kind for part in parts}
        if len(set(paths)) == len(parts) and kinds == {"boolean"}:
            return cls("labels", parts, tuple(paths), (len(parts),))
        if len(set(paths)) == len(parts) and kinds == {"number"}:
            return cls("numbers", parts, (), (len(parts),))
        found = ", ".join(f"{part.path!r}, which is {part.kind}" for part in parts)
        raise ValueError(
            "Expected different paths as targets, all of booleans or all of numbers. "
            f"Received: {found or 'none'}"
        )

    @property
    def dtype(self) -> str:
        """That of the labels."""
        return "float32" if self.kind == "numbers" else "int64"

    def split(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], Array]:
        """Tensors without the target, and the labels.

        Raises:
            ValueError: if labels are in bags, missing, or no known classes.
        """
        leaves_of = [_leaf(part) for part in self.parts]
        paths = {leaf.path for leaf in leaves_of}
        x = {path: tensor for path, tensor in tensors.items() if path not in paths}
        columns = [
            self._labels(leaf, _in_no_more_bags(part, tensors[leaf.path]))
            for part, leaf in zip(self.parts, leaves_of, strict=True)
        ]
        if not self.shape or self.parts[0].kind == "bag":
            return x, columns[0]
        return x, np.stack(columns, axis=1)

    def are_there(self, tensors: Mapping[str, Any]) -> Bools:
        """Which records have all labels, [records]. In a bag, none is as good as some."""
        found: list[Bools] = []
        for leaf in map(_leaf, self.parts):
            values = tensors[leaf.path]
            if isinstance(values, tf.RaggedTensor):
                found.append(np.ones(values.nrows(), bool))
            elif values.dtype.is_floating:
                found.append(~np.isnan(values.numpy()))
            else:
                missing = MISSING_TEXT if values.dtype == tf.string else MISSING_INT
                found.append(
                    values.numpy() != (missing.encode() if isinstance(missing, str) else missing)
                )
        return np.logical_and.reduce(found)

    def _labels(self, part: Field, values: tf.Tensor | tf.RaggedTensor) -> Array:
        if isinstance(values, tf.RaggedTensor):
            return self._of_bags(part, values)
        if values.dtype.is_floating:
            labels = values.numpy()
            _check(part, labels, ~np.isnan(labels))
            return labels if self.kind == "numbers" else labels.astype(self.dtype)
        positions = self._positions(values)
        _check(part, values.numpy(), positions >= 0)
        return positions

    def _of_bags(self, part: Field, values: tf.RaggedTensor) -> Array:
        """A column for each category: whether it is in the bag."""
        positions = self._positions(values.flat_values)
        _check(part, values.flat_values.numpy(), positions != _UNKNOWN)
        labels = np.zeros((values.nrows(), len(self.classes)), self.dtype)
        is_there = positions >= 0
        labels[values.value_rowids().numpy()[is_there], positions[is_there]] = 1
        return labels

    def _positions(self, values: tf.Tensor) -> Array:
        """Which class each value is; `_MISSING` or `_UNKNOWN` where it is none."""
        keys = [each.encode() if isinstance(each, str) else each for each in self.classes]
        position = {key: i for i, key in enumerate(keys)} | dict.fromkeys(_NOTHING, _MISSING)
        return np.array([position.get(x, _UNKNOWN) for x in values.numpy().tolist()], self.dtype)


def warn_of_missing(are_there: Bools, where: str) -> None:
    """Warn of how many records are left out as they have no label.

    Args:
        are_there: which have one, [records].
        where: where it would be.
    """
    n = len(are_there) - int(are_there.sum())
    if n:
        warnings.warn(
            f"{n} of {len(are_there)} records have no label in {where}; they are left out.",
            stacklevel=4,
        )


def _values(part: Field) -> tuple[Any, ...]:
    return () if part.values is None else tuple(sorted(part.values.counts or ()))


def _leaf(part: Field) -> Field:
    """What the values of a part are read of: of a bag, its members."""
    if part.kind != "bag":
        return part
    return next(each for each in part.parts if not each.is_left_out)


def _in_no_more_bags(part: Field, values: Any) -> Any:
    """The values of a target, which is at the top of the records."""
    depth = int(part.kind == "bag")
    if len(values.shape) != 1 + depth:
        raise ValueError(f"Expected a target that is in no bag. Received: {part.path!r}")
    return values


def _check(part: Field, values: Array, is_known: Array) -> None:
    if not is_known.all():
        found = values[~is_known][:_N_SHOWN].tolist()
        shown = ", ".join("nothing" if x in _NOTHING or x != x else str(x) for x in found)
        raise ValueError(
            f"Expected a known value of {part.path!r} in each record. "
            f"Received: {shown} in {int((~is_known).sum())} of {len(values)}"
        )

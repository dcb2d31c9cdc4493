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
        kind: "classes": each record has one of some classes; "labels": each record has any of some
            labels; or "numbers".
        parts: that hold the labels.
        classes: the values of the classes, in order; the names of the labels, one for each column:
            paths of booleans, or the categories in a bag. Empty for numbers.
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
            part_of: from a path to the part there; it may raise KeyError.

        Raises:
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
            return cls("classes", (part,), _categories(part), ())
        members = [each for each in part.parts if not each.is_left_out]
        if part.kind == "bag" and [each.kind for each in members] == ["category"]:
            values = _categories(members[0])
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
        received = ", ".join(f"{part.path!r}, which is {part.kind}" for part in parts)
        raise ValueError(
            "Expected different paths as targets, all of booleans or all of numbers. "
            f"Received: {received or 'none'}"
        )

    @property
    def dtype(self) -> str:
        """That of the labels."""
        return "float32" if self.kind == "numbers" else "int64"

    def split(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], Array]:
        """Tensors without the target, and the labels.

        Raises ValueError if labels are in bags, missing, or no known classes.
        """
        scalars = [_scalar(part) for part in self.parts]
        paths = {scalar.path for scalar in scalars}
        x = {path: tensor for path, tensor in tensors.items() if path not in paths}
        columns = []
        for part, scalar in zip(self.parts, scalars, strict=True):
            values = tensors[scalar.path]
            if len(values.shape) != 1 + (part.kind == "bag"):
                raise ValueError(f"Expected a target that is in no bag. Received: {part.path!r}")
            columns.append(self._labels(scalar, values))
        if not self.shape or self.parts[0].kind == "bag":
            return x, columns[0]
        return x, np.stack(columns, axis=1)

    def are_there(self, tensors: Mapping[str, Any]) -> Bools:
        """Which records have all labels, [records]. An empty bag is no missing label."""
        results: list[Bools] = []
        for scalar in map(_scalar, self.parts):
            values = tensors[scalar.path]
            if isinstance(values, tf.RaggedTensor):
                results.append(np.ones(values.nrows(), bool))
            elif values.dtype.is_floating:
                results.append(~np.isnan(values.numpy()))
            else:
                missing = _NOTHING[0] if values.dtype == tf.string else MISSING_INT
                results.append(values.numpy() != missing)
        return np.logical_and.reduce(results)

    def _labels(self, part: Field, values: tf.Tensor | tf.RaggedTensor) -> Array:
        if isinstance(values, tf.RaggedTensor):  # a column for each category: is it in the bag?
            positions = self._positions(values.flat_values)
            _check(part, values.flat_values.numpy(), positions != _UNKNOWN)
            labels = np.zeros((values.nrows(), len(self.classes)), self.dtype)
            is_there = positions >= 0
            labels[values.value_rowids().numpy()[is_there], positions[is_there]] = 1
            return labels
        if values.dtype.is_floating:
            labels = values.numpy()
            _check(part, labels, ~np.isnan(labels))
            return labels if self.kind == "numbers" else labels.astype(self.dtype)
        positions = self._positions(values)
        _check(part, values.numpy(), positions >= 0)
        return positions

    def _positions(self, values: tf.Tensor) -> Array:
        """The class of each value; `_MISSING` or `_UNKNOWN` where it has none."""
        keys = [each.encode() if isinstance(each, str) else each for each in self.classes]
        position = {key: i for i, key in enumerate(keys)} | dict.fromkeys(_NOTHING, _MISSING)
        return np.array([position.get(x, _UNKNOWN) for x in values.numpy().tolist()], self.dtype)


def warn_of_missing(are_there: Bools, where: str) -> None:
    """Warn that records without a label are left out.

    Args:
        are_there: which records have one, [records].
        where: it would be.
    """
    n = len(are_there) - int(are_there.sum())
    if n:
        warnings.warn(
            f"{n} of {len(are_there)} records have no label in {where}; they are left out.",
            stacklevel=4,
        )


def _categories(part: Field) -> tuple[Any, ...]:
    return () if part.values is None else tuple(sorted(part.values.counts or ()))


def _scalar(part: Field) -> Field:
    """The part itself, or the members of a bag."""
    if part.kind != "bag":
        return part
    return next(each for each in part.parts if not each.is_left_out)


def _check(part: Field, values: Array, is_known: Array) -> None:
    if not is_known.all():
        unknown = values[~is_known][:_N_SHOWN].tolist()
        shown = ", ".join("nothing" if x in _NOTHING or x != x else str(x) for x in unknown)
        raise ValueError(
            f"Expected a known value of {part.path!r} in each record. "
            f"Received: {shown} in {int((~is_known).sum())} of {len(values)}"
        )

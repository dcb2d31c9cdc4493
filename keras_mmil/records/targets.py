"""What is to be predicted of records."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array
from keras_mmil.records import leaves
from keras_mmil.records.fields import Field
from keras_mmil.records.statistics import Values

__all__ = ["Target"]

_N_SHOWN = 3


@dataclass(frozen=True)
class Target:
    """A part whose values are labels.

    Attributes:
        path: of the part.
        classes: the values that labels stand for, in order; empty if labels are numbers.
    """

    path: str
    classes: tuple[Any, ...]

    @classmethod
    def of(cls, part: Field) -> Self:
        """The labels of a part.

        Raises:
            ValueError: if it is no number, boolean or category.
        """
        if part.kind == "number":
            return cls(part.path, ())
        if part.kind == "boolean":
            return cls(part.path, (False, True))
        if part.kind == "category" and isinstance(part.seen, Values):
            return cls(part.path, tuple(sorted(part.seen.counts or ())))
        raise ValueError(
            "Expected a number, a boolean or a category as target. "
            f"Received: {part.path!r}, which is {part.kind}"
        )

    @property
    def dtype(self) -> str:
        """That of the labels."""
        return "int64" if self.classes else "float32"

    def split(self, tensors: dict[str, Any]) -> tuple[dict[str, Any], Array]:
        """Tensors without the target, and the labels.

        Raises:
            ValueError: if labels are in bags, missing, or no known classes.
        """
        x = {path: tensor for path, tensor in tensors.items() if path != self.path}
        values = tensors[self.path]
        if isinstance(values, tf.RaggedTensor):
            raise ValueError(f"Expected a target that is in no bag. Received: {self.path!r}")
        return x, self._labels(values.numpy())

    def _labels(self, values: Array) -> Array:
        if values.dtype.kind == "f":
            self._check(values, ~np.isnan(values))
            return values.astype(self.dtype)
        classes = np.array(
            [each.encode() if isinstance(each, str) else each for each in self.classes]
        )
        if values.dtype.kind == "O":
            values = np.array([b"" if x == leaves.MISSING_TEXT.encode() else x for x in values])
        labels = np.searchsorted(classes, values).clip(max=len(classes) - 1)
        self._check(values, classes[labels] == values)
        return labels.astype(self.dtype)

    def _check(self, values: Array, is_known: Array) -> None:
        if not is_known.all():
            shown = ", ".join(map(str, values[~is_known][:_N_SHOWN]))
            raise ValueError(
                f"Expected a known value of {self.path!r} in each record. "
                f"Received: {shown} in {int((~is_known).sum())} of {len(values)}"
            )

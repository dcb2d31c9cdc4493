"""Whatever holds top-bags, as batches of tensors."""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged, text
from keras_mmil._support.types import Labels
from keras_mmil.bags import Bags
from keras_mmil.inputs import is_data
from keras_mmil.io.layout import NAMES

__all__ = ["batches_of"]

_SLICE = 256  # top-bags that are taken from memory at a time


def batches_of(x: Any, y: Labels = None, sample_weight: Labels = None) -> Iterator[tuple[Any, ...]]:
    """Batches `(x,)`, `(x, y)` or `(x, y, sample_weight)` of eager tensors; none is empty.

    Args:
        x: RaggedTensor, tensor, array, `Bags`, list of texts, or a tuple or dict of those; or a
            Dataset or another iterable of batches, each of which is such an x or a tuple
            `(x,)`, `(x, y)` or `(x, y, sample_weight)`.
        y, sample_weight: labels and weights of the top-bags, if `x` holds the inputs alone.

    Raises:
        TypeError: if it is something else.
        ValueError: if the parts of a batch lead with different numbers of top-bags, or the Dataset
            has no end.
    """
    if _is_stream(x):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "Expected labels and weights in the batches, where x is an iterable of batches. "
                f"Received: y of type {type(y).__name__}, "
                f"sample_weight of type {type(sample_weight).__name__}"
            )
        return _of_stream(x)
    if y is None and sample_weight is not None:
        raise ValueError("Expected labels where there are weights. Received: y=None")
    return _of_memory(x, y, sample_weight)


def _is_stream(x: Any) -> bool:
    if isinstance(x, tf.data.Dataset):
        if x.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError("Expected a finite Dataset. Received: x, which has no end")
        return True
    return isinstance(x, Iterable) and not is_data(x)


def _of_stream(found: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for element in found:
        parts = element if isinstance(element, tuple) else (element,)
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                "Expected batches x, (x,), (x, y) or (x, y, sample_weight). "
                f"Received: a tuple of {len(parts)}"
            )
        yield from _of_memory(*keras.utils.unpack_x_y_sample_weight(parts))


def _of_memory(*given: Any) -> Iterator[tuple[Any, ...]]:
    """Slices of x, y and weights, the last of which may be None."""
    pairs = zip(given, NAMES, strict=True)
    whole = tuple(_prepared(part, name) for part, name in pairs if part is not None)
    n = ragged.n_top_bags(whole)
    for start in range(0, n, _SLICE):
        some = whole if n <= _SLICE else ragged.take(whole, slice(start, start + _SLICE))
        yield tf.nest.map_structure(_as_eager_tensor, some)


def _prepared(part: Any, name: str) -> Any:
    """A structure of tensors and arrays, with dicts for `Bags`.

    Lists become texts, numbers, or in labels tuples of the outputs, as tf.data has it.
    """
    if isinstance(part, Bags):
        part = part.inputs
    if isinstance(part, dict):
        return {key: _prepared(inner, f"{name}/{key}") for key, inner in part.items()}
    is_labels = isinstance(part, list) and name != "x"
    if is_labels and any(len(getattr(inner, "shape", ())) for inner in part):
        part = tuple(part)  # of the outputs
    if isinstance(part, tuple):
        return tuple(_prepared(inner, f"{name}/{i}") for i, inner in enumerate(part))
    if isinstance(part, list) and part and all(isinstance(each, str | bytes) for each in part):
        return tf.constant(list(map(text.as_bytes, part)), tf.string)
    if is_labels and isinstance(part, list):
        return np.asarray(part)
    if not isinstance(part, (tf.RaggedTensor, tf.Tensor, np.ndarray)):
        raise TypeError(
            "Expected a RaggedTensor, a tensor, an array, Bags, a list of texts, or a dict or "
            "tuple of those; or a Dataset or another iterable of batches, but no list: "
            "`iter([batch, …])`. "
            f"Received: {name} of type {type(part).__name__}"
        )
    return part


def _as_eager_tensor(part: Any) -> Any:
    if isinstance(part, tf.RaggedTensor):
        part = part.with_row_splits_dtype(tf.int64)
    return tf.convert_to_tensor(part) if isinstance(part, np.ndarray) else part

"""A single top-bag, told from several by the axes that the model's inputs have."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil.layers.grouping import depth_of
from keras_mmil.model.checks import InputChecks

__all__ = ["as_batch", "checked"]


def as_batch(x: Any, expected: Any) -> Any:
    """A single top-bag as a batch of one; anything else as it is.

    Args:
        x: top-bags as for `top_bags`, or one of them: all parts have one axis less.
        expected: the model's inputs: one `KerasTensor`, or a dict or list of them.
    """
    if not _is_single(x, expected):
        return x
    if isinstance(expected, dict) and not isinstance(x, dict):
        x = {"bags": x}
    batches = [_batch_of_one(part, spec) for part, spec in _pairs(x, expected)]
    if isinstance(expected, dict):
        return dict(zip(x, batches, strict=True))
    return batches if isinstance(expected, (list, tuple)) else batches[0]


def checked(x: Any, checks: InputChecks, name: str) -> Any:
    """What the model can read of some top-bags, see `InputChecks`.

    Raises:
        TypeError, ValueError: as `InputChecks`; and for a single top-bag.
    """
    if _is_single(x, checks.expected):
        shapes = [tuple(getattr(part, "shape", ())) for part, _ in _pairs(x, checks.expected)]
        raise ValueError(
            "Expected top-bags, a single one as x[:1], of which x[0] has an axis less. "
            f"Received: {name} with the axes of one, shapes {shapes}"
        )
    return checks(x, name)


def _is_single(x: Any, expected: Any) -> bool:
    """Whether all parts of some top-bags have one axis less than the model's inputs."""
    pairs = [(part, spec) for part, spec in _pairs(x, expected) if part is not None]
    return bool(pairs) and all(
        spec is not None and _rank(part) == len(spec.shape) - 1 for part, spec in pairs
    )


def _pairs(x: Any, expected: Any) -> list[tuple[Any, keras.KerasTensor | None]]:
    """Each part of `x` and the input it is for; none where they cannot be matched."""
    if isinstance(expected, dict):
        x = x if isinstance(x, dict) else {"bags": x}
        return [(part, expected.get(key)) for key, part in x.items()]
    if isinstance(expected, (list, tuple)):
        is_alike = isinstance(x, (list, tuple)) and len(x) == len(expected)
        return list(zip(x, expected, strict=True)) if is_alike else []
    return [(x, expected)]


def _rank(part: Any) -> int | None:
    if isinstance(part, (str, bytes)):
        return 0
    shape = getattr(part, "shape", None)
    return None if shape is None else len(shape)


def _batch_of_one(part: Any, spec: keras.KerasTensor) -> Any:
    if part is None:
        return None
    if isinstance(part, (str, bytes)):
        return [part]
    if isinstance(part, tf.RaggedTensor):
        splits = tf.stack([tf.zeros_like(part.nrows()), part.nrows()])
        return tf.RaggedTensor.from_row_splits(part, splits)
    part = tf.convert_to_tensor(part)[None]
    if not spec.ragged:
        return part
    return tf.RaggedTensor.from_tensor(part, ragged_rank=depth_of(spec.shape) - 1)

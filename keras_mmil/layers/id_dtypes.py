"""Ids are integers."""

import keras

__all__ = ["check_ids"]


def check_ids(layer, **tensors):
    """Raise ValueError where ids, of instances or of rows, are no integers; None is left out.

    Floats would be cut off without a word on their way to an embedding or a table.
    """
    for name, x in tensors.items():
        dtype = None if x is None else keras.backend.standardize_dtype(x.dtype)
        if dtype is not None and not keras.backend.is_int_dtype(dtype):
            raise ValueError(
                f"{type(layer).__name__} '{layer.name}' expected integer ids. "
                f"Received: {name}.dtype={dtype}"
            )

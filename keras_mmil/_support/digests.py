"""Digests of data: equal where all values are, whatever object holds them."""

import hashlib
from typing import Any

import numpy as np
import tensorflow as tf

__all__ = ["add_to_digest"]


def add_to_digest(digest: hashlib.blake2b, x: Any) -> None:
    """Add tensors and arrays, ragged or not, or tuples, lists and dicts of those, to a digest."""
    for part in tf.nest.flatten(x, expand_composites=True):
        values = np.asarray(part)
        digest.update(f"{values.shape} {values.dtype}".encode())
        is_text = values.dtype == object
        texts = (b"%d %s" % (len(text), text) for text in values.flat) if is_text else ()
        digest.update(b"".join(texts) if is_text else values.tobytes())

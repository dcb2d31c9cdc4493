"""Digests of data: equal where all values are, whatever object holds them."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

__all__ = ["add_to_digest"]


def add_to_digest(digest: hashlib.blake2b, x: Any) -> None:
    """Add tensors and arrays, ragged or not, or tuples, lists and dicts of those, to a digest.

    All that varies in length follows its own length, so that no two data are the same bytes. Lists
    and tuples are alike, and dicts whatever their order.
    """
    if x is None:
        digest.update(b"none;")
    elif isinstance(x, Mapping):
        digest.update(b"dict %d;" % len(x))
        for name in sorted(x):
            digest.update(b"name %d;%s" % (len(str(name).encode()), str(name).encode()))
            add_to_digest(digest, x[name])
    elif isinstance(x, tuple | list):
        digest.update(b"list %d;" % len(x))
        for part in x:
            add_to_digest(digest, part)
    elif isinstance(x, tf.RaggedTensor | tf.SparseTensor):
        add_to_digest(digest, tf.nest.flatten(x, expand_composites=True))
    else:
        values = np.asarray(x)
        digest.update(f"{values.shape} {values.dtype};".encode())
        if values.dtype != object:
            digest.update(values.tobytes())
            return
        texts = (text if isinstance(text, bytes) else str(text).encode() for text in values.flat)
        digest.update(b"".join(b"%d;%s" % (len(text), text) for text in texts))

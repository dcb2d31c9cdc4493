"""Digests of files, JSON, data and trained networks: equal where the contents are."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.files import to_json
from keras_mmil._support.keras_internals import all_layers
from keras_mmil._support.types import PathLike


def checksum_of_file(path: PathLike) -> str:
    """SHA-256 of a file, hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_of_json(content: object) -> str:
    """SHA-256, hexadecimal, of JSON content, whatever the order of its keys."""
    return hashlib.sha256(to_json(content, sort_keys=True).encode()).hexdigest()


def digest_of(x: Any) -> str:
    """A digest, hexadecimal, of tensors, arrays, or nests of them."""
    digest = hashlib.blake2b(digest_size=16)
    add_to_digest(digest, x)
    return digest.hexdigest()


def add_to_digest(digest: hashlib.blake2b, x: Any) -> None:
    """Add tensors and arrays, ragged or not, or tuples, lists and dicts of those, to a digest.

    Whatever varies in length follows its length, so that different data are different bytes. Lists
    and tuples are alike, and the order of a dict does not matter.
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


def fingerprint(model: keras.Model) -> str:
    """SHA-256, hexadecimal, that identifies a trained network.

    It covers the shapes, dtypes and values of the weights, and the activations and aggregations of
    the layers. Names do not matter, nor do layers that prepare the input, such as `TextBags`.
    """
    digest = hashlib.sha256()
    for functions in sorted(map(_functions, all_layers(model))):
        digest.update(functions.encode())
    for weight in model.weights:
        values = weight.numpy()
        digest.update(f"{values.shape} {values.dtype}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _functions(layer: keras.Layer) -> str:
    """The activation and the aggregations of a layer, as text."""
    activation = getattr(layer, "activation", None)
    name = getattr(activation, "__name__", type(activation).__name__)
    found = [] if activation is None else [name]
    for aggregation in getattr(layer, "aggregations", ()):
        settings = {**aggregation.get_config(), "name": None, "dtype": None}
        found.append(f"{aggregation.identifier} {json.dumps(settings, sort_keys=True)}")
    return "; ".join(found)

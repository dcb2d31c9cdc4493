"""What tells trained networks apart."""

import hashlib
import json

import keras

from keras_mmil.functional.graph import all_layers

__all__ = ["fingerprint"]


def fingerprint(model: keras.Model) -> str:
    """What tells trained models apart, as hexadecimal digits.

    It is the SHA-256 of the shapes, dtypes and values of a model's weights, and of the activations
    and aggregations of its layers. Names do not matter, nor do layers that prepare the input, such
    as `TextBags`.
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

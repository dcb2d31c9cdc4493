"""Models that are built repeatedly, but compiled by TensorFlow only once."""

import re
import warnings
from collections.abc import Callable

import keras

from keras_mmil._support.keras_internals import all_layers, seed_generators

__all__ = ["architecture", "forget", "new_model"]

# The model of this process, one at most, by the key of the trainings that it is for.
_model_of: dict[str, keras.Model] = {}


def forget() -> None:
    """Release the model that is kept."""
    _model_of.clear()


def new_model(build: Callable[[], keras.Model], key: str) -> keras.Model:
    """A model as `build` makes it, but compiled by TensorFlow only once for a key.

    Compilation can take longer than several epochs, and its memory is never released: from the
    second call on, the first model is returned, with the initial values of a new one.
    """
    model = build()
    used = _model_of.get(key)
    if used is None or not _are_alike(model, used):
        _model_of.clear()
        _model_of[key] = model
        return model
    model.optimizer.build(model.trainable_variables)
    for olds, news in (
        (used.weights, model.weights),
        (used.optimizer.variables, model.optimizer.variables),
        (_states(used), _states(model)),
    ):
        for old, new in zip(olds, news, strict=True):
            old.assign(new)
    return used


def _are_alike(model: keras.Model, used: keras.Model) -> bool:
    """Whether what was compiled for one model holds for another, whatever their weights."""
    if any(hasattr(layer, "adapt") for layer in all_layers(model)):
        return False  # what such layers learned may be constants, which no configuration tells
    configuration = architecture(model)
    return configuration is not None and configuration == architecture(used)


def architecture(model: keras.Model) -> str | None:
    """A model's configuration; None if it has none.

    Neither the numbers in automatic names nor the addresses of shared objects are in it, which are
    others in each process.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about lambdas, which are not to be loaded
            found = re.sub(r'(?<=[a-z])_\d+"', '"', model.to_json())
    except (NotImplementedError, TypeError, ValueError):
        return None
    numbers: dict[str, str] = {}
    return re.sub(
        r'(?<="shared_object_id": )\d+',
        lambda match: numbers.setdefault(match[0], str(len(numbers))),
        found,
    )


def _states(model: keras.Model) -> list[keras.Variable]:
    return [generator.state for generator in seed_generators(model)]

"""Networks of repeated trainings: whether they are the same, and compiled only once."""

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras

from keras_mmil._support.digests import digest_of
from keras_mmil._support.keras_internals import all_layers, seed_generators

# The model of this process, one at most, by the key of its trainings.
_model_of: dict[str, keras.Model] = {}


def forget() -> None:
    """Release the model that is kept."""
    _model_of.clear()


def new_model(build: Callable[[], keras.Model], key: str) -> keras.Model:
    """The result of `build`, but compiled by TensorFlow only once for a key.

    Compilation can take longer than several epochs, and its memory is never released. So from the
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
        (_random_states(used), _random_states(model)),
    ):
        for old, new in zip(olds, news, strict=True):
            old.assign(new)
    return used


def _are_alike(model: keras.Model, used: keras.Model) -> bool:
    """Whether the compiled functions of one model hold for another, whatever their weights."""
    if any(hasattr(layer, "adapt") for layer in all_layers(model)):
        return False  # what such layers learned may be constants, which no configuration tells
    configuration = _configuration(model)
    return configuration is not None and configuration == _configuration(used)


def _random_states(model: keras.Model) -> list[keras.Variable]:
    return [generator.state for generator in seed_generators(model)]


def _configuration(model: keras.Model) -> str | None:
    """A model's configuration as JSON, the same in each process; None if it has none.

    It lacks the numbers in automatic names and the addresses of shared objects.
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


def network_digest(model: keras.Model) -> str | None:
    """A digest of a model's configuration; None if it has none."""
    configuration = _configuration(model)
    return None if configuration is None else digest_of(configuration)


def check_can_resume(model: keras.Model) -> None:
    """Raise ValueError for a model without configuration, which may not be the one of before."""
    if _configuration(model) is None:
        raise ValueError(
            "Expected a model that Keras can serialize, to resume its training: of others nobody "
            f"knows whether they are the same. Received: {model.name}, of a layer without a "
            "configuration"
        )


def differences(before: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """How settings differ from those of before, as text; digests are not shown."""
    names = sorted(before.keys() | settings.keys())
    return ", ".join(
        f"other {name}"
        if isinstance(settings.get(name, before.get(name)), str)
        else f"{name}={settings.get(name)!r:.40} (before: {before.get(name)!r:.40})"
        for name in names
        if before.get(name) != settings.get(name)
    )

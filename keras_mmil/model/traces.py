"""Graph functions that models of equal structure share, such as those of folds and seeds.

Tracing takes longer than many a training. Of the second of several equal models a private twin is
made, for which functions are traced; it trains this one and the next ones: before each call it gets
the values of their variables, and after it they get its own.
"""

import json
import math
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras

from keras_mmil._support.keras_internals import all_layers

__all__ = ["shared", "structure_of"]

_MOST = 4  # structures that are remembered
_LARGEST = 1_000_000  # numbers in the variables of a model: copies of more would take long

_METHODS = ("call", "train_step", "test_step", "compute_loss", "compute_metrics")

Run: TypeAlias = Callable[..., dict[str, Any]]


class _Twin:
    """A model that trains others of equal structure.

    Args:
        model: one of these.
        make_variables: makes the variables that a compiled model lacks.
    """

    def __init__(self, model: keras.Model, make_variables: Callable[[keras.Model], None]) -> None:
        self._model = type(model).from_config(model.get_config())
        self._model.compile_from_config(model.get_compile_config())
        make_variables(self._model)
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()

    def run(self, key: str, model: keras.Model, trace: Callable[[keras.Model], Run]) -> Run:
        """A function of `shared`, which runs steps of a model by those of the twin."""
        with self._lock:
            if key not in self._runs:
                self._runs[key] = trace(self._model)
        own, theirs, run = _variables(self._model), _variables(model), self._runs[key]

        def run_by_twin(*arguments: Any) -> dict[str, Any]:
            with self._lock:
                _assign(own, theirs)
                logs = run(*arguments)
                _assign(theirs, own)
            return logs

        return run_by_twin


_LOCK = threading.Lock()
# By the structure of models: the first model, and the twin once there is a second one.
_KNOWN: OrderedDict[str, tuple[weakref.ref[keras.Model], _Twin | None]] = OrderedDict()


def shared(
    model: keras.Model,
    key: str,
    trace: Callable[[keras.Model], Run],
    make_variables: Callable[[keras.Model], None],
) -> Run:
    """A function that runs steps of a model: its own, or one of a twin.

    Args:
        model: compiled, with all its variables.
        key: equal for functions that do the same with models of equal structure.
        trace: makes the function for a model.
        make_variables: makes the variables that a compiled model lacks.
    """
    structure = structure_of(model)
    if structure is None:
        return trace(model)
    with _LOCK:
        first, twin = _KNOWN.pop(structure, (weakref.ref(model), None))
        if twin is None and first() is not model:
            twin = _Twin(model, make_variables)
        _KNOWN[structure] = first, twin
        while len(_KNOWN) > _MOST:
            _KNOWN.popitem(last=False)
    return trace(model) if twin is None else twin.run(key, model, trace)


def _variables(model: keras.Model) -> list[keras.Variable]:
    """All variables of a compiled model, in an order that follows from its structure."""
    of_optimizer = () if model.optimizer is None else model.optimizer.variables
    found = [*model.variables, *of_optimizer, *model.metrics_variables]
    return list({id(x): x for x in found}.values())


def _assign(to: Sequence[keras.Variable], values: Sequence[keras.Variable]) -> None:
    for one, other in zip(to, values, strict=True):
        one.assign(other.value)


def structure_of(model: keras.Model) -> str | None:
    """What a model computes and how it is trained, but for the values of its variables.

    Returns:
        JSON that is equal for models of equal structure, whatever the names of their layers; None
        for a model with code of its own, of which that cannot be known, or a large one.
    """
    is_own = any(
        getattr(type(model), name) is not getattr(keras.Model, name)
        for name in ("train_step", "test_step", "compute_metrics")
    ) or any(name in vars(model) for name in _METHODS)
    n_numbers = sum(math.prod(variable.shape) for variable in _variables(model))
    if is_own or not type(model).__module__.startswith("keras") or n_numbers > _LARGEST:
        return None
    layers = all_layers(model)
    if any(hasattr(layer, "adapt") for layer in layers):
        return None  # what `Normalization` and others compute with is in no variable
    try:
        names = {layer.name: i for i, layer in enumerate([model, *model.layers])}
        if not any(isinstance(layer, keras.Model) for layer in layers):
            # Nothing refers to the names of layers in layers.
            names = dict.fromkeys((layer.name for layer in layers), -1) | names
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of functions, which Keras could not load from a file
            configs = model.get_config(), model.get_compile_config()
        plain = [_without_names(configs[0], names), _without_names(configs[1], None)]
    except (_OwnCodeError, NotImplementedError):  # the latter without a configuration
        return None
    return json.dumps([plain, list(model.get_metrics_result())], default=repr)


class _OwnCodeError(Exception):
    """A part of a model is code whose content its configuration does not tell."""


# What variables hold; and the shapes of batches, in lists or tuples.
_IRRELEVANT = {"seed", "learning_rate", "build_config"}


def _without_names(part: Any, names: Mapping[Any, Any] | None) -> Any:
    """A configuration with numbers in place of some names, or without any names if these are None.

    Lists of a name and integers refer to an output of a layer.
    """
    if isinstance(part, Mapping):
        if "class_name" in part:
            _check_is_known(part)
        found = {key: _without_names(x, names) for key, x in part.items() if key != "name"}
        for key in list(found):
            is_object = isinstance(part[key], Mapping) and "class_name" in part[key]
            if key.endswith("_initializer") or (key in _IRRELEVANT and not is_object):
                del found[key]
        name = part.get("name")
        return found if names is None else {**found, "name": names.get(name, name)}
    if isinstance(part, list | tuple):
        first, *rest = part or [None]
        if isinstance(first, str) and all(isinstance(x, int) for x in rest):
            return [(names or {}).get(first, first), *rest]
        return [_without_names(x, names) for x in part]
    if callable(part):
        raise _OwnCodeError
    return part


def _check_is_known(part: Mapping[str, Any]) -> None:
    """Raise _OwnCodeError for an object that is neither of Keras nor of this library."""
    module, name = str(part.get("module") or "keras"), str(part["class_name"]).lower()
    if (
        module.split(".")[0] not in ("keras", "keras_mmil")
        or "lambda" in name
        or name == "function"
    ):
        raise _OwnCodeError

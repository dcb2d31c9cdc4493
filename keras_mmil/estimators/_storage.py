"""Estimators in folders: JSON and Keras's files, nothing that is executed when it is read."""

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np

from keras_mmil._support.atomic import replacing, write_json
from keras_mmil._support.types import PathLike
from keras_mmil.interpretation import Explainer
from keras_mmil.records import Schema

__all__ = ["load", "save"]

_FORMAT = 1
_STATE, _MODEL, _SCHEMA, _RULES = "estimator.json", "model.keras", "schema.json", "rules"
_PAIRS = "pairs"
_NOT_SAVED = ("schema", "random_state")  # the one is beside it as `schema_`

Estimator = TypeVar("Estimator")


def save(estimator: Any, folder: PathLike) -> None:
    """Write a fitted estimator."""
    folder = Path(folder)
    parameters = {
        name: _plain(name, value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NOT_SAVED
    }
    fitted = {name: _plain(name, getattr(estimator, name)) for name in estimator.fitted}
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / _MODEL) as part:
        estimator.model_.save(part)
    estimator.schema_.save(folder / _SCHEMA)
    labels = list(estimator._explainers)
    for i, label in enumerate(labels):
        estimator._explainers[label].save(folder / _RULES / str(i))
    content = {
        "format": _FORMAT,
        "class": type(estimator).__name__,
        "parameters": parameters,
        "target": estimator.target_,
        "history": estimator.history_,
        "fitted": fitted,
        "rules_of": labels,
    }
    write_json(folder / _STATE, content)


def load(cls: type[Estimator], folder: PathLike) -> Estimator:
    """Read what `save` wrote.

    Raises:
        ValueError: if it is none of this class, or not whole.
    """
    folder = Path(folder)
    try:
        content = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        wrong = _wrong(cls, content)
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        wrong = str(error)
    if wrong:
        raise ValueError(f"Expected a {cls.__name__} in {folder}. Received: {wrong}")
    estimator: Any = cls(**{k: _tuples(v) for k, v in content["parameters"].items()})
    estimator.schema_ = Schema.load(folder / _SCHEMA)
    estimator.model_ = keras.models.load_model(folder / _MODEL)
    estimator.target_, estimator.history_ = content["target"], content["history"]
    for name, value in content["fitted"].items():
        setattr(estimator, name, np.array(value) if isinstance(value, list) else value)
    estimator._kept = None
    estimator._explainers = {
        label: Explainer.load(folder / _RULES / str(i), estimator.model_)
        for i, label in enumerate(content["rules_of"])
    }
    return estimator


def _wrong(cls: type, content: Any) -> str:
    """What is wrong with the content of a file; empty if nothing is."""
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        return "another format"
    if content.get("class") != cls.__name__:
        return f"class={content.get('class')!r}"
    dicts = {"parameters": dict, "history": dict, "fitted": dict, "rules_of": list}
    for name, kind in dicts.items():
        if not isinstance(content.get(name), kind):
            return f"{name}={content.get(name)!r}"
    known = inspect.signature(cls).parameters.keys()
    if unknown := content["parameters"].keys() - known:
        return f"parameters {sorted(unknown)}"
    if unknown := content["fitted"].keys() ^ set(getattr(cls, "fitted", ())):
        return f"fitted {sorted(unknown)}"
    target = content.get("target")
    paths = target if isinstance(target, list) else [target or ""]
    return "" if all(isinstance(path, str) for path in paths) else f"target={target!r}"


def _plain(name: str, value: Any) -> Any:
    """A value as JSON knows it; where keys are not texts, which JSON would make of them, pairs."""
    if isinstance(value, Mapping) and not all(isinstance(k, str) and k != _PAIRS for k in value):
        return {_PAIRS: [[_plain(name, x) for x in pair] for pair in value.items()]}
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    try:
        json.dumps(value)
    except TypeError:
        raise ValueError(
            f"Expected parameters that JSON knows, such as names. Received: {name}={value!r}"
        ) from None
    return value


def _tuples(value: Any) -> Any:
    """JSON's lists as the tuples, and pairs as the dicts that they were."""
    if isinstance(value, dict) and value.keys() == {_PAIRS}:
        return dict(value[_PAIRS])
    return tuple(value) if isinstance(value, list) else value

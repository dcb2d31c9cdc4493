"""Learn from nested bags of instances, and read what was learned as symbolic rules."""

import importlib
from typing import Any

from keras_mmil import (  # noqa: F401 - first: they check and find
    _backend,
    _checkout,
    layers,  # registers every serializable class,
    losses,  # and so does this
    metrics,  # and this
)
from keras_mmil._version import __version__
from keras_mmil.bags import Bags
from keras_mmil.layers import aggregations
from keras_mmil.model import Model

_LAZY = {
    "Explainer": "keras_mmil.interpretation",
    "NestedClassifier": "keras_mmil.estimators",
    "NestedRegressor": "keras_mmil.estimators",
    "RuleExtractor": "keras_mmil.interpretation",
    "bags": None,
    "batches": None,
    "builders": None,
    "datasets": None,
    "distributed": None,
    "estimators": None,
    "interpretation": None,
    "io": None,
    "ragged": None,
    "records": None,
    "testing": None,
    "text": None,
    "training": None,
    "zoo": None,
}

__all__ = ["Bags", "Model", "__version__", "aggregations", "layers", "losses", "metrics", *_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'keras_mmil' has no attribute {name!r}")
    home = _LAZY[name]
    if home is None:
        return importlib.import_module(f"keras_mmil.{name}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)

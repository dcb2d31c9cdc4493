"""Learn from nested bags of instances, and read what was learned as symbolic rules."""

from keras_mmil import (  # noqa: F401 - first: they check and find
    _backend,
    _checkout,
    layers,  # registers every serializable class,
    losses,  # and so does this
    metrics,  # and this
)
from keras_mmil._support.lazy import lazy
from keras_mmil._version import __version__
from keras_mmil.bags import Bags
from keras_mmil.layers import aggregations
from keras_mmil.model import Model

_LAZY = {
    "Explainer": "rules",
    "NestedClassifier": "estimators",
    "NestedRegressor": "estimators",
    "RuleExtractor": "rules",
    "bags": None,
    "batches": None,
    "builders": None,
    "datasets": None,
    "distributed": None,
    "estimators": None,
    "find_leaks": "estimators",
    "rules": None,
    "io": None,
    "ragged": None,
    "records": None,
    "testing": None,
    "text": None,
    "training": None,
    "zoo": None,
}

__all__ = ["Bags", "Model", "__version__", "aggregations", "layers", "losses", "metrics", *_LAZY]

__getattr__, __dir__ = lazy(__name__, _LAZY, __all__)

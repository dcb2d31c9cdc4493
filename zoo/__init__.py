"""Models of the paper's experiments, the registry of the experiments, and pretrained networks."""

if __name__ == "zoo":
    raise ImportError("Import `keras_mmil.zoo`, not `zoo`: its classes would be registered twice.")

import importlib
from typing import TYPE_CHECKING, Any

from keras_mmil.records.network import records_model
from keras_mmil.zoo import imdb
from keras_mmil.zoo.graphs import citation_mil, citation_mmil, social_mmil
from keras_mmil.zoo.images import mnist_mmil, pointcloud_mil, pointcloud_mmil
from keras_mmil.zoo.imdb import imdb_mil, imdb_mmil
from keras_mmil.zoo.plants import plants_mil, plants_mmil, plants_nearby
from keras_mmil.zoo.ramon_deraedt import output_level_mil, representation_level_mil

if TYPE_CHECKING:
    from keras_mmil.zoo.experiments.registry import registry
    from keras_mmil.zoo.pretrained import Card, Pretrained, card, load

# Loaded when they are asked for, as they need rules, reports, plots and data sets.
_LAZY = {
    "registry": "experiments.registry",
    **dict.fromkeys(("Card", "Pretrained", "card", "load"), "pretrained"),
}

__all__ = [
    "Card",
    "Pretrained",
    "card",
    "citation_mil",
    "citation_mmil",
    "imdb",
    "imdb_mil",
    "imdb_mmil",
    "load",
    "mnist_mmil",
    "output_level_mil",
    "plants_mil",
    "plants_mmil",
    "plants_nearby",
    "pointcloud_mil",
    "pointcloud_mmil",
    "records_model",
    "registry",
    "representation_level_mil",
    "social_mmil",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'keras_mmil.zoo' has no attribute {name!r}")
    return getattr(importlib.import_module(f"keras_mmil.zoo.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

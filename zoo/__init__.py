"""Models of the paper's experiments, the registry of the experiments, and pretrained networks."""

if __name__ == "zoo":
    raise ImportError("Import `keras_mmil.zoo`, not `zoo`: its classes would be registered twice.")

from typing import TYPE_CHECKING

from keras_mmil._support.lazy import lazy
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

__getattr__, __dir__ = lazy(__name__, _LAZY, __all__)

"""Models of the paper's experiments, one module for each."""

if __name__ == "zoo":
    raise ImportError("Import `keras_mmil.zoo`, not `zoo`: its classes would be registered twice.")

from keras_mmil.zoo import imdb
from keras_mmil.zoo.imdb import imdb_mil, imdb_mmil
from keras_mmil.zoo.mnist import mnist_mmil
from keras_mmil.zoo.ramon_deraedt import output_level_mil, representation_level_mil
from keras_mmil.zoo.registry import Data, Experiment, registry

__all__ = [
    "Data",
    "Experiment",
    "imdb",
    "imdb_mil",
    "imdb_mmil",
    "mnist_mmil",
    "output_level_mil",
    "registry",
    "representation_level_mil",
]

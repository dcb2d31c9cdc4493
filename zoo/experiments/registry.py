"""All experiments by name."""

from collections.abc import Callable, Mapping

from keras_mmil.datasets import citations, social
from keras_mmil.zoo.experiments.catalogue import Entry, catalogue
from keras_mmil.zoo.experiments.clouds import cloud_experiment
from keras_mmil.zoo.experiments.digits import digit_experiment
from keras_mmil.zoo.experiments.experiment import Experiment
from keras_mmil.zoo.experiments.graphs import citation_experiment, social_experiment
from keras_mmil.zoo.experiments.plants import plant_experiment
from keras_mmil.zoo.experiments.texts import review_experiment

__all__ = ["registry"]

# How the entries of a name become experiments.
_EXPERIMENT_OF: Mapping[str, Callable[[Entry], Experiment]] = {
    "mnist": digit_experiment,
    "imdb": review_experiment,
    **dict.fromkeys(citations.NAMES, citation_experiment),
    **dict.fromkeys(map(str.lower, social.NAMES), social_experiment),
    "modelnet": cloud_experiment,
    "plants": plant_experiment,
}

registry: dict[str, Experiment] = {
    entry.key: _EXPERIMENT_OF[entry.name](entry) for entry in catalogue()
}
"""The experiments, by the `key` of their entry in the catalogue, such as "cora-mil-max-random"."""

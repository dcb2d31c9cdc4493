"""The paper's experiments: what to build, what to load, and which figures to reach."""

from keras_mmil.datasets import citations, social
from keras_mmil.datasets import mnist as mnist_data
from keras_mmil.zoo._cloud_experiments import cloud_experiment
from keras_mmil.zoo._graph_experiments import citation_experiment, social_experiment
from keras_mmil.zoo._plant_experiments import plant_experiment
from keras_mmil.zoo._text_experiments import review_experiment
from keras_mmil.zoo.catalogue import catalogue
from keras_mmil.zoo.experiment import Data, Experiment, at_most
from keras_mmil.zoo.mnist import matches_generating_rule, mnist_mmil

__all__ = ["registry"]


def _load_mnist(seed=0, limit=None, source="mnist", unlabelled=False):
    sizes = at_most(limit, n_train=5000, n_valid=1000, n_test=5000)
    return Data(*mnist_data.load_mmil(**sizes, source=source, seed=seed, instance_labels=True))


def _mnist_experiment(entry):
    return Experiment(
        **vars(entry),
        build=mnist_mmil,
        load=_load_mnist,
        batch_size=20,
        check_rules=matches_generating_rule,
    )


# How the entries of a name become experiments.
_EXPERIMENT_OF = {
    "mnist": _mnist_experiment,
    "imdb": review_experiment,
    **dict.fromkeys(citations.NAMES, citation_experiment),
    **dict.fromkeys(map(str.lower, social.NAMES), social_experiment),
    "modelnet": cloud_experiment,
    "plants": plant_experiment,
}

registry = {entry.key: _EXPERIMENT_OF[entry.name](entry) for entry in catalogue()}

"""The paper's experiments: what to build, what to load, and which figures to reach."""

from keras_mmil.datasets import mnist as mnist_data
from keras_mmil.zoo import (
    _cloud_experiments,
    _graph_experiments,
    _plant_experiments,
    _text_experiments,
)
from keras_mmil.zoo.experiment import Data, Experiment, at_most
from keras_mmil.zoo.mnist import matches_generating_rule, mnist_mmil

__all__ = ["registry"]


def _load_mnist(seed=0, limit=None, source="mnist", unlabelled=False):
    sizes = at_most(limit, n_train=5000, n_valid=1000, n_test=5000)
    return Data(*mnist_data.load_mmil(**sizes, source=source, seed=seed, instance_labels=True))


_MNIST = Experiment(
    name="mnist",
    title="bags of bags of digits: positive iff a sub-bag holds a 7 and no 3",
    build=mnist_mmil,
    load=_load_mnist,
    sources=("mnist", "digits"),
    epochs=100,
    batch_size=20,
    paper={"test_accuracy": 0.9842, "rule_accuracy": 0.9818, "fidelity": 0.9916},
    check_rules=matches_generating_rule,
)

registry = {
    experiment.key: experiment
    for experiment in (
        _MNIST,
        *_text_experiments.EXPERIMENTS,
        *_graph_experiments.EXPERIMENTS,
        *_cloud_experiments.EXPERIMENTS,
        *_plant_experiments.EXPERIMENTS,
    )
}

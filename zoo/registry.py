"""The paper's experiments: what to build, what to load, and which figures to reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from keras_mmil.datasets import mnist as mnist_data
from keras_mmil.model import Model
from keras_mmil.zoo.mnist import matches_generating_rule, mnist_mmil

__all__ = ["Experiment", "registry"]


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Attributes:
        name: key in the registry, and of the results.
        title: one line for people.
        build: function without required arguments that returns a compiled `Model`.
        load: function of `seed`, `limit` (top-bags in each part, None for all), `source` and
            `instance_labels`, which returns the training, validation and test parts.
        sources: where the data may come from; the first is the paper's.
        epochs, batch_size, learning_rate: of the training.
        model: "mmil" or "mil".
        paper: the paper's figures by metric, as fractions.
        class_names: names of the classes of top-bags.
        check_rules: function of a fitted `Explainer`, top-bags and their instance labels that
            returns whether the rules are the ones by which the data were made; or None.
    """

    name: str
    title: str
    build: Callable[..., Model]
    load: Callable[..., tuple]
    sources: tuple[str, ...]
    epochs: int
    batch_size: int
    learning_rate: float = 0.001
    model: str = "mmil"
    paper: Mapping[str, float] = field(default_factory=dict)
    class_names: tuple[str, ...] = ("negative", "positive")
    check_rules: Callable[..., bool] | None = None


def _load_mnist(seed=0, limit=None, source="mnist", instance_labels=False):
    sizes = {"n_train": 5000, "n_valid": 1000, "n_test": 5000}
    if limit is not None:
        sizes = {name: min(size, limit) for name, size in sizes.items()}
    return mnist_data.load_mmil(**sizes, source=source, seed=seed, instance_labels=instance_labels)


registry = {
    experiment.name: experiment
    for experiment in [
        Experiment(
            name="mnist",
            title="bags of bags of digits: positive iff a sub-bag holds a 7 and no 3",
            build=mnist_mmil,
            load=_load_mnist,
            sources=("mnist", "digits"),
            epochs=100,
            batch_size=20,
            paper={"test_accuracy": 0.9842, "rule_accuracy": 0.9818, "fidelity": 0.9916},
            check_rules=matches_generating_rule,
        ),
    ]
}

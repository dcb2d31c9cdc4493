"""What a network and its rules are judged by."""

from keras_mmil._support.formatting import majority
from keras_mmil.cli.results import METRICS
from keras_mmil.interpretation import Explainer
from keras_mmil.model import Model
from keras_mmil.zoo.experiments.experiment import Experiment, Part

__all__ = ["figures_of_network", "figures_of_rules"]


def figures_of_network(experiment: Experiment, model: Model, test: Part) -> dict[str, float]:
    """Figures of a network, by metric, as in the records.

    Args:
        experiment: whose metric it is judged by.
        model: the network.
        test: what it is judged by. Under "<metric>_majority" is the share of its most frequent
            class.
    """
    x, y, _ = test
    figure = model.evaluate(x, y, verbose=0, return_dict=True)[experiment.metric]
    metrics = {METRICS[experiment.metric]: figure}
    if experiment.metric == "accuracy":
        metrics["test_accuracy_majority"] = majority(y)
    return metrics


def figures_of_rules(explainer: Explainer, test: Part) -> dict[str, float]:
    """Figures of fitted rules, likewise."""
    found = explainer.evaluate(test.x, test.y)
    return {
        "rule_accuracy": found["accuracy"],
        "rule_accuracy_majority": found["accuracy_majority"],
        "fidelity": found["fidelity"],
        "fidelity_majority": found["fidelity_majority"],
    }

"""What there is to fit, checked before any work is done."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import keras
import numpy as np

from keras_mmil.interpretation.fitting import options
from keras_mmil.interpretation.fitting.progress import Progress
from keras_mmil.interpretation.network.capture import Network
from keras_mmil.interpretation.network.data import Source, TopBags
from keras_mmil.interpretation.network.nesting import clustered_weights
from keras_mmil.interpretation.network.targets import Target, resolve_target

__all__ = ["Task", "check_data", "check_rows", "prepare"]


@dataclass(frozen=True, eq=False)
class Task:
    """What there is to fit.

    Attributes:
        network: the trained network.
        target: what the classes of top-bags are.
        settings: how to fit.
        x: the training data.
        x_valid: the validation data.
    """

    network: Network
    target: Target
    settings: options.Settings
    x: Source
    x_valid: Source

    def drawn(self, progress: Progress) -> "Task":
        """The same with at most `max_top_bags` for training, and for validation.

        Args:
            progress: of a Dataset the top-bags are counted, which takes long.
        """
        sources = self.x, self.x_valid
        for source in sources:
            if not source.is_counted:
                progress.expect(source.n_batches)
                source.count(progress.step)
        most, seed = self.settings.max_top_bags, self.settings.seed
        x, x_valid = (source.draw(most, seed) for source in sources)
        return replace(self, x=x, x_valid=x_valid)


def prepare(
    explainer: options.Arguments, model: keras.Model, x: TopBags, x_valid: TopBags | None = None
) -> Task:
    """Check the arguments of an explainer, a model and data against each other.

    Args:
        explainer: the `Explainer`.
        model, x, x_valid: see `Explainer.fit`.

    Raises:
        TypeError, ValueError: see `Explainer.fit`.
    """
    options.check_arguments(explainer)
    network = Network(model, explainer.feature_names)
    target = resolve_target(model, explainer.target)
    n_levels = len(network.layers)
    settings = options.make_settings(explainer, n_levels)
    options.level_features(settings.features, network.aggregations, [np.ones(1)] * n_levels)
    if target.function is None:  # otherwise only its labels tell how many classes there are
        options.class_names(settings.class_names, target.n_classes())
    train: Source = network.data(x, settings.batch_size)
    held_out: Source
    if x_valid is None:
        train, held_out = train.set_aside(explainer.validation_fraction, settings.seed)
    else:
        held_out = network.data(x_valid, settings.batch_size, "x_valid")
    return Task(network=network, target=target, settings=settings, x=train, x_valid=held_out)


def check_data(task: Task) -> None:
    """Run the network on a batch, or on as many as it takes to find something for rules.

    Raises:
        ValueError: if there is nothing to read rules from; if the bags of a bag-layer are not the
            rows of the next; or if the target is a function that does not return labels.
    """
    network, target = task.network, task.target
    for batch in network.batches(task.x_valid.batches()):
        target.labels(batch.outputs)
        break
    for batch in network.batches(task.x.batches()):
        target.labels(batch.outputs)
        weights = clustered_weights(batch.nestings, network.parents, network.has_fields)
        if any(network.has_fields) or any(each.any() for each in weights):
            return
    check_rows(network, ())


def check_rows(network: Network, n_rows: Iterable[int]) -> None:
    """Raise ValueError if all bags are empty, and nothing else is there to read rules from.

    Levels without rows are left out of the rules, unless that leaves nothing.

    Args:
        network: what rules are read from.
        n_rows: at each level.
    """
    if not any(network.has_fields) and not any(n_rows):
        raise ValueError("Expected members in some of the bags. Received: x with empty bags alone")

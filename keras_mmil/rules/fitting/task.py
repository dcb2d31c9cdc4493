"""What to fit: network, target, options and data, checked before any work is done."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import keras
import numpy as np

from keras_mmil.rules.fitting.options import Options, class_names, level_features
from keras_mmil.rules.fitting.progress import Progress
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.nesting import clustered_weights
from keras_mmil.rules.network.sources import Source, TopBags, top_bags
from keras_mmil.rules.network.targets import Target, resolve_target

__all__ = ["Task", "check_data", "check_rows", "prepare"]


@dataclass(frozen=True, eq=False)
class Task:
    """What to fit.

    Attributes:
        network: the trained network.
        target: what the classes of top-bags are.
        options: a copy of the explainer's arguments.
        numbers: the numbers of clusters to try at each level.
        seed: decides all that is random.
        x: the training data.
        x_valid: the validation data.
    """

    network: Network
    target: Target
    options: Options
    numbers: tuple[range, ...]
    seed: int
    x: Source
    x_valid: Source

    def sampled(self, progress: Progress) -> "Task":
        """The same with at most `max_top_bags` for training, and for validation.

        A Dataset has to be read to count its top-bags, which takes time: `progress` shows it.
        """
        sources = self.x, self.x_valid
        for source in sources:
            if not source.is_counted:
                progress.expect(source.n_batches)
                source.count(progress.step)
        x, x_valid = (source.sample(self.options.max_top_bags, self.seed) for source in sources)
        return replace(self, x=x, x_valid=x_valid)


def prepare(
    options: Options, model: keras.Model, x: TopBags, x_valid: TopBags | None = None
) -> Task:
    """Check arguments, model and data against each other.

    Raises:
        TypeError, ValueError: see `Explainer.fit`.
    """
    options.check_arguments()
    network = Network(model, options.feature_names)
    target = resolve_target(model, options.target)
    n_levels = len(network.layers)
    numbers = options.numbers_of_clusters(n_levels)
    level_features(options.features, network.aggregations, [np.ones(1)] * n_levels)
    if target.function is None:  # otherwise only its labels tell how many classes there are
        class_names(options.class_names, target.n_classes())
    seed = options.random_state
    if seed is None:
        seed = int(np.random.default_rng().integers(2**31))
    train = top_bags(x, network, options.batch_size)
    held_out: Source
    if x_valid is None:
        train, held_out = train.set_aside(options.validation_fraction, seed)
    else:
        held_out = top_bags(x_valid, network, options.batch_size, "x_valid")
    return Task(network, target, options, numbers, seed, train, held_out)


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

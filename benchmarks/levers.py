"""What each lever brings on validation data: `python benchmarks/levers.py modelnet-mil-P100`.

A lever is one difference from the settings of an experiment, such as no dropout. For each of them a
network is trained as by `keras-mmil run`, and judged on validation data that it does not learn
from. Where the network of the lowest validation loss is kept, these choose the epoch, so that all
figures are a little too high. Test data are not used. Results go to
`benchmarks/results/levers.json`.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from records import write

from keras_mmil import ragged, zoo
from keras_mmil._support.formatting import majority
from keras_mmil.cli.results import summary
from keras_mmil.training import cosine_decay, fit_resumable, step_decay

KEY = ("experiment", "model", "variant", "metric", "epochs")
METRIC = "valid_accuracy"


class Lever(NamedTuple):
    """What differs from the settings of an experiment.

    Attributes:
        arguments: function of the `Data` that returns arguments of the builder.
        change: function that changes the compiled model.
        schedule: function from the number of epochs to one from the epoch to the learning rate;
            None for that of the experiment.
    """

    arguments: Callable[[Any], Mapping[str, Any]] = lambda data: {}
    change: Callable[[keras.Model], None] = lambda model: None
    schedule: Callable[[int], Callable[[int], float]] | None = None


def of_deep_sets(epochs):
    """A tenth of the rate after 40 % of the epochs, and of that after 80 %."""
    return step_decay(1e-3, epochs, at=(0.4, 0.8))


def constant(epochs):
    """The rate of the paper, which does not decay."""
    return lambda epoch: 1e-3


def with_epsilon_of_deep_sets(model):
    """Adam divides by no less than 0.001."""
    model.optimizer.epsilon = 1e-3


def with_weights_of_keras(model):
    """Kernels are drawn anew, as Keras's layers do by default."""
    draw = keras.initializers.GlorotUniform(seed=keras.random.SeedGenerator())
    for weight in model.trainable_variables:
        if weight.name == "kernel":
            weight.assign(draw(weight.shape))


def with_points_of_each(model):
    """Each rotation of a cloud draws points of its own."""
    model.get_layer("random_points").same_in_bag = False


AS_IT_IS = "as it is"
from_a_thousandth = partial(cosine_decay, 1e-3)  # where an experiment begins with another rate
LEVERS = {
    "imdb-mil": {
        AS_IT_IS: Lever(),
        "no dropout": Lever(lambda data: {"dropout": 0.0}),
        "dropout of 0.5": Lever(lambda data: {"dropout": 0.5}),
        "a constant rate": Lever(schedule=constant),
        "word vectors learned with the network": Lever(
            lambda data: {"vectors": len(data.words.vocabulary)}
        ),
        "maxima only": Lever(lambda data: {"aggregation": "max"}),
        "means only": Lever(lambda data: {"aggregation": "mean"}),
    },
    "imdb-binary": {
        AS_IT_IS: Lever(),
        "no dropout": Lever(lambda data: {"dropout": 0.0}),
        "a constant rate": Lever(schedule=constant),
        "no dropout and a constant rate": Lever(lambda data: {"dropout": 0.0}, schedule=constant),
    },
    "modelnet-mil-P100": {
        AS_IT_IS: Lever(),
        "the rates of Deep Sets": Lever(schedule=of_deep_sets),
        "the rates and the epsilon of Deep Sets": Lever(
            change=with_epsilon_of_deep_sets, schedule=of_deep_sets
        ),
        "Keras's initial weights": Lever(change=with_weights_of_keras),
        "scales from 0.8 to 1.25": Lever(lambda data: {"scale": (0.8, 1.25)}),
        "labels not smoothed": Lever(lambda data: {"label_smoothing": 0.0}),
    },
    "modelnet-P100-resampled": {
        AS_IT_IS: Lever(),
        "512 units of the rotations": Lever(lambda data: {"bag_units": (512,)}),
        "dropout of 0.5": Lever(lambda data: {"dropout": 0.5}),
        "scales from 2/3 to 3/2": Lever(lambda data: {"scale": (2 / 3, 3 / 2)}),
        "a rate of 0.001": Lever(schedule=from_a_thousandth),
        "256 dense units": Lever(lambda data: {"dense_units": 256}),
        "other points in each rotation": Lever(change=with_points_of_each),
    },
    "modelnet-mil-P100-resampled": {
        AS_IT_IS: Lever(),
        "as without resampling": Lever(
            lambda data: {"dropout": 0.5, "scale": (2 / 3, 3 / 2), "dense_units": 256},
            schedule=from_a_thousandth,
        ),
    },
}


def main(arguments=None):
    """Train what the command line says, print a line each, and record it."""
    options = parse(arguments)
    experiment = zoo.registry[options.experiment]
    levers = LEVERS[options.experiment]
    for name in options.levers or levers:
        found, shares = {}, {}
        for seed in range(options.seed, options.seed + options.seeds):
            data = experiment.load(seed=seed, limit=options.limit, source=options.source)
            found[seed] = judged(experiment, levers[name], data, seed, options)
            shares[seed] = majority(data.valid.y)
            reached = f"{found[seed]:.2%} (constant: {shares[seed]:.2%})"
            print(f"{name:45} seed {seed}: {reached}", flush=True)
        if not options.dry:
            about = {
                "experiment": experiment.name,
                "model": experiment.model_name,
                "variant": f"{experiment.split}: {name}".removeprefix(": "),
                "epochs": options.epochs,
                "top_bags": len(data.valid.y),
            }
            figures = {METRIC: found, f"{METRIC}_majority": shares}
            records = [
                {**about, "metric": metric, **summary(by_seed)}
                for metric, by_seed in figures.items()
            ]
            write("levers", records, KEY)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=LEVERS)
    parser.add_argument("--levers", nargs="+", metavar="LEVER", help="some of them, not all")
    parser.add_argument("--epochs", type=int, help="of each training; the experiment's by default")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="trainings with each lever")
    parser.add_argument("--source", help="of the data; the paper's by default")
    parser.add_argument("--limit", type=int, help="use at most this many top-bags of each set")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--verbose", type=int, default=0, help="as in Keras")
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if unknown := {*(options.levers or ())} - {*LEVERS[options.experiment]}:
        parser.error(
            f"expected --levers of {json.dumps([*LEVERS[options.experiment]])}, not "
            f"{json.dumps(sorted(unknown))}"
        )
    experiment = zoo.registry[options.experiment]
    options.epochs = options.epochs or experiment.epochs
    options.source = options.source or experiment.sources[0]
    return options


def judged(experiment, lever, data, seed, options):
    """The accuracy on validation data of a network trained with a lever."""

    def build():
        model = experiment.build(**{**data.build_arguments, **lever.arguments(data)})
        lever.change(model)
        return model

    x, y = to_learn_from(experiment, data)
    valid = data.valid.x, data.valid.y
    schedule = (lever.schedule or experiment.schedule)(options.epochs)
    with tempfile.TemporaryDirectory() as folder:
        model, _ = fit_resumable(
            build,
            x,
            y,
            folder=folder,
            validation_data=valid if experiment.keeps_best else None,
            epochs=options.epochs,
            batch_size=experiment.batch_size,
            seed=seed,
            patience=options.epochs if experiment.keeps_best else None,  # the best epoch's network
            callbacks=[keras.callbacks.LearningRateScheduler(schedule)],
            verbose=options.verbose,
        )
    figures = model.evaluate(*valid, batch_size=experiment.batch_size, verbose=0, return_dict=True)
    return figures[experiment.metric]


def to_learn_from(experiment, data):
    """Top-bags and labels for training: all but those for validation.

    Where no network is chosen on validation data, these are the first ones of the training data.
    """
    x, y, _ = data.train
    if experiment.keeps_best:
        return x, y
    n = len(data.valid.y)
    if not np.array_equal(y[:n], data.valid.y):
        raise ValueError(f"Expected the top-bags for validation first. Received: y={y[:n]}")
    return ragged.take((x, y), slice(n, None))


if __name__ == "__main__":
    main()

"""Ablations on validation data: `python benchmarks/ablations.py modelnet-mil-P100`.

An ablation changes one setting of an experiment, such as dropout. A network is trained with it as
by `keras-mmil run`, and evaluated on validation data. Where these also choose the epoch, all
accuracies are slightly too high. Test data are not used. Results go to
`benchmarks/results/ablations.json`.
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


class Ablation(NamedTuple):
    """Changes of the settings of an experiment."""

    arguments: Callable[[Any], Mapping[str, Any]] = lambda data: {}  # of the builder, from `Data`
    change: Callable[[keras.Model], None] = lambda model: None  # of the compiled model
    schedule: Callable[[int], Callable[[int], float]] | None = None  # None for no change


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
    """Kernels are initialised by Keras's default."""
    draw = keras.initializers.GlorotUniform(seed=keras.random.SeedGenerator())
    for weight in model.trainable_variables:
        if weight.name == "kernel":
            weight.assign(draw(weight.shape))


def with_points_of_each(model):
    """Each rotation of a cloud samples its own points."""
    model.get_layer("random_points").same_in_bag = False


AS_IT_IS = "as it is"
from_a_thousandth = partial(cosine_decay, 1e-3)  # where an experiment begins with another rate
ABLATIONS = {
    "imdb-mil": {
        AS_IT_IS: Ablation(),
        "no dropout": Ablation(lambda data: {"dropout": 0.0}),
        "dropout of 0.5": Ablation(lambda data: {"dropout": 0.5}),
        "a constant rate": Ablation(schedule=constant),
        "word vectors learned with the network": Ablation(
            lambda data: {"vectors": len(data.words.vocabulary)}
        ),
        "maxima only": Ablation(lambda data: {"aggregation": "max"}),
        "means only": Ablation(lambda data: {"aggregation": "mean"}),
    },
    "imdb-binary": {
        AS_IT_IS: Ablation(),
        "no dropout": Ablation(lambda data: {"dropout": 0.0}),
        "a constant rate": Ablation(schedule=constant),
        "no dropout and a constant rate": Ablation(
            lambda data: {"dropout": 0.0}, schedule=constant
        ),
    },
    "modelnet-mil-P100": {
        AS_IT_IS: Ablation(),
        "the rates of Deep Sets": Ablation(schedule=of_deep_sets),
        "the rates and the epsilon of Deep Sets": Ablation(
            change=with_epsilon_of_deep_sets, schedule=of_deep_sets
        ),
        "Keras's initial weights": Ablation(change=with_weights_of_keras),
        "scales from 0.8 to 1.25": Ablation(lambda data: {"scale": (0.8, 1.25)}),
        "labels not smoothed": Ablation(lambda data: {"label_smoothing": 0.0}),
    },
    "modelnet-P100-resampled": {
        AS_IT_IS: Ablation(),
        "512 units of the rotations": Ablation(lambda data: {"bag_units": (512,)}),
        "dropout of 0.5": Ablation(lambda data: {"dropout": 0.5}),
        "scales from 2/3 to 3/2": Ablation(lambda data: {"scale": (2 / 3, 3 / 2)}),
        "a rate of 0.001": Ablation(schedule=from_a_thousandth),
        "256 dense units": Ablation(lambda data: {"dense_units": 256}),
        "other points in each rotation": Ablation(change=with_points_of_each),
    },
    "modelnet-mil-P100-resampled": {
        AS_IT_IS: Ablation(),
        "as without resampling": Ablation(
            lambda data: {"dropout": 0.5, "scale": (2 / 3, 3 / 2), "dense_units": 256},
            schedule=from_a_thousandth,
        ),
    },
}


def main(arguments=None):
    """Train with each ablation, print and record its accuracy."""
    options = parse(arguments)
    experiment = zoo.registry[options.experiment]
    ablations = ABLATIONS[options.experiment]
    for name in options.ablations or ablations:
        found, shares = {}, {}
        for seed in range(options.seed, options.seed + options.seeds):
            data = experiment.load(seed=seed, limit=options.limit, source=options.source)
            found[seed] = accuracy_of(experiment, ablations[name], data, seed, options)
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
            write("ablations", records, KEY)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=ABLATIONS)
    parser.add_argument("--ablations", nargs="+", metavar="ABLATION", help="some of them, not all")
    parser.add_argument("--epochs", type=int, help="of each training; the experiment's by default")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="trainings with each ablation")
    parser.add_argument("--source", help="of the data; the paper's by default")
    parser.add_argument("--limit", type=int, help="use at most this many top-bags of each set")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--verbose", type=int, default=0, help="as in Keras")
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if unknown := {*(options.ablations or ())} - {*ABLATIONS[options.experiment]}:
        parser.error(
            f"expected --ablations of {json.dumps([*ABLATIONS[options.experiment]])}, not "
            f"{json.dumps(sorted(unknown))}"
        )
    experiment = zoo.registry[options.experiment]
    options.epochs = options.epochs or experiment.epochs
    options.source = options.source or experiment.sources[0]
    return options


def accuracy_of(experiment, ablation, data, seed, options):
    """The validation accuracy of a network trained with an ablation."""

    def build():
        model = experiment.build(**{**data.build_arguments, **ablation.arguments(data)})
        ablation.change(model)
        return model

    x, y = training_data(experiment, data)
    valid = data.valid.x, data.valid.y
    schedule = (ablation.schedule or experiment.schedule)(options.epochs)
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


def training_data(experiment, data):
    """Training data without the validation data, which are its first ones if none are kept."""
    x, y, _ = data.train
    if experiment.keeps_best:
        return x, y
    n = len(data.valid.y)
    if not np.array_equal(y[:n], data.valid.y):
        raise ValueError(f"Expected the top-bags for validation first. Received: y={y[:n]}")
    return ragged.take((x, y), slice(n, None))


if __name__ == "__main__":
    main()

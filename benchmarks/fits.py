"""Time of a training by Keras's `fit`: `python benchmarks/fits.py imdb-binary --top-bags 900`.

The network of an experiment of the registry is trained as `keras-mmil run` and its cross-validation
do, for all its epochs or a few, on all top-bags or some drawn at random. Nothing is validated or
saved. Results go to `benchmarks/results/<experiment>.json`.
"""

import argparse
import statistics
import time

import keras
import numpy as np
from records import write

from keras_mmil import zoo
from keras_mmil.batches import feed
from keras_mmil.cli.results import summary


def main():
    """Time a training, and record it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=zoo.registry)
    parser.add_argument("--epochs", type=int, help="default: the experiment's")
    parser.add_argument("--top-bags", type=int, help="drawn at random; default: all")
    parser.add_argument("--runs", type=int, default=1, help="trainings, of seeds 0, 1, …")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    experiment = zoo.registry[options.experiment]
    epochs = experiment.epochs if options.epochs is None else options.epochs
    runs = [fit(experiment, epochs, options.top_bags, seed) for seed in range(options.runs)]
    about = {
        "experiment": experiment.name,
        "model": experiment.model_name,
        "variant": f"fit of {runs[0].top_bags} top-bags",
        "epochs": epochs,
    }
    records = [
        {**about, "metric": metric, **summary({i: value(run) for i, run in enumerate(runs)})}
        for metric, value in (
            ("fit_seconds", lambda run: round(run.total, 2)),
            ("epoch_seconds", lambda run: round(statistics.median(run.seconds), 3)),
        )
    ]
    for record in records:
        print(f"{record['metric']}: {record['mean']:.3g} ± {record['std']:.2g}")
    if not options.dry:
        write(experiment.name, records, ("experiment", "model", "variant", "metric", "epochs"))


def fit(experiment, epochs, n_top_bags, seed):
    """The `Clock` of a training."""
    data = experiment.load(seed=seed)
    x, y, _ = data.train if data.whole is None else data.whole
    chosen = np.random.default_rng(seed).permutation(len(y))[:n_top_bags]
    x, y = x[chosen], y[chosen]
    keras.utils.set_random_seed(seed)
    clock = Clock(len(y))
    model = experiment.build(**data.build_arguments)
    model.fit(
        **feed(x, y, batch_size=experiment.batch_size, seed=seed),
        epochs=epochs,
        verbose=0,
        callbacks=[clock],
    )
    return clock


class Clock(keras.callbacks.Callback):
    """Measures a training.

    Attributes:
        top_bags: how many it is trained on.
        total: seconds from here to the end, with building and compiling.
        seconds: of each epoch.
    """

    def __init__(self, top_bags):
        super().__init__()
        self.top_bags, self.seconds = top_bags, []
        self._started = time.perf_counter()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch_started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self._epoch_started)
        print(f"epoch {epoch + 1}: {self.seconds[-1]:.2f} s", flush=True)

    def on_train_end(self, logs=None):
        self.total = time.perf_counter() - self._started


if __name__ == "__main__":
    main()

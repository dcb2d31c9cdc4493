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
from keras_mmil.datasets import batches


class Clock(keras.callbacks.Callback):
    """Seconds of each epoch, without what compiles before the first."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.started)
        print(f"epoch {epoch + 1}: {self.seconds[-1]:.2f} s", flush=True)


def main():
    """Time a training, and record it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=zoo.registry)
    parser.add_argument("--epochs", type=int, help="default: the experiment's")
    parser.add_argument("--top-bags", type=int, help="drawn at random; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    experiment = zoo.registry[options.experiment]
    epochs = experiment.epochs if options.epochs is None else options.epochs
    data = experiment.load(seed=options.seed)
    x, y = data.train[:2] if data.whole is None else data.whole
    chosen = np.random.default_rng(options.seed).permutation(len(y))[: options.top_bags]
    x, y = x[chosen], y[chosen]
    print(f"{options.experiment}: {len(y)} top-bags, {epochs} epochs")
    keras.utils.set_random_seed(options.seed)
    clock, started = Clock(), time.perf_counter()
    model = experiment.build(**data.build_arguments)
    size = experiment.batch_size
    model.fit(
        batches(x, y, size, seed=options.seed, first_epoch=0),
        epochs=epochs,
        steps_per_epoch=-(-len(y) // size),
        shuffle=False,  # the batches are
        verbose=0,
        callbacks=[clock],
    )
    total = time.perf_counter() - started
    print(f"{total:.1f} s in all, {statistics.median(clock.seconds):.2f} s an epoch (median)")
    about = {
        "experiment": experiment.name,
        "model": experiment.model_name,
        "variant": f"fit of {len(y)} top-bags",
        "epochs": epochs,
        "runs": 1,
    }
    records = [
        {**about, "metric": "fit_seconds", "mean": round(total, 2)},
        {**about, "metric": "epoch_seconds", "mean": round(statistics.median(clock.seconds), 3)},
    ]
    if not options.dry:
        write(experiment.name, records, ("experiment", "model", "variant", "metric", "epochs"))


if __name__ == "__main__":
    main()

"""Memory of data in files, for growing data: `python benchmarks/io_memory.py`.

Reviews of sentences of ids are made up, as many as `--reviews`, and four and sixteen times as many,
and written to files as a stream of batches; read once, shuffled; and a network is trained on them
for an epoch. Each of these is done by a process of its own, for each size, whose greatest memory
counts beyond that with all libraries loaded. Results go to `benchmarks/results/io.json`.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from records import write
from turns import Worker, mark_memory, serve

import keras_mmil
from keras_mmil import Bags, io, ragged
from keras_mmil.layers import BagLayer, Distinct, bag_inputs

TASKS = ("write", "read", "train")
SCALES = (1, 4, 16)
_CHUNK = 250  # reviews made at once
_SENTENCES = 12  # of a review, on the average
_IDS = 20  # of a sentence
_N_IDS = 50_000
_BATCH = 100
_PER_FILE = 2_500  # so that the smallest data have eight files, and fill the buffer


def main():
    """Measure what the command line says, print a line each, and record it."""
    options = parse(sys.argv[1:])
    if options.worker:
        work(options.worker, Path(options.path), options.formats[0], options.forms[0], options.n)
        return
    records = []
    for format in options.formats:
        for form in options.forms:
            records += compare(format, form, options.reviews, options.scales)
    if not options.dry:
        write("io", records, ("model", "variant", "metric"))


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reviews", type=int, default=20_000, help="of the smallest data")
    parser.add_argument("--scales", type=int, nargs="+", default=SCALES, help="how many times that")
    parser.add_argument("--formats", nargs="+", default=("parquet", "tfrecord"))
    parser.add_argument("--forms", nargs="+", default=("bags", "ids"), help="compressed or plain")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def compare(format, form, n_reviews, scales):
    """Records of one format and form of data: the memory for each size, and how much it grows."""
    peaks = {task: [] for task in TASKS}
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for scale in scales:
            path = Path(folder) / f"reviews-{scale}"
            for task in TASKS:
                arguments = ("--path", path, "--formats", format, "--forms", form)
                worker = Worker(__file__, "--worker", task, *arguments, "--n", scale * n_reviews)
                worker.turn()
                worker.close()
                peaks[task].append(worker.peak_gb)
                info = io.info(path)
                record = {
                    "variant": f"{task}, {form}, {scale}x",
                    "metric": "peak_gb",
                    "mean": round(worker.peak_gb, 3),
                    "seconds": round(worker.seconds[0], 1),
                    "file_gb": round(info.n_bytes / 2**30, 3),
                    "tensor_gb": round(info.n_tensor_bytes / 2**30, 3),
                }
                records.append(record)
                print(json.dumps({"model": format, **record}), flush=True)
    for task, found in peaks.items():
        record = {
            "variant": f"{task}, {form}, {scales[-1]}x of {scales[0]}x",
            "metric": "peak_growth",
            "mean": round(found[-1] / found[0], 3),
        }
        records.append(record)
        print(json.dumps({"model": format, **record}), flush=True)
    about = {"experiment": "io", "model": format, "runs": 1, "reviews": n_reviews}
    return [about | record for record in records]


def work(task, path, format, form, n_reviews):
    """What the process does whose memory is measured."""
    model = network() if task == "train" else None

    def turn():
        if task == "write":
            io.write(
                path,
                batches(n_reviews, form),
                format=format,
                top_bags_per_file=_PER_FILE,
                verbose=0,
            )
            return
        dataset = io.read(path, _BATCH, shuffle=True, seed=0)
        if task == "train":
            model.fit(dataset, shuffle=False, verbose=0)
        else:
            for _ in dataset:
                pass

    serve(turn, mark_memory())


def batches(n_reviews, form):
    """Batches (x, y) of made-up reviews: the frequent ids are in most sentences."""
    for start in range(0, n_reviews, _CHUNK):
        rng = np.random.default_rng(start)
        sizes = rng.integers(1, 2 * _SENTENCES, min(_CHUNK, n_reviews - start))
        lengths = rng.integers(1, 2 * _IDS, sizes.sum())
        ids = (_N_IDS * rng.random(lengths.sum()) ** 3).astype("int32")
        x = ragged.from_flat(ids, [sizes, lengths])
        yield (Bags.from_ragged(x) if form == "bags" else x), rng.integers(0, 2, len(sizes))


def network():
    """A small network on bags of bags of ids, compiled."""
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    x = keras.layers.Embedding(_N_IDS, 8)(x)
    for members, weights in levels:
        x = BagLayer(16)(x, members, weights)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile("sgd", "binary_crossentropy")
    return model


if __name__ == "__main__":
    main()

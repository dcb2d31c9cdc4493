"""Memory of data in files, for growing data: `python benchmarks/io_memory.py`.

Reviews of sentences of ids are made up, as many as `--reviews`, and four and sixteen times as many,
and written to files as a stream of batches. Then they are read once, shuffled; a network is trained
on them for an epoch, and evaluated; rules are extracted, and compared with the network. Each of
these is done by a process of its own, for each size. Its greatest memory counts beyond that with
all libraries loaded, and as a whole. Results go to `benchmarks/results/io.json`.

What TensorFlow's allocator keeps grows for about two thousand batches of different sizes, and then
no more: so batches are small, and the smallest data have a thousand of them.
"""

import argparse
import collections
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from interleaved_timing import Worker, mark_memory, serve
from records import write

import keras_mmil
from keras_mmil import Bags, io, ragged
from keras_mmil.layers import BagLayer, Distinct, bag_inputs
from keras_mmil.training import cross_validate

WRITE = "write"  # the first task
SCALES = (1, 4, 16)
_CHUNK = 250  # reviews made at once
_SENTENCES = 12  # of a review, on the average
_IDS = 20  # of a sentence
_N_IDS = 50_000
_BATCH = 20
_PER_FILE = 2_500  # so that the smallest data have eight files
# All sizes reach these limits.
_BUFFER = 4_000  # reviews that are held to be shuffled
_FITTED = {"max_top_bags": 2_000, "max_rows": 20_000}  # by an explainer


def main():
    """Measure what the command line says, print a line each, and record it."""
    options = parse(sys.argv[1:])
    if options.worker:
        work(options.worker, Path(options.path), options.formats[0], options.forms[0], options.n)
        return
    for format in options.formats:
        for form in options.forms:
            compare(format, form, options)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reviews", type=int, default=20_000, help="of the smallest data")
    parser.add_argument("--scales", type=int, nargs="+", default=SCALES, help="how many times that")
    parser.add_argument("--formats", nargs="+", default=("parquet", "tfrecord"))
    parser.add_argument("--forms", nargs="+", default=("bags", "ids"), help="compressed or plain")
    tasks = [WRITE, *TASKS]
    parser.add_argument("--tasks", choices=tasks, nargs="+", default=tasks)
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def compare(format, form, options):
    """Measure one format and form of data: the memory for each size, and how much it grows."""
    with tempfile.TemporaryDirectory() as folder:
        for task in options.tasks:
            records = [
                measured(task, format, form, scale, Path(folder), options)
                for scale in options.scales
            ]
            first, last = records[0], records[-1]
            records.append(
                {
                    **about(format, options),
                    "variant": f"{task}, {form}, {options.scales[-1]}x of {options.scales[0]}x",
                    "metric": "peak_growth",
                    "mean": round(last["mean"] / first["mean"], 3),
                    "of_process": round(last["process_gb"] / first["process_gb"], 3),
                }
            )
            print(json.dumps(records[-1]), flush=True)
            if not options.dry:
                write("io", records, ("model", "variant", "metric"))


def measured(task, format, form, scale, folder, options):
    """The record of one task with data of one size."""
    path = folder / f"reviews-{scale}"
    arguments = ("--path", path, "--formats", format, "--forms", form)
    worker = Worker(__file__, "--worker", task, *arguments, "--n", scale * options.reviews)
    worker.turn()
    worker.close()
    info = io.info(path)
    record = {
        **about(format, options),
        "variant": f"{task}, {form}, {scale}x",
        "metric": "peak_gb",
        "mean": round(worker.peak_gb, 3),
        "process_gb": round(worker.process_gb, 3),
        "seconds": round(worker.seconds[0], 1),
        "file_gb": round(info.n_bytes / 2**30, 3),
        "tensor_gb": round(info.n_tensor_bytes / 2**30, 3),
    }
    print(json.dumps(record), flush=True)
    return record


def about(format, options):
    """What all records of a format say."""
    return {"experiment": "io", "model": format, "runs": 1, "reviews": options.reviews}


def work(task, path, format, form, n_reviews):
    """What the process does whose memory is measured."""
    turn = writing(path, form, format, n_reviews) if task == WRITE else TASKS[task](path)
    serve(turn, mark_memory())


# Each task prepares what it needs, and returns a function without arguments that does it.


def writing(path, form, format, n_reviews):
    return lambda: io.write(
        path,
        batches(n_reviews, form),
        format=format,
        top_bags_per_file=_PER_FILE,
        verbose=0,
    )


def reading(path):
    return lambda: collections.deque(_shuffled(path), maxlen=0)


def training(path):
    model = network()

    def turn():
        model.fit(_shuffled(path), shuffle=False, verbose=0)
        model.save(_model_of(path))

    return turn


def evaluation(path):
    model = keras.models.load_model(_model_of(path))
    return lambda: model.evaluate(io.read(path, _BATCH), verbose=0)


def prediction(path):
    model = keras.models.load_model(_model_of(path))
    return lambda: model.predict(io.read(path, _BATCH), verbose=0)


def extraction(path):
    model = keras.models.load_model(_model_of(path))

    def turn():
        x, x_valid = (io.read(path, _BATCH, shard=(i, 2)) for i in range(2))
        explainer = keras_mmil.Explainer(max_clusters=6, verbose=0, **_FITTED)
        explainer.fit(model, x, x_valid).save(_rules_of(path))

    return turn


def comparison(path):
    explainer = _explainer(path)
    return lambda: explainer.evaluate(io.read(path, _BATCH))


def certificate(path):
    explainer = _explainer(path)
    return lambda: explainer.certify(io.read(path, _BATCH))


def table(path):
    explainer = _explainer(path)
    return lambda: explainer.cluster_table(io.read(path, _BATCH))


def cross_validation(path):
    return lambda: cross_validate(
        network, path, epochs=1, batch_size=_BATCH, folds=2, rounds=1, verbose=0
    )


def _shuffled(path):
    return io.read(path, _BATCH, shuffle=True, seed=0, buffer_size=_BUFFER)


def _model_of(path):
    return path.with_suffix(".keras")


def _rules_of(path):
    return path.with_suffix(".rules")


def _explainer(path):
    model = keras.models.load_model(_model_of(path))
    return keras_mmil.Explainer.load(_rules_of(path), model)


TASKS = {
    "read": reading,
    "train": training,
    "evaluate": evaluation,
    "predict": prediction,
    "cross-validate": cross_validation,
    "extract rules": extraction,
    "compare rules": comparison,
    "certify": certificate,
    "cluster table": table,
}


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

"""Two million sentences from disk, in little memory: `python benchmarks/corpus.py`.

The reviews of IMDB are repeated, with some words replaced in each copy, until there are as many
sentences and trigrams as `--sentences` and `--trigrams` say. They are written to files as a stream;
the paper's network is trained on them for an epoch; and its rules are extracted. Each step is a
process of its own, whose greatest memory counts with all libraries. Results go to
`benchmarks/results/corpus.json`.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from interleaved_timing import Worker, mark_memory, serve
from records import write

import keras_mmil
from keras_mmil import datasets, io, text, zoo

N_REVIEWS = 25_000  # that are repeated: those for training and for validation
CHANGED = 0.1  # of the words of a copy, replaced by words from anywhere
BATCH = 128
HELD_OUT = 2_000  # reviews, the last ones that are written, to choose and to compare rules on
CHUNK = 250  # reviews written at once


def main():
    """Measure what the command line says, print a line each, and record it."""
    options = parse(sys.argv[1:])
    if options.worker:
        serve(STEPS[options.worker](options), mark_memory())
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        records = [measured(step, Path(folder), options) for step in STEPS]
    if not options.dry:
        write("corpus", records)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=2_000_000)
    parser.add_argument("--trigrams", type=int, default=40_000_000)
    parser.add_argument("--folder", help="for the files, 0.5 GB; by default in that of /tmp")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", choices=STEPS, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def measured(step, folder, options):
    """The record of a step: its greatest memory, its time, and what it found."""
    sizes = ["--sentences", options.sentences, "--trigrams", options.trigrams]
    worker = Worker(__file__, "--worker", step, "--folder", folder, *sizes)
    worker.turn()
    worker.close()
    record = {
        "experiment": "corpus",
        "model": "mmil",
        "variant": step,
        "metric": "peak_gb",
        "mean": round(worker.process_gb, 3),
        "runs": 1,
        "minutes": round(worker.seconds[0] / 60, 2),
        **json.loads((folder / f"{step}.json").read_text()),
    }
    print(json.dumps(record), flush=True)
    return record


# Each step prepares what it needs, and returns a function without arguments that does it, and that
# leaves what it found in a file.


def writing(options):
    folder = Path(options.folder)
    reviews = datasets.imdb.prepare(verbose=0)
    rows = np.concatenate(reviews.rows()[:2])[:N_REVIEWS]
    n_words = len(reviews.corpus.vocabulary)
    found = {"reviews": 0, "sentences": 0, "trigrams": 0, "words": n_words}

    def batches():
        for copy in itertools.count():
            rng = np.random.default_rng(copy)
            order = rng.permutation(rows)
            for start in range(0, len(order), CHUNK):
                if found["sentences"] >= options.sentences and (
                    found["trigrams"] >= options.trigrams
                ):
                    return
                some = order[start : start + CHUNK]
                x = trigrams(reviews.corpus, some, rng)
                found["reviews"] += len(some)
                found["sentences"] += int(x.values.nrows())
                found["trigrams"] += int(tf.shape(x.flat_values)[0])
                yield x, reviews.labels[some].astype("int64")

    def turn():
        info = io.write(folder / "reviews", batches(), verbose=0)
        found["file_gb"] = round(info.n_bytes / 2**30, 3)
        found["tensor_gb"] = round(info.n_tensor_bytes / 2**30, 3)
        leave(folder, "write", found)

    return turn


def trigrams(corpus, rows, rng):
    """The trigrams of some reviews, with some of their words replaced by others of the corpus."""
    words = corpus.ids(rows)
    ids = words.flat_values.numpy()
    is_other = rng.random(len(ids)) < CHANGED
    ids[is_other] = rng.choice(corpus.tokens, int(is_other.sum()))
    return text.windows(words.with_flat_values(ids), 3)


def training(options):
    folder = Path(options.folder)
    found = json.loads((folder / "write.json").read_text())
    n_words = found["words"]
    vectors = np.random.default_rng(0).normal(0, 0.3, (n_words, 100)).astype("float32")
    vectors[0] = 0
    model = zoo.imdb_mmil(vectors)
    train, valid = parts(found["reviews"])

    def turn():
        x = io.read(folder / "reviews", BATCH, shuffle=True, seed=0, rows=train)
        history = model.fit(x, shuffle=False, verbose=0).history
        on_valid = model.evaluate(
            io.read(folder / "reviews", BATCH, rows=valid), verbose=0, return_dict=True
        )
        model.save(folder / "model.keras")
        figures = {name: round(values[-1], 4) for name, values in history.items()}
        leave(folder, "train", figures | {f"val_{k}": round(v, 4) for k, v in on_valid.items()})

    return turn


def extraction(options):
    folder = Path(options.folder)
    model = keras.models.load_model(folder / "model.keras")
    train, valid = parts(json.loads((folder / "write.json").read_text())["reviews"])

    def turn():
        x, x_valid = (io.read(folder / "reviews", BATCH, rows=rows) for rows in (train, valid))
        explainer = keras_mmil.Explainer((10, 6), metric="sensitivity", ccp_alpha=5e-4, verbose=0)
        explainer.fit(model, x, x_valid)
        found = {
            "val_fidelity": round(explainer.fidelity_, 4),
            "val_majority": round(explainer.majority_, 4),
            "clusters": explainer.n_clusters_,
            "rules": sum(len(level.rules) for level in explainer.levels_),
        }
        leave(folder, "rules", found)

    return turn


def parts(n_reviews):
    """Rows for training, and the others."""
    return np.split(np.arange(n_reviews), [n_reviews - HELD_OUT])


def leave(folder, step, found):
    """Write down what a step found."""
    (folder / f"{step}.json").write_text(json.dumps(found))


STEPS = {"write": writing, "train": training, "rules": extraction}

if __name__ == "__main__":
    main()

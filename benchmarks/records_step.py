"""Time of a training step on nested records: `python benchmarks/records_step.py`.

The network of `zoo.records_model` that computes equal records and equal bags once, beside the same
network that computes each place. Both run in a process of their own and take turns; the losses of
the first step have to agree. Results go to `benchmarks/results/records_step.json`.
"""

import argparse
import sys

from interleaved_timing import Worker, mark_memory, serve, take_turns
from records import ratios, write

OURS, REFERENCE = "compressed", "plain"
N_BATCHES, BATCH = 8, 128
DATA = ("churn", "mutagenesis", "mutagenicity", "recipes")


def main():
    """Time what the command line says, print a line each, and record it."""
    options = parse(sys.argv[1:])
    if options.worker:
        work(*options.worker, options.limit)
        return
    records = [compare(name, options) for name in options.data]
    if not options.dry:
        write("records_step", records, ("model",))


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--rounds", type=int, default=8, help="turns of each network")
    parser.add_argument("--limit", type=int, default=N_BATCHES * BATCH, help="records, at most")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def compare(name, options):
    """The record of one data set: the time of our step over that of the plain network."""
    ours, theirs = (
        Worker(__file__, "--worker", name, kind, "--limit", options.limit)
        for kind in (OURS, REFERENCE)
    )
    losses = ours.first["loss"], theirs.first["loss"]
    if abs(losses[0] - losses[1]) > 1e-4 * abs(losses[1]):
        raise RuntimeError(f"Expected equal losses in the first step. Received: {losses}")
    take_turns([ours, theirs], options.rounds)
    found = ratios(ours.seconds, theirs.seconds)
    n_steps = ours.first["steps"]
    milliseconds = [min(worker.seconds) / n_steps * 1000 for worker in (ours, theirs)]
    print(
        f"{name:12} {milliseconds[0]:8.1f} ms   plain {milliseconds[1]:8.1f} ms   "
        f"min/min {found['ratio']:.3f}, median {found['median_ratio']:.3f}",
        flush=True,
    )
    return {
        "experiment": "records_step",
        "model": name,
        "variant": "",
        "metric": "step_ratio",
        "reference": REFERENCE,
        "mean": found["ratio"],
        "median": found["median_ratio"],
        "runs": options.rounds,
        "ms": round(milliseconds[0], 2),
        "reference_ms": round(milliseconds[1], 2),
        "peak_gb": round(ours.peak_gb, 3),
        "reference_peak_gb": round(theirs.peak_gb, 3),
    }


def work(name, kind, limit):
    """What a network's process does: a turn is a step on every batch."""
    # They load TensorFlow, which the process that waits does not need.
    import keras

    from keras_mmil import ragged
    from keras_mmil.records.network import records_model

    records, target, schema = load(name)
    x, y = schema.read(records[:limit], target=target)
    batches = [
        ragged.take((x, y), slice(start, start + BATCH)) for start in range(0, len(y), BATCH)
    ]
    mark = mark_memory()
    keras.utils.set_random_seed(0)
    model = records_model(schema, target, compress=kind == OURS)
    losses = [model.train_on_batch(*batch, return_dict=True)["loss"] for batch in batches]

    def turn():
        for batch in batches:
            model.train_on_batch(*batch)

    turn()  # every batch once more, before anything is timed
    serve(turn, mark, loss=float(losses[0]), steps=len(batches))


def load(name):
    """Records, the path of their labels, and their schema."""
    from keras_mmil.datasets import molecules, mutagenesis, recipes, synthetic
    from keras_mmil.records import Schema, link

    records, target = {
        "churn": lambda: (link(*synthetic.load_churn()), synthetic.churn.TARGET),
        "mutagenesis": lambda: (mutagenesis.load(), mutagenesis.TARGET),
        "mutagenicity": lambda: (molecules.load("Mutagenicity"), molecules.TARGET),
        "recipes": lambda: (recipes.load(), recipes.TARGET),
    }[name]()
    return records, target, Schema.infer(records)


if __name__ == "__main__":
    main()

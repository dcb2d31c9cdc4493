"""Time of what users do, with each distinct instance once and without.

`python benchmarks/end_to_end.py`: fit an epoch, predict, extract rules (a search of up to 4
clusters a level), of the same network on the same data, in two processes that take turns. Also the
time to feed an epoch of batches, as a share of the epoch; and, once, to compress a million
sub-bags. Results go to `benchmarks/results/end_to_end.json`.
"""

import argparse
import time

import keras
import numpy as np
from competitors.ours import build, inputs_of
from interleaved_timing import Worker, mark_memory, serve, take_turns
from records import ratios, write
from workloads import N_BATCHES, WORKLOADS, Batch

import keras_mmil
from keras_mmil import batches, ragged

STAGES = ("fit", "predict", "extract")
EPOCHS_FED = 20  # in a turn: an epoch is soon over, and starting costs more than it


def main():
    """Time what the command line says, print a table, and record it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["text", "ego", "collab"]  # of mnist no two images are the same
    parser.add_argument("--workloads", nargs="+", choices=names, default=names)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        workload, stage, whose = options.worker
        work(WORKLOADS[workload](), stage, distinct=whose == "distinct")
        return
    records = [compress()]
    for workload in options.workloads:
        times = {stage: compare(workload, stage, options.rounds) for stage in (*STAGES, "feed")}
        records += [record(workload, stage, "each occurrence", *times[stage]) for stage in STAGES]
        fed = [seconds / EPOCHS_FED for seconds in times["feed"][0]]
        records.append(record(workload, "feed", "fit", fed, times["fit"][0]))
    if not options.dry:
        write("end_to_end", records, key=("model", "variant"))


def compare(workload, stage, rounds):
    """Seconds of each turn: with each distinct instance once, and (but to feed) without."""
    whose = ["distinct"] if stage == "feed" else ["distinct", "plain"]
    workers = [Worker(__file__, "--worker", workload, stage, name) for name in whose]
    take_turns(workers, rounds)
    return [worker.seconds for worker in workers]


def record(workload, stage, reference, ours, theirs):
    """A record, which is printed too."""
    ratio = ratios(ours, theirs)
    print(
        f"{workload:7} {stage:8} {min(ours):8.3f} s, {reference} {min(theirs):8.3f} s, "
        f"ratio {ratio['ratio']:.3f}",
        flush=True,
    )
    return {
        "experiment": "end_to_end",
        "model": workload,
        "variant": stage,
        "metric": "step_ratio",
        "reference": reference,
        "mean": ratio["ratio"],
        "median": ratio["median_ratio"],
        "runs": len(ours),
        "seconds": round(min(ours), 4),
        "reference_seconds": round(min(theirs), 4),
    }


def compress():
    """Record of the time of `Bags.from_ragged` on a million sub-bags of six words by Zipf's law."""
    rng = np.random.default_rng(0)
    top = np.full(50_000, 20)
    sub = rng.integers(1, 12, top.sum())
    words = rng.zipf(1.5, sub.sum()) % 50_000
    x = ragged.from_flat(words.astype(np.int32), [top, sub])
    started = time.perf_counter()
    bags = keras_mmil.Bags.from_ragged(x)
    seconds = time.perf_counter() - started
    print(f"{bags}: compressed in {seconds:.1f} s", flush=True)
    return {
        "experiment": "end_to_end",
        "model": "Bags.from_ragged",
        "variant": "1,000,000 sub-bags",
        "metric": "seconds",
        "mean": round(seconds, 2),
        "runs": 1,
    }


def work(workload, stage, distinct):
    """What a process does: a stage, again and again."""
    data = joined(workload.batches)
    x, y = inputs_of(workload, data, distinct), data.y
    batch_size = len(y) // N_BATCHES
    model = build(workload, distinct)
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    mark = mark_memory()

    def fit():
        model.fit(x, y, batch_size=batch_size, verbose=0)

    def feed():
        for _ in batches.to_dataset(x, y, batch_size).repeat(EPOCHS_FED):
            pass

    def predict():
        return model.predict(x, batch_size=batch_size, verbose=0)

    def extract():
        middle = np.median(outputs)
        explainer = keras_mmil.Explainer(
            max_clusters=4,
            target=lambda outputs: (outputs[:, 0] > middle).astype(int),
            random_state=0,
            verbose=0,
        )
        explainer.fit(model, x)

    outputs = predict() if stage == "extract" else None
    turn = {"fit": fit, "predict": predict, "extract": extract, "feed": feed}[stage]
    turn()  # once before anything is timed
    serve(turn, mark)


def joined(batches):
    """One `Batch` of several."""
    sizes = (
        [np.diff(getattr(b, splits)) for b in batches] for splits in ("sub_splits", "top_splits")
    )
    splits = (np.append(0, np.cumsum(np.concatenate(parts))) for parts in sizes)
    instances = np.concatenate([batch.instances for batch in batches])
    return Batch(instances, *splits, np.concatenate([batch.y for batch in batches]))


if __name__ == "__main__":
    main()

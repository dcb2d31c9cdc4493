"""Throughput of one actor of Ray and of two: `python benchmarks/distributed.py`.

Reviews of sentences of ids are made up and written to Parquet files; a network predicts them, by
`keras_mmil.distributed.predict`, with one actor and with two, in turns. Each actor has one thread
and a core of its own. Start-up does not count: the clock runs from when all actors have done a
block, and of the blocks only those that were begun later count. The greatest memory of an actor is
that of its process, with all libraries. Results go to `benchmarks/results/distributed.json`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import keras
from io_memory import batches
from records import write

import keras_mmil
from keras_mmil import distributed, io
from keras_mmil.layers import BagLayer, Distinct, bag_inputs

ACTORS = (1, 2)
_PER_FILE = 10_000
_N_IDS = 50_000  # of the reviews
_UNITS = 64


def main():
    """Measure what the command line says, print a line each, and record it."""
    options = parse(sys.argv[1:])
    records = measured(options.reviews, options.rounds, options.block_size)
    for record in records:
        print(json.dumps(record), flush=True)
    if not options.dry:
        write("distributed", records)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reviews", type=int, default=100_000, help="of the corpus")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each number of actors")
    parser.add_argument("--block-size", type=int, default=2048, help="rows of a block")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    return parser.parse_args(arguments)


def measured(n_reviews, rounds, block_size):
    """Records of the throughput and memory of each number of actors, and of their ratio."""
    rates = {n: [] for n in ACTORS}
    peaks = {n: [] for n in ACTORS}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        network().save(folder / "model.keras")
        made = batches(n_reviews, "ids")
        io.write(folder / "in", made, top_bags_per_file=_PER_FILE, verbose=0)
        for i in range(rounds):
            for n in ACTORS:
                with Watch() as watch:
                    done = distributed.predict(
                        folder / "model.keras",
                        folder / "in",
                        folder / f"out-{i}-{n}",
                        actors=n,
                        block_size=block_size,
                        verbose=0,
                    )
                rates[n].append(rate(done.reports, n))
                peaks[n].append(watch.peak_gb)
                print(f"{n} actors: {rates[n][-1]:,.0f} reviews a second", flush=True)
    about = {"experiment": "distributed", "model": "predict", "reviews": n_reviews, "runs": rounds}
    records = []
    for n in ACTORS:
        variant = f"{n} actor{'s' * (n > 1)}"
        records.append(about | entry(variant, "reviews_per_second", rates[n]))
        records.append(about | entry(variant, "peak_gb", peaks[n]))
    pairs = zip(rates[ACTORS[-1]], rates[1], strict=True)
    records.append(about | entry(f"{ACTORS[-1]} actors", "speedup", [a / b for a, b in pairs]))
    return records


def network():
    """A network on bags of bags of ids, as large as those for reviews are."""
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    x = keras.layers.Embedding(_N_IDS, _UNITS)(x)
    for members, weights in levels:
        x = BagLayer(_UNITS)(x, members, weights)
    return keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


def entry(variant, metric, values):
    """The figures of a record."""
    return {
        "variant": variant,
        "metric": metric,
        "mean": round(statistics.mean(values), 3),
        "std": round(statistics.pstdev(values), 3),
    }


def rate(reports, n_actors):
    """Rows a second, from when each actor has done its first block."""
    firsts = {}
    for report in sorted(reports, key=lambda each: each.finished):
        firsts.setdefault(report.process, report.finished)
    if len(firsts) != n_actors:
        raise RuntimeError(f"Expected blocks for {n_actors} actors. Received: {len(firsts)}")
    begin = max(firsts.values())
    counted = [report for report in reports if report.started >= begin]
    if not counted:
        raise RuntimeError(f"Expected more blocks. Received: {len(reports)}")
    return sum(each.rows for each in counted) / (max(each.finished for each in counted) - begin)


class Watch:
    """Gives each actor that appears a core of its own, and notes the greatest memory of one.

    Attributes:
        peak_gb: of the actors that were there.
    """

    def __enter__(self):
        self.peak_gb = 0.0
        self._cores = {}  # by process
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._thread.join()

    def _watch(self):
        available = sorted(os.sched_getaffinity(0))
        while not self._ends.wait(0.1):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    self._look_at(folder, available)
                except OSError:  # it has ended
                    continue

    def _look_at(self, folder, available):
        title = (folder / "cmdline").read_bytes()
        if not (title.startswith(b"ray::") and b"_Actor" in title):
            return
        core = self._cores.setdefault(folder.name, available[len(self._cores) % len(available)])
        for task in (folder / "task").iterdir():  # threads that there were before, too
            os.sched_setaffinity(int(task.name), {core})
        status = (folder / "status").read_text().splitlines()
        (line,) = (line for line in status if line.startswith("VmHWM"))
        self.peak_gb = max(self.peak_gb, int(line.split()[1]) / 2**20)


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} seconds in all")

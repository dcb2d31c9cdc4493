"""Time of the reductions of bags, ours beside TensorFlow's: `python benchmarks/kernels.py`.

2 million instances of 64 units in 100,000 bags. All take turns in one process. A copy of the array
is the physical limit. Results go to `benchmarks/results/kernels.json`.
"""

import argparse
import itertools
import time

import numpy as np
import tensorflow as tf
from records import ratios, write

from keras_mmil.layers import segments

OURS = {"max": segments.segment_max, "mean": segments.segment_mean, "sum": segments.segment_sum}
TENSORFLOW = {
    "max": tf.math.segment_max,
    "mean": tf.math.segment_mean,
    "sum": tf.math.segment_sum,
}


def main():
    """Time all, print a table, and record it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=2_000_000)
    parser.add_argument("--bags", type=int, default=100_000)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    values = tf.constant(rng.normal(size=(options.instances, options.units)).astype(np.float32))
    row_ids = tf.constant(np.sort(rng.integers(0, options.bags, options.instances)))
    upstream = tf.constant(rng.normal(size=(options.bags, options.units)).astype(np.float32))
    copy = tf.function(lambda values: tf.concat([values[:1], values[1:]], axis=0))
    calls = {"copy": lambda: copy(values)}
    for name, gradient in itertools.product(OURS, (False, True)):
        for whose, reduce in (
            ("ours", lambda v, name=name: OURS[name](v, row_ids, options.bags)),
            ("tensorflow", lambda v, name=name: TENSORFLOW[name](v, row_ids)),
        ):
            kind = "forward+backward" if gradient else "forward"
            calls[name, kind, whose] = compiled(reduce, values, upstream if gradient else None)
    times = measure(calls, options.rounds)
    copy = min(times.pop("copy"))
    print(f"copy of the array: {copy * 1000:.0f} ms")
    records = []
    for name, kind in sorted({key[:2] for key in times}):
        ours, theirs = (times[name, kind, whose] for whose in ("ours", "tensorflow"))
        ratio = ratios(ours, theirs)
        print(
            f"{name:5} {kind:17} {min(ours) * 1000:7.1f} ms, {min(ours) / copy:5.2f} copies   "
            f"ours/theirs: min/min {ratio['ratio']:.3f}, median {ratio['median_ratio']:.3f}"
        )
        records.append(
            {
                "experiment": "kernels",
                "model": name,
                "variant": kind,
                "metric": "step_ratio",
                "reference": "TensorFlow",
                "mean": ratio["ratio"],
                "median": ratio["median_ratio"],
                "runs": options.rounds,
                "ms": round(min(ours) * 1000, 2),
                "reference_ms": round(min(theirs) * 1000, 2),
                "copy_ms": round(copy * 1000, 2),
            }
        )
    if not options.dry:
        write("kernels", records)


def compiled(reduce, values, upstream):
    """A function without arguments that reduces, and computes the gradient if given an upstream."""

    @tf.function
    def run(values):
        if upstream is None:
            return reduce(values)
        with tf.GradientTape() as tape:
            tape.watch(values)
            reduced = reduce(values)
        return reduced, tape.gradient(reduced, values, output_gradients=upstream)

    return lambda: run(values)


def measure(calls, rounds):
    """Seconds of each call in each round, the calls taking turns."""
    for call in calls.values():
        call()
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return times


if __name__ == "__main__":
    main()

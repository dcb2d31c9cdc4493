"""Throughput of one worker and of two, and what 64 would do: `python benchmarks/scaling.py`.

Each worker is a process with one core and one thread, and has the same work whatever their number:
the batch grows with it. Start-up and the first epoch are left out. The same steps without a
strategy, side by side as well, tell the share of communication; all-reduces of tensors of the
gradients' shapes, and nothing else, tell what it costs by the bytes. To these a model of cost is
fitted, and checked on a size that it has not seen. Results go to `benchmarks/results/scaling.json`.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from local_workers import start
from records import write

UNITS = (32, 128, 512, 1024)
HELD_OUT = 512  # the model of cost is fitted without it
PER_WORKER = 16  # top-bags in a batch
N_STEPS = 20  # in an epoch
N_INSTANCES, N_SUB_BAGS, N_FEATURES = 10, 4, 32
N_WORKERS = (1, 2)
# What is assumed of other networks: seconds for a message, and for a byte.
NETWORKS = {"10 Gbit/s, 50 µs": (50e-6, 8 / 10e9), "100 Gbit/s, 10 µs": (10e-6, 8 / 100e9)}
TIME_LIMIT = 1200  # seconds


def main():
    """Measure, print, and record."""
    options = parse(sys.argv[1:])
    if options.worker:
        work(*options.worker, options)
        return
    found = [measured(n, units, options) for units in options.units for n in N_WORKERS]
    table = [*map(step, found), *communication(found), *costs(found)]
    for each in table:
        print(each)
    if not options.dry:
        write("scaling", table, key=("model", "variant", "metric"))


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", nargs="+", type=int, default=list(UNITS))
    parser.add_argument("--rounds", type=int, default=8, help="epochs that are timed")
    parser.add_argument("--steps", type=int, default=N_STEPS, help="steps in an epoch")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def measured(n_workers, units, options):
    """What the workers measure, the slowest of them at each."""
    with tempfile.TemporaryDirectory() as folder:
        timed = ["--rounds", options.rounds, "--steps", options.steps]
        arguments = ["--worker", units, folder, *timed]
        workers = start(n_workers, __file__, *arguments, logs=folder, pin=True)
        try:
            codes = [worker.wait(TIME_LIMIT) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
        if any(codes):
            logs = (path.read_text()[-2000:] for path in Path(folder).glob("*.log"))
            raise RuntimeError(f"Expected workers that end well. Received: {codes}, {[*logs]}")
        each = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    found = {"n_workers": n_workers, "units": units, "bytes": each[0]["bytes"]}
    for name in ("together", "alone", "all_reduce"):
        found[name] = [max(times) for times in zip(*(one[name] for one in each), strict=True)]
    print(found, flush=True)
    return found


def work(units, folder, options):
    """What a worker does: it writes the seconds of its steps of each kind to a file."""
    import keras
    import tensorflow as tf

    import keras_mmil
    from keras_mmil import ragged
    from keras_mmil.model.replicas import feed_replicas, of_chief

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    n_workers = strategy.num_replicas_in_sync

    def network():
        bags = keras.Input((None, None, N_FEATURES), ragged=True)
        x = keras_mmil.layers.BagLayer(int(units))(bags)
        x = keras_mmil.layers.BagLayer(int(units))(x)
        model = keras_mmil.Model(bags, keras.layers.Dense(1, "sigmoid")(x))
        model.compile("sgd", "binary_crossentropy", jit_compile=False)
        return model

    def data(n):
        rng = np.random.default_rng(0)
        sizes = np.full(n, N_SUB_BAGS), np.full(n * N_SUB_BAGS, N_INSTANCES)
        values = rng.normal(size=(sizes[1].sum(), N_FEATURES)).astype("float32")
        return ragged.from_flat(values, sizes), rng.integers(0, 2, n)

    def seconds_of_steps(model, batch_size):
        clock = Clock()
        of_chief(strategy, 0)  # all begin at once
        # In all cases from an endless Dataset: to begin one anew takes time in each epoch.
        fed = feed_replicas(
            model.distribute_strategy, *data(batch_size * options.steps), batch_size=batch_size
        )
        model.fit(
            **fed,
            epochs=options.rounds + 1,
            callbacks=[clock],
            verbose=0,
        )
        return [each / options.steps for each in clock.seconds[1:]]

    class Clock(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.seconds = []

        def on_epoch_begin(self, epoch, logs=None):
            self.started = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            self.seconds.append(time.perf_counter() - self.started)

    with strategy.scope():
        model = network()
    shapes = [tuple(v.shape) for v in model.trainable_variables]

    @tf.function
    def all_reduces():
        def replica():
            values = [tf.zeros(shape) for shape in shapes]
            for _ in range(options.steps):  # one after another
                values = tf.distribute.get_replica_context().all_reduce("MEAN", values)

        strategy.run(replica)

    def seconds_of_all_reduces():
        found = []
        for _ in range(options.rounds + 1):
            of_chief(strategy, 0)
            started = time.perf_counter()
            all_reduces()
            found.append((time.perf_counter() - started) / options.steps)
        return found[1:]

    found = {
        "together": seconds_of_steps(model, PER_WORKER * n_workers),
        "alone": seconds_of_steps(network(), PER_WORKER),
        "all_reduce": seconds_of_all_reduces() if n_workers > 1 else [0.0] * options.rounds,
        "bytes": 4 * sum(int(np.prod(shape)) for shape in shapes),
    }
    task = strategy.cluster_resolver.task_id
    Path(folder, f"{task}.json").write_text(json.dumps(found))


def step(found):
    """The record of a step: top-bags a second."""
    rates = [PER_WORKER * found["n_workers"] / seconds for seconds in found["together"]]
    return entry(found, "top_bags_per_second", rates)


def communication(found):
    """Records of several workers: efficiency, and the share of communication in their steps."""
    one = {each["units"]: each for each in found if each["n_workers"] == 1}
    for each in found:
        if each["n_workers"] > 1:
            alone = statistics.median(one[each["units"]]["together"])
            yield entry(each, "efficiency", [alone / t for t in each["together"]])
            pairs = zip(each["together"], each["alone"], strict=True)
            yield entry(each, "communication_share", [1 - local / t for t, local in pairs])
            yield entry(each, "all_reduce_ms", [1000 * t for t in each["all_reduce"]])


def costs(found):
    """Records of the model of cost: its constants, its error on a step, and 64 workers.

    t(n) = compute + fixed + 2 (n - 1) alpha + 2 (n - 1) / n · bytes · beta, where compute is the
    step of two workers side by side without communication, and fixed what a strategy adds to a step
    whatever there is to send. A ring of n workers sends 2 (n - 1) messages one after another, each
    of a n-th of the bytes. All-reduces alone tell alpha, and steps the others.
    """
    pairs = [each for each in found if each["n_workers"] == 2]
    seen = [each for each in pairs if each["units"] != HELD_OUT]
    if len(seen) < 2:
        return
    latency, _ = line(seen, [statistics.median(each["all_reduce"]) for each in seen])
    at_all, beta = line(
        seen,
        [statistics.median(each["together"]) - statistics.median(each["alone"]) for each in seen],
    )
    alpha = latency / 2
    fixed = at_all - latency
    constants = {"fixed_ms": fixed * 1e3, "alpha_us": alpha * 1e6, "beta_ns": beta * 1e9}
    print({name: round(value, 3) for name, value in constants.items()}, flush=True)
    for each in pairs:
        real = statistics.median(each["together"])
        predicted = modelled(each, 2, fixed, alpha, beta)
        kind = "not fitted to" if each["units"] == HELD_OUT else "fitted to"
        yield {
            **entry(each, "modelled_to_measured", [predicted / real]),
            "variant": f"2 workers, {kind}",
            **{name: round(value, 4) for name, value in constants.items()},
        }
    for name, of_network in {"loopback": (alpha, beta), **NETWORKS}.items():
        for each in pairs:
            compute = statistics.median(each["alone"])
            share = compute / modelled(each, 64, fixed, *of_network)
            yield {**entry(each, "efficiency", [share]), "variant": f"64 workers on paper, {name}"}


def line(found, seconds):
    """Seconds at no bytes, and of each byte: least squares of relative errors."""
    rows = np.array([[1.0, each["bytes"]] for each in found])
    scale = 1 / np.array(seconds)
    return np.linalg.lstsq(rows * scale[:, None], np.ones(len(seconds)), rcond=None)[0].tolist()


def modelled(found, n, fixed, alpha, beta):
    """Seconds of a step of n workers."""
    sent = 2 * (n - 1) / n * found["bytes"]
    return statistics.median(found["alone"]) + fixed + 2 * (n - 1) * alpha + sent * beta


def entry(found, metric, values):
    """A record; the model is named by its units and its gradients."""
    return {
        "experiment": "scaling",
        "model": f"{found['units']} units, {found['bytes'] / 1e6:.2f} MB",
        "variant": f"{found['n_workers']} workers",
        "metric": metric,
        "mean": round(statistics.mean(values), 4),
        "std": round(statistics.pstdev(values), 4),
        "runs": len(values),
    }


if __name__ == "__main__":
    main()

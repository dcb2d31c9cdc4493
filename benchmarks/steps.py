"""Time of a training step, ours beside the alternatives: `python benchmarks/steps.py`.

Each competitor runs in a process of its own, which keeps its compiled step and its memory; they
take turns (A B C A B C …), one at a time, each through all batches. All start from the same
weights, so that the losses of the first step have to agree. Results go to
`benchmarks/results/steps.json`.
"""

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import time

from records import ratios, write
from workloads import WORKLOADS

OURS, REFERENCE = "keras-mmil", "flat"
COMPETITORS = {
    OURS: "ours.Step",
    REFERENCE: "flat.Step",
    "naive-ragged": "naive_ragged.Step",
    "padded": "padded.Step",
    "pyg-index": "pytorch_geometric.ByIndex",
    "pyg-pointer": "pytorch_geometric.ByPointer",
}
# Padded to its largest sub-bags, COLLAB takes more memory than the machines we know have.
IMPOSSIBLE = {("collab", "padded")}


def main():
    """Time what the command line says, print a table, and record it."""
    options = parse(sys.argv[1:])
    if options.worker:
        work(*options.worker, options)
        return
    records = []
    for workload in options.workloads:
        others = [name for name in options.competitors if (workload, name) not in IMPOSSIBLE]
        records += compare(workload, [OURS, *(name for name in others if name != OURS)], options)
    if not options.dry:
        key = ("model", "reference", "bag_scale", "batch_scale")
        write("steps", records, "python benchmarks/steps.py", key)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--competitors", nargs="+", choices=COMPETITORS, default=list(COMPETITORS))
    parser.add_argument("--rounds", type=int, default=8, help="turns of each competitor")
    parser.add_argument("--bag-scale", type=int, default=1, help="times larger bags")
    parser.add_argument("--batch-scale", type=int, default=1, help="times larger batches")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def compare(workload, names, options):
    """Records of one workload: our time over that of each competitor."""
    workers = {}
    losses = {}
    for name in names:  # one after another, so that starting disturbs nobody
        workers[name] = start(workload, name, options)
        losses[name] = ask(workers[name])["loss"]
        if abs(losses[name] - losses[OURS]) > 1e-4 * abs(losses[OURS]):
            raise RuntimeError(f"Expected equal losses in the first step. Received: {losses}")
    answers = {name: [] for name in names}
    for _ in range(options.rounds):
        for name, worker in workers.items():
            answers[name].append(ask(worker, "turn"))
    for worker in workers.values():
        worker.communicate()
    times = {name: [each["seconds"] for each in answers[name]] for name in names}
    peaks = {name: answers[name][-1]["peak_gb"] for name in names}
    records = []
    for name in names:
        ratio = ratios(times[OURS], times[name])
        print(
            f"{workload:7} {name:14} {min(times[name]) * 1000:9.1f} ms   {peaks[name]:6.2f} GB   "
            f"ours/theirs: min/min {ratio['ratio']:6.3f}, median {ratio['median_ratio']:6.3f}",
            flush=True,
        )
        records.append(
            {
                "experiment": "steps",
                "model": workload,
                "variant": "",
                "metric": "step_ratio",
                "reference": name,
                "bag_scale": options.bag_scale,
                "batch_scale": options.batch_scale,
                "mean": ratio["ratio"],
                "median": ratio["median_ratio"],
                "runs": options.rounds,
                "ms": round(ratio["min_ms"], 2),
                "reference_ms": round(min(times[name]) * 1000, 2),
                "peak_gb": round(peaks[OURS], 3),
                "reference_peak_gb": round(peaks[name], 3),
            }
        )
    return records[1:]  # without ourselves


def start(workload, name, options):
    """A competitor's process."""
    scales = (options.bag_scale, options.batch_scale)
    names = ("--bag-scale", "--batch-scale")
    scale_options = [str(part) for pair in zip(names, scales, strict=True) for part in pair]
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", workload, name, *scale_options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_WAIT_POLICY": "passive", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def ask(worker, question=None):
    """The next answer of a competitor's process."""
    if question is not None:
        worker.stdin.write(question + "\n")
        worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError(f"Expected an answer of {worker.args}. Received: its end")
    return json.loads(line)


def work(workload, name, options):
    """What a competitor's process does: a turn through all batches for each line that it reads."""
    module, step_class = COMPETITORS[name].split(".")
    data = WORKLOADS[workload](options.bag_scale, options.batch_scale)
    step = getattr(importlib.import_module(f"competitors.{module}"), step_class)(data)
    n = len(data.batches)
    answer(loss=step(0))
    for i in range(1, n):
        step(i)  # every batch once, before anything is timed
    for _ in sys.stdin:
        started = time.perf_counter()
        for i in range(n):
            step(i)
        seconds = (time.perf_counter() - started) / n
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        answer(seconds=seconds, peak_gb=peak)


def answer(**fields):
    """Write an answer to whoever started this process."""
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()

"""Time of a training step, ours beside the alternatives: `python benchmarks/steps.py`.

Each competitor runs in a process of its own, which keeps its compiled step and its memory; they
take turns (A B C A B C …), one at a time, each through all batches. As some processes are faster
than others of the same program by some percent, from start to end, there may be several of each.
All start from the same weights, so that the losses of the first step have to agree. Results go to
`benchmarks/results/steps.json`.
"""

import argparse
import importlib
import sys

from interleaved_timing import Worker, mark_memory, serve, take_turns
from records import ratios, write
from workloads import N_BATCHES, WORKLOADS

OURS, REFERENCE = "keras-mmil", "flat"
COMPETITORS = {
    OURS: "ours.Step",
    REFERENCE: "flat.Step",
    "naive-ragged": "naive_ragged.Step",
    "padded": "padded.Step",
    "pyg-index": "pytorch_geometric.ByIndex",
    "pyg-pointer": "pytorch_geometric.ByPointer",
}
# Padded to their largest bags, these take more memory than the machines we know have.
IMPOSSIBLE = {("collab", "padded"), ("cora", "padded")}
# Nobody else has written it.
IMPOSSIBLE |= {("imdb_vat", name) for name in COMPETITORS if name not in (OURS, REFERENCE)}


def main():
    """Time what the command line says, print a table, and record it."""
    options = parse(sys.argv[1:])
    if options.worker:
        work(*options.worker, options)
        return
    for workload in options.workloads:
        others = [name for name in options.competitors if (workload, name) not in IMPOSSIBLE]
        records = compare(workload, [OURS, *(name for name in others if name != OURS)], options)
        if not options.dry:
            key = ("model", "reference", "bag_scale", "batch_scale")
            write("steps", records, key)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--competitors", nargs="+", choices=COMPETITORS, default=list(COMPETITORS))
    parser.add_argument("--rounds", type=int, default=8, help="turns of each competitor")
    parser.add_argument("--processes", type=int, default=1, help="processes of each competitor")
    parser.add_argument("--bag-scale", type=int, default=1, help="times larger bags")
    parser.add_argument("--batch-scale", type=int, default=1, help="times larger batches")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def compare(workload, names, options):
    """Records of one workload: our time over that of each competitor."""
    scales = ["--bag-scale", options.bag_scale, "--batch-scale", options.batch_scale]
    # Started one after another, so that starting disturbs nobody.
    workers = [
        (name, Worker(__file__, "--worker", workload, name, *scales))
        for _ in range(options.processes)
        for name in names
    ]
    losses = {name: worker.first["loss"] for name, worker in workers}
    if any(abs(loss - losses[OURS]) > 1e-4 * abs(losses[OURS]) for loss in losses.values()):
        raise RuntimeError(f"Expected equal losses in the first step. Received: {losses}")
    take_turns([worker for _, worker in workers], options.rounds)
    seconds, peak_gb = {}, {}
    for name in names:
        mine = [worker for of, worker in workers if of == name]
        seconds[name] = [turn for worker in mine for turn in worker.seconds]
        peak_gb[name] = max(worker.peak_gb for worker in mine)
    records = []
    for name in names:
        ratio = ratios(seconds[OURS], seconds[name])
        milliseconds = min(seconds[name]) / N_BATCHES * 1000
        print(
            f"{workload:7} {name:14} {milliseconds:9.1f} ms   {peak_gb[name]:6.2f} GB   "
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
                "runs": options.rounds * options.processes,
                "ms": round(min(seconds[OURS]) / N_BATCHES * 1000, 2),
                "reference_ms": round(milliseconds, 2),
                "peak_gb": round(peak_gb[OURS], 3),
                "reference_peak_gb": round(peak_gb[name], 3),
            }
        )
    return records[1:]  # without ourselves


def work(workload, name, options):
    """What a competitor's process does: a turn is a step on every batch."""
    module, step_class = COMPETITORS[name].split(".")
    data = WORKLOADS[workload](options.bag_scale, options.batch_scale)
    step_class = f"Adversarial{step_class}" if data.adversarial else step_class
    make = getattr(importlib.import_module(f"competitors.{module}"), step_class)
    mark = mark_memory()
    step = make(data)
    loss = step(0)
    for i in range(1, N_BATCHES):
        step(i)  # every batch once, before anything is timed

    def turn():
        for i in range(N_BATCHES):
            step(i)

    serve(turn, mark, loss=loss)


if __name__ == "__main__":
    main()

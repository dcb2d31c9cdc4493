"""Time to read nested records beside the parsers: `python benchmarks/records_reading.py`.

Customers with orders and items are made up and written to a Parquet and a JSON-lines file. Both are
read in turns by pyarrow or Python's json alone, by `Schema.infer`, and by `schema.read`: once whole
and once without texts, as TensorFlow's string tensors take long to make. All use one thread, and
CPU time counts. The memory of a pass of `schema.dataset` is measured in a process of its own, of
this file and of a quarter of it. Results go to `benchmarks/results/records_reading.json`.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from interleaved_timing import Worker, mark_memory, serve
from record_files import write_jsonl, write_parquet
from records import ratios, write

from keras_mmil.records import Schema

WRITERS = {"parquet": write_parquet, "jsonl": write_jsonl}
_BATCH = 1000  # records


def main():
    """Time what the command line says, print a line each, and record it."""
    options = parse(sys.argv[1:])
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if options.worker:
        stream(options.worker)
        return
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for form, make in WRITERS.items():
            large, small = (Path(folder) / f"{name}.{form}" for name in ("large", "small"))
            make(large, options.items)
            make(small, options.items // 4)
            records += compare(form, large, options.rounds)
            records += [memory(form, path, share) for path, share in ((large, 1), (small, 0.25))]
    for record in records:
        print(json.dumps(record), flush=True)
        record |= {"experiment": "records_reading", "items": options.items}
    if not options.dry:
        write("records_reading", records, ("model", "variant", "metric"))


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000, help="about so many item records")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each reader")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def compare(form, path, rounds):
    """Records of one file: our time over that of the parser, with texts and without."""
    reference, parse_alone = PARSERS[form]
    schema = Schema.infer(path)
    numbers = Schema.infer(path)
    for field in schema:
        if field.kind in ("category", "text"):
            numbers.drop(field.path)
    programs = {
        "parse": lambda: parse_alone(path),
        "infer": lambda: Schema.infer(path),
        "read": lambda: schema.read(path),
        "read numbers": lambda: numbers.read(path),
    }
    seconds = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            started = time.process_time()
            program()
            seconds[name].append(time.process_time() - started)
    records = []
    for variant, read in (("", "read"), ("without texts", "read numbers")):
        ours = [sum(pair) for pair in zip(seconds["infer"], seconds[read], strict=True)]
        found = ratios(ours, seconds["parse"])
        records.append(
            {
                "model": form,
                "variant": variant,
                "metric": "read_ratio",
                "reference": reference,
                "mean": found["ratio"],
                "median": found["median_ratio"],
                "runs": rounds,
                "seconds": round(min(ours), 3),
                "infer_seconds": round(min(seconds["infer"]), 3),
                "reference_seconds": round(min(seconds["parse"]), 3),
            }
        )
    return records


def memory(form, path, share):
    """Record of the greatest memory of a process that infers and streams a file."""
    worker = Worker(__file__, "--worker", path)
    worker.turn()
    worker.close()
    return {
        "model": form,
        "variant": f"streamed, {share:.0%} of the file",
        "metric": "peak_gb",
        "mean": round(worker.peak_gb, 3),
        "file_gb": round(path.stat().st_size / 2**30, 3),
        "runs": 1,
    }


def stream(path):
    """What the process does whose memory is measured."""

    def turn():
        schema = Schema.infer(path)
        for _ in schema.dataset(path, _BATCH):
            pass

    serve(turn, mark_memory())


def _read_table(path):
    pq.read_table(path, use_threads=False)


def _loads(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            json.loads(line)


PARSERS = {"parquet": ("pyarrow.parquet.read_table", _read_table), "jsonl": ("json.loads", _loads)}

if __name__ == "__main__":
    main()

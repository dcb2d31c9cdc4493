"""Damage the files of every format that the library reads, thousands of times.

    python tests/fuzz/fuzz.py                       all formats, 10,000 mutations each
    python tests/fuzz/fuzz.py -n 1000 shards schema  those whose names begin so
    python tests/fuzz/fuzz.py --only 17 schema       one mutation, with the traceback of its error

prints a line of JSON for each format: how many mutations ended in an error that names the file, in
the same data, or in other data; and what is wrong. It needs Linux.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import data_formats
import saved_formats
from harness import fuzz

FORMATS = {each.name: each for each in (*data_formats.FORMATS, *saved_formats.FORMATS)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="beginnings of names of formats; all by default")
    parser.add_argument("-n", type=int, default=10_000, help="mutations of each format")
    parser.add_argument("--brief", action="store_true", help="at most as many as take a minute")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="number of a mutation, to try it alone")
    parser.add_argument("--list", action="store_true", help="print the names of the formats")
    options = parser.parse_args()
    chosen = [
        each for name, each in FORMATS.items() if name.startswith(tuple(options.names or [""]))
    ]
    if options.list:
        print("\n".join(each.name for each in chosen))
        return
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for each in chosen:
            n = min(options.n, each.n) if options.brief else options.n
            where = Path(folder) / each.name
            found = fuzz(each, where, n, options.seed, options.only)
            print(json.dumps(found), flush=True)
            if (where / "traceback").exists():
                print((where / "traceback").read_text(), file=sys.stderr)
            wrong += bool(found["faults"])
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

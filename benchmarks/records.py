"""Records of benchmarks: `benchmarks/results/<name>.json`."""

import datetime
import json
import shlex
import statistics
import sys
from pathlib import Path

from keras_mmil._support.files import write_json
from keras_mmil.cli.results import commit

__all__ = ["ratios", "write"]

FOLDER = Path(__file__).parent / "results"


def ratios(times, reference):
    """Ratios of times to those of a reference timed in turns with them.

    Args:
        times: seconds of each round.
        reference: those of the reference.

    Returns:
        Dict of `ratio`, of the shortest times, and `median_ratio`, of the rounds' ratios.
    """
    by_round = [ours / theirs for ours, theirs in zip(times, reference, strict=True)]
    return {
        "ratio": round(min(times) / min(reference), 4),
        "median_ratio": round(statistics.median(by_round), 4),
    }


def write(name, records, key=()):
    """Write records, with the command of this program, commit and date; atomically.

    Args:
        name: of the file.
        records: list of dicts.
        key: fields by which a record replaces an older one; without, all older ones go.
    """
    command = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    about = {"command": command, "commit": commit(), "date": datetime.date.today().isoformat()}
    records = [{**record, **about} for record in records]
    path = FOLDER / f"{name}.json"
    if key and path.exists():
        new = {tuple(record[field] for field in key) for record in records}
        old = json.loads(path.read_text(encoding="utf-8"))
        records = [r for r in old if tuple(r[field] for field in key) not in new] + records
    write_json(path, records)

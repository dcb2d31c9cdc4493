"""What can be checked without TensorFlow, so that errors do not wait for it."""

from __future__ import annotations

import csv
import difflib
import json
import os
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_mmil_cli.listing import options_module

if TYPE_CHECKING:
    from keras_mmil.zoo.experiments.catalogue import Entry

__all__ = ["chosen", "exists", "export", "folder", "run", "target", "trained"]

_options = options_module()
_SETTINGS, _ESTIMATOR, _LOCK = "settings.json", "estimator.json", ".lock"
_NAME = re.compile(r"[A-Za-z0-9_ -]+")  # of a field, which JSON never escapes
_N_RECORDS = 100  # whose fields are suggested
_CHUNK = 2**24  # bytes


def chosen(entries: Sequence[Entry], options: Namespace) -> Entry:
    """The experiment that the options name; the first of its name where they leave a choice."""
    found = [entry for entry in entries if entry.name == options.experiment]
    if not found:
        names = dict.fromkeys(entry.name for entry in entries)
        raise ValueError(
            f"Expected an experiment among {', '.join(names)}. "
            f"Received: experiment={options.experiment!r}"
        )
    for option in ("model", "aggregation", "split"):
        known = list(dict.fromkeys(getattr(entry, option) for entry in found))
        wanted = getattr(options, option) or known[0]
        if wanted not in known:
            raise ValueError(
                f"Expected --{option} among {', '.join(filter(None, known)) or 'none'} for "
                f"{options.experiment}. Received: --{option} {wanted}"
            )
        found = [entry for entry in found if getattr(entry, option) == wanted]
    return found[0]


def run(entry: Entry, options: Namespace) -> None:
    """Check that the experiment has what the options ask for, and that no option has no effect."""
    _options.check(options, _options.RunOptions)
    if options.source not in (None, *entry.sources):
        raise ValueError(
            f"Expected a source among {', '.join(entry.sources)}. "
            f"Received: --source {options.source}"
        )
    if options.vat and entry.adversarial is None:
        raise ValueError(
            "Expected an experiment with virtual adversarial training. "
            f"Received: --vat for {entry.name}"
        )
    _check_cross_validation(entry, options)
    if not options.rules and options.max_clusters is not None:
        raise ValueError(
            "Expected no number of clusters where no rules are extracted. "
            f"Received: --max-clusters {options.max_clusters} with --no-rules"
        )
    for flag, value in (("--limit", options.limit), ("--max-clusters", options.max_clusters)):
        if options.record and value is not None:
            raise ValueError(
                "Expected figures of the whole experiment for the records. "
                f"Received: {flag} {value} with --record"
            )


def _check_cross_validation(entry: Entry, options: Namespace) -> None:
    folds = entry.folds if options.folds is None else options.folds
    if folds and not entry.folds:
        raise ValueError(
            "Expected an experiment whose data come in one part, to be cross-validated. "
            f"Received: --folds {folds} for {entry.name}"
        )
    if folds < 0 or folds == 1:
        raise ValueError(f"Expected at least 2 folds, or 0 for none. Received: --folds {folds}")
    if options.jobs == 0:
        raise ValueError(
            "Expected a number of folds to train in parallel, or -1 for one a core. "
            "Received: --jobs 0"
        )
    if folds:
        return
    why = f"--folds 0 for {entry.name}" if entry.folds else entry.name
    for name in ("rounds", "jobs"):
        value = getattr(options, name)
        if value is not None:
            raise ValueError(
                f"Expected an experiment with a cross-validation. Received: --{name} {value} for "
                f"{why}"
            )


def export(options: Namespace) -> None:
    """Check that the options of an export go together."""
    is_model = options.to == "savedmodel"
    if is_model and options.out is None:
        raise ValueError("Expected --out, a new folder, for --to savedmodel. Received: none")
    if is_model and (options.data is not None or options.labels is not None):
        raise ValueError(
            "Expected rules to export, for --data and --labels. Received: --to savedmodel"
        )
    if options.dialect is not None and (options.to != "sql" or options.labels is not None):
        raise ValueError(
            "Expected a query on tables, --to sql without --labels, for --dialect. "
            f"Received: --dialect {options.dialect}"
        )
    if options.labels is not None and options.data is None:
        raise ValueError(f"Expected --data, for --labels. Received: --labels {options.labels}")
    if options.data is not None:
        exists(options.data, "a file or a folder with data")
        if options.labels is None and options.to != "prolog":
            raise ValueError(
                "Expected --labels, a Parquet file for the table of the records, or --to prolog. "
                f"Received: --data {options.data} with --to {options.to}"
            )


def exists(path: str, what: str) -> None:
    """Raise FileNotFoundError if there is nothing at a path."""
    if "://" not in path and not os.path.exists(path):  # URLs of databases
        raise FileNotFoundError(f"Expected {what}. Received: no {path}")


def folder(out: str, resume: bool) -> None:
    """Raise FileExistsError if there is a run in a folder, which is not to be resumed.

    That another process is running there is for the library to say.
    """
    if os.path.exists(os.path.join(out, _SETTINGS)) and not resume and not _is_in_use(out):
        raise FileExistsError(
            f"Expected a new folder, or --resume to continue the run in it. Received: --out {out}"
        )


def _is_in_use(folder: str) -> bool:
    """Whether a process that may be running there has left its number; doubtful on Windows."""
    if os.name != "posix":
        return True
    try:
        process = int(Path(folder, _LOCK).read_text())
        os.kill(process, 0)  # which only asks whether it lives
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def trained(folder: str) -> None:
    """Raise FileNotFoundError if a folder holds no estimator."""
    if not os.path.exists(os.path.join(folder, _ESTIMATOR)):
        raise FileNotFoundError(
            "Expected the folder of a finished `keras-mmil train`, or of a saved estimator. "
            f"Received: {folder}"
        )


def target(options: Namespace) -> None:
    """Raise ValueError if no record has the target.

    Only plain CSV and JSON Lines files are looked at, and only for names of plain characters; what
    is refused here the library would refuse, too.
    """
    path, name = options.data, options.target
    first = re.split(r"[.\[<]", name)[0]
    is_plain = _NAME.fullmatch(first) and not options.records and os.path.isfile(path)
    ending = Path(path).suffix
    if not is_plain or ending not in (".csv", ".jsonl", ".ndjson"):
        return
    try:
        known = _columns(path) if ending == ".csv" else _fields(path, first)
    except (OSError, UnicodeError, ValueError):
        return  # which the library says better
    if known is None or name in known or first in known:
        return
    close = difflib.get_close_matches(name, known, n=3)
    hint = (
        f"did you mean {' or '.join(map(repr, close))}?"
        if close
        else f"there are {', '.join(known[:10])}"
    )
    raise ValueError(f"Expected a field of the records as --target. Received: {name} ({hint})")


def _columns(path: str) -> list[str] | None:
    """The columns of a CSV file, None if it has none of its own."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        columns = next(csv.reader(file), [])
    return columns if len(columns) > 1 else None


def _fields(path: str, name: str) -> list[str] | None:
    """The fields of the first records in a JSON Lines file; None if some record may have `name`."""
    with open(path, "rb") as file:
        fields: dict[str, None] = {}
        for line, _ in zip(file, range(_N_RECORDS), strict=False):
            record = json.loads(line or "{}")
            fields |= dict.fromkeys(record if isinstance(record, dict) else ())
        file.seek(0)
        wanted, end = f'"{name}"'.encode(), b""
        while chunk := file.read(_CHUNK):
            if wanted in end + chunk or b"\\u00" in end + chunk:
                return None
            end = chunk[-len(wanted) :]
    return list(fields)

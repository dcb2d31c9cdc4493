"""Predictions for own records, and why, in the words of the data."""

import csv
import itertools
import json
import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import numpy as np

from keras_mmil import ragged
from keras_mmil._support.files import atomic_write
from keras_mmil._support.types import Array, PathLike, Tensors
from keras_mmil.cli.finished_run import load_estimator
from keras_mmil.cli.own_files import check_not_input, did_you_mean, new_records, users_errors
from keras_mmil.cli.run_folder import how_read
from keras_mmil.estimators import NestedClassifier
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.records.database import is_url, write_table
from keras_mmil.records.reading import columns_of
from keras_mmil.rules import Explainer

__all__ = ["predict"]

Row: TypeAlias = dict[str, Any]

_OWN = ("record", "prediction", "probability", "rules", "agrees", "because", "explanation")
_N_EXPLAINED = 64  # records at a time: explanations of many are large


def predict(
    run: PathLike,
    data: PathLike,
    *,
    by: str = "network",
    explain: bool = False,
    formal: bool = False,
    out: PathLike | None = None,
    form: str | None = None,
    keep: Sequence[str] = (),
    table: str | None = None,
) -> int:
    """Predict records, and write a line for each, as JSON or CSV; their number is returned.

    A line has "record", the number of the record from 0; its key; "prediction"; of a
    classifier "probability" for each class; and with `explain` "rules", the class by the rules;
    "agrees", whether the network has the same; "because", the rule that fired, in words; and
    "explanation", a text with the parts that decided.

    Args:
        run: folder of a finished `keras-mmil train`, or of a saved estimator.
        data: records like those that it was trained on; they need no target. File, folder or URL.
        by: "network", or of a classifier "rules": "prediction" is then their class, and there is no
            "probability".
        explain: whether to explain the predictions.
        formal: whether "because" and "explanation" are in formal syntax, instead of in words.
        out: file to write to; None for the standard output.
        form: "jsonl" or "csv"; None to choose by the ending of `out`, else "jsonl".
        keep: fields at the top of the records to write beside the predictions; by default the key
            by which records are called, if the schema has one: see `Schema.key`.
        table: name of a new table to write to, in the database of the data; None for a file.
    """
    if table is not None and not is_url(data):
        raise ValueError(f"Expected the URL of a database, for --table. Received: {data}")
    if formal and not explain:
        raise ValueError("Expected --explain, for --formal. Received: no --explain")
    if out is not None:
        check_not_input(out, data, "--out")
    estimator = load_estimator(run, with_rules=explain or by == "rules")
    if by == "rules" and not isinstance(estimator, NestedClassifier):
        raise ValueError(
            "Expected classes, for --by rules: the rules of numbers give ranges. "
            f"Received: {run}, which predicts {estimator.target_}"
        )
    reasons_of = partial(_explained, formal=formal) if explain else None
    rows = _rows(run, estimator, data, by, reasons_of, keep)
    if table is not None:
        return write_table(str(data), table, (dict(_flat(row)) for row in rows))
    as_csv = (form or ("csv" if Path(out or "").suffix == ".csv" else "jsonl")) == "csv"
    write = _write_csv if as_csv else _write_json
    if out is None:
        return write(sys.stdout, rows)
    with atomic_write(out) as part, open(part, "w", newline="", encoding="utf-8") as file:
        return write(file, rows)


def _rows(
    run: PathLike,
    estimator: NestedEstimator,
    data: PathLike,
    by: str,
    reasons_of: Callable[[Explainer, Tensors, Sequence[str]], Iterator[Row]] | None,
    keep: Sequence[str],
) -> Iterator[Row]:
    """A dict for each record."""
    schema, target = estimator.schema_, estimator.target_ or ()
    wanted, keep = schema.columns(without=target), list(dict.fromkeys(keep))
    first, is_key = 0, not keep
    pieces, to_read = itertools.tee(new_records(schema, data, **how_read(run)))
    tensors = schema.read_in_turn(to_read, without=target)
    for records in pieces:
        columns = columns_of(records, [*wanted, *keep, *schema.key])
        if is_key and not first:  # those of the first records, so that all lines have the same
            keep = [name for name in schema.key if name in columns and name not in _OWN]
        _check_fields(columns, wanted, () if is_key else keep, data)
        nothing = [None] * len(records)
        kept = [columns[name].to_pylist() if name in columns else nothing for name in keep]
        with users_errors():
            x = next(tensors)
        if by == "rules" and isinstance(estimator, NestedClassifier):
            found = {"prediction": estimator.predicted_by_rules(x)}
        else:
            found = estimator.predictions_of(np.asarray(estimator.model_.predict(x, verbose=0)))
        predictions = list(_predictions(estimator, found))
        reasons: Iterator[Row] = iter([{}] * len(records))
        if reasons_of is not None:
            reasons = reasons_of(estimator.explainer_, x, schema.names(records, first))
        for i, (prediction, reason) in enumerate(zip(predictions, reasons, strict=True)):
            fields = {name: values[i] for name, values in zip(keep, kept, strict=True)}
            yield {"record": first + i, **fields, **prediction, **reason}
        first += len(records)
    next(tensors, None)  # warns of what was not read


def _check_fields(
    columns: Collection[str], wanted: Collection[str], keep: Sequence[str], data: PathLike
) -> None:
    """Check that records have some fields that the network reads, and those to keep."""
    if wanted and not set(wanted) & set(columns):
        raise ValueError(
            f"Expected records with the fields {', '.join(wanted)}. "
            f"Received: {data} with {', '.join(columns)}"
        )
    for name in keep:
        if name in _OWN:
            raise ValueError(
                f"Expected other fields to keep than {', '.join(_OWN)}. Received: --keep {name}"
            )
        if name not in columns:
            raise ValueError(
                "Expected fields at the top of the records as --keep. "
                f"Received: {name}{did_you_mean(name, columns)}"
            )


def _predictions(estimator: NestedEstimator, found: Mapping[str, Array]) -> Iterator[Row]:
    if not isinstance(estimator, NestedClassifier):
        for number in found["prediction"]:
            yield {"prediction": float(str(number))}  # as few digits as tell float32s apart
        return
    names = [str(name) for name in estimator.classes_.tolist()]
    probabilities = found.get("probability", [None] * len(found["prediction"]))
    for label, of_label in zip(found["prediction"], probabilities, strict=True):
        chosen: Any = label.tolist() if isinstance(label, np.generic | np.ndarray) else label
        if estimator.is_multilabel_:
            chosen = [name for name, is_there in zip(names, chosen, strict=True) if is_there]
        row: Row = {"prediction": chosen}
        if of_label is not None:
            numbers = [float(str(p)) for p in np.asarray(of_label, np.float32)]
            row["probability"] = dict(zip(names, numbers, strict=True))
        yield row


def _explained(
    explainer: Explainer, x: Tensors, names: Sequence[str], formal: bool
) -> Iterator[Row]:
    """Why each record is in its class, by the rules."""
    for start in range(0, ragged.n_top_bags(x), _N_EXPLAINED):

        def called(position: tuple[int, ...], start: int = start) -> str:
            return names[start + position[0]]

        some = ragged.take(x, slice(start, start + _N_EXPLAINED))
        for each in explainer.explain(some, {"": called}):
            yield {
                "rules": each.top_bag.name,
                "agrees": each.agrees,
                "because": each.top_bag.clause if formal else str(each.top_bag.reason),
                "explanation": each.formal() if formal else str(each),
            }


def _write_json(file: TextIO, rows: Iterator[Row]) -> int:
    n = 0
    for n, row in enumerate(rows, 1):  # noqa: B007
        file.write(json.dumps(_to_json(row), ensure_ascii=False, allow_nan=False) + "\n")
    return n


def _write_csv(file: TextIO, rows: Iterator[Row]) -> int:
    writer, n = None, 0
    for n, row in enumerate(rows, 1):  # noqa: B007
        flat = dict(_flat(row))
        if writer is None:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(map(_cell, flat))
        writer.writerow(map(_cell, flat.values()))
    return n


def _flat(row: Row) -> Iterator[tuple[str, Any]]:
    """Cells of CSV, or columns: one for each probability; several labels as JSON."""
    for name, value in _to_json(row).items():
        if name == "probability":
            yield from ((f"probability.{each}", p) for each, p in value.items())
        elif isinstance(value, list | dict):
            yield name, json.dumps(value, ensure_ascii=False, allow_nan=False)
        else:
            yield name, value


def _cell(value: Any) -> Any:
    """A value as a cell: one line, with " / " for line breaks.

    A text that spreadsheets would take for a formula gets a leading apostrophe.
    """
    if not isinstance(value, str):
        return value
    text = " / ".join(line.strip() for line in value.splitlines())
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _to_json(value: Any) -> Any:
    """A value for JSON: bytes as strings, and None for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)

"""Predictions of own records, and why, in the words of the data."""

import csv
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import numpy as np
import pyarrow as pa

from keras_mmil import ragged
from keras_mmil._support.files import atomic_write
from keras_mmil._support.types import PathLike, Tensors
from keras_mmil.cli.own_files import check_not_input, did_you_mean, new_records, users_errors
from keras_mmil.cli.train_options import how_read
from keras_mmil.cli.trained_run import check_has_rules
from keras_mmil.estimators import NestedClassifier, NestedRegressor
from keras_mmil.estimators.saved import is_saved, load
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.readout.explanation import Explanation
from keras_mmil.records import Schema
from keras_mmil.records.columns import columns_of

__all__ = ["load_trained", "predict"]

Estimator: TypeAlias = NestedClassifier | NestedRegressor
Row: TypeAlias = dict[str, Any]

_OWN = ("record", "prediction", "probability", "rules", "agrees", "because", "explanation")
_N_EXPLAINED = 64  # records at a time: explanations of many are large


def predict(
    run: PathLike,
    data: PathLike,
    *,
    explain: bool = False,
    out: PathLike | None = None,
    form: str | None = None,
    keep: Sequence[str] = (),
) -> int:
    """Predict records, and write a line for each: as JSON, or as CSV.

    A row of CSV is one line, and no cell is a formula to a spreadsheet, see `_cell`.

    A line has "record", the number of the record from 0; the fields to keep; "prediction"; of a
    classifier "probability" for each class; and with `explain` "rules", what the rules say;
    "agrees", whether that is what the network says; "because", the rule that fired, in words; and
    "explanation", a text with the parts that decided.

    Args:
        run: folder of a finished `keras-mmil train`, or of a saved estimator.
        data: records as those that it was trained on, which need no target.
        explain: whether to say why.
        out: file to write to; None for the standard output.
        form: "jsonl" or "csv"; None for what the ending of `out` says, else "jsonl".
        keep: fields at the top of the records to write beside the predictions.

    Returns:
        The number of records.

    Raises:
        FileNotFoundError: if there is no such run, or no such data.
        ValueError: if the records hold nothing that the network reads, a field to keep is not
            there, rules are wanted that there are not, or `out` is a file of the data.
    """
    if out is not None:
        check_not_input(out, data, "--out")
    estimator = load_trained(run)
    if explain:
        check_has_rules(estimator, run)
    rows = _rows(run, estimator, data, explain, keep)
    as_csv = (form or ("csv" if Path(out or "").suffix == ".csv" else "jsonl")) == "csv"
    write = _write_csv if as_csv else _write_json
    if out is None:
        return write(sys.stdout, rows)
    with atomic_write(out) as part, open(part, "w", newline="", encoding="utf-8") as file:
        return write(file, rows)


def load_trained(run: PathLike) -> Estimator:
    """The estimator in a folder.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it is damaged.
    """
    if not is_saved(run):
        raise FileNotFoundError(
            "Expected the folder of a finished `keras-mmil train`, or of a saved estimator. "
            f"Received: {run}"
        )
    return load(run)


def _rows(
    run: PathLike, estimator: Estimator, data: PathLike, explain: bool, keep: Sequence[str]
) -> Iterator[Row]:
    """A dict for each record."""
    because = _reasons(estimator.explainer_) if explain else None
    fields = _Fields(estimator.schema_, estimator.target_ or (), data, keep)
    how = how_read(run)
    first = 0
    pieces, to_read = itertools.tee(new_records(estimator.schema_, data, **how))
    tensors = estimator.schema_.read_in_turn(to_read, without=estimator.target_ or ())
    for records in pieces:
        kept = fields.kept(records)
        with users_errors():
            x = next(tensors)
        found = estimator.predictions_of(np.asarray(estimator.model_.predict(x, verbose=0)))
        predictions = list(_predictions(estimator, found))
        reasons: Iterator[Row] = iter([{}] * len(records))
        if because is not None:
            reasons = _explained(estimator.explainer_, x, first, because)
        for i, (prediction, reason) in enumerate(zip(predictions, reasons, strict=True)):
            yield {"record": first + i, **kept[i], **prediction, **reason}
        first += len(records)
    next(tensors, None)  # warns of what was not read


def _predictions(estimator: Estimator, found: Mapping[str, Any]) -> Iterator[Row]:
    if isinstance(estimator, NestedRegressor):
        for number in found["prediction"]:
            yield {"prediction": float(str(number))}  # as few digits as tell float32s apart
        return
    names = [str(name) for name in estimator.classes_.tolist()]
    for label, probabilities in zip(found["prediction"], found["probability"], strict=True):
        chosen: Any = label.tolist() if isinstance(label, np.generic | np.ndarray) else label
        if estimator.is_multilabel_:
            chosen = [name for name, is_there in zip(names, chosen, strict=True) if is_there]
        numbers = [float(str(p)) for p in np.asarray(probabilities, np.float32)]
        yield {"prediction": chosen, "probability": dict(zip(names, numbers, strict=True))}


def _explained(
    explainer: Explainer,
    x: Tensors,
    first: int,
    because: Callable[[Explanation], str],
) -> Iterator[Row]:
    for start in range(0, ragged.n_top_bags(x), _N_EXPLAINED):

        def show(position: tuple[int, ...], start: int = start) -> str:
            return str(position[-1] + (first + start if len(position) == 1 else 0))

        for each in explainer.explain(ragged.take(x, slice(start, start + _N_EXPLAINED)), show):
            yield {
                "rules": each.top_bag.name,
                "agrees": each.agrees,
                "because": because(each),
                "explanation": str(each),
            }


def _reasons(explainer: Explainer) -> Callable[[Explanation], str]:
    """A function from an explanation to the rule that fired on the record, in words."""
    of_rule = {id(rule): text for rule, text in explainer.rules_.reasons()}
    return lambda explanation: of_rule[id(explanation.top_bag.rule)]


class _Fields:
    """The fields of new records: those that are passed on, beside some that the network reads."""

    def __init__(
        self, schema: Schema, target: str | Sequence[str], data: PathLike, keep: Sequence[str]
    ) -> None:
        self._wanted = schema.columns(without=target)
        self._data, self._keep = data, list(dict.fromkeys(keep))

    def kept(self, records: pa.Array) -> list[Row]:
        """The fields to keep of some records.

        Raises:
            ValueError: if they are not there, or nothing is that the network reads.
        """
        columns = columns_of(records, [*self._wanted, *self._keep])
        if self._wanted and not columns.keys() & set(self._wanted):
            raise ValueError(
                f"Expected records with the fields {', '.join(self._wanted)}. "
                f"Received: {self._data} with {', '.join(columns)}"
            )
        for name in self._keep:
            if name in _OWN:
                raise ValueError(
                    f"Expected other fields to keep than {', '.join(_OWN)}. Received: --keep {name}"
                )
            if name not in columns:
                raise ValueError(
                    "Expected fields at the top of the records as --keep. "
                    f"Received: {name}{did_you_mean(name, columns)}"
                )
        kept = {name: columns[name].to_pylist() for name in self._keep}
        return [{name: kept[name][i] for name in self._keep} for i in range(len(records))]


def _write_json(file: TextIO, rows: Iterator[Row]) -> int:
    n = 0
    for n, row in enumerate(rows, 1):  # noqa: B007
        file.write(json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n")
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
    """Cells: a column for each probability; several labels as JSON."""
    for name, value in _plain(row).items():
        if name == "probability":
            yield from ((f"probability.{each}", p) for each, p in value.items())
        elif isinstance(value, list | dict):
            yield name, json.dumps(value, ensure_ascii=False, allow_nan=False)
        else:
            yield name, value


def _cell(value: Any) -> Any:
    """A value as a cell: a text in one line, its breaks as " / ".

    A text that spreadsheets would take for a formula gets an apostrophe before it.
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


def _plain(value: Any) -> Any:
    """A value as JSON knows it: bytes are texts, and numbers that are not finite are missing."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)

"""Rules and networks of runs, for other programs."""

import sys
import warnings
from pathlib import Path

import keras
import pyarrow as pa

from keras_mmil._support.archives import load_network
from keras_mmil._support.files import atomic_folder, atomic_write
from keras_mmil._support.types import PathLike
from keras_mmil.cli.own_files import check_not_input, new_records, users_errors
from keras_mmil.cli.train_options import how_read
from keras_mmil.cli.trained_run import check_has_rules
from keras_mmil.estimators import NestedClassifier, NestedRegressor
from keras_mmil.estimators.saved import is_saved, load
from keras_mmil.interpretation import Explainer
from keras_mmil.records.keyed import joined

__all__ = ["export"]

_SAVED_MODEL, _PROLOG = "savedmodel", "prolog"


def export(
    run: PathLike,
    to: str,
    out: PathLike | None = None,
    *,
    data: PathLike | None = None,
    labels: PathLike | None = None,
) -> None:
    """Write the rules, or the network, of a run in a form that other programs read.

    Args:
        run: folder of a finished `keras-mmil train` or `run`, or of a saved estimator.
        to: "sql", "prolog", "python" or "json" for the rules; "savedmodel" for the network.
        out: file to write to, or for a SavedModel a new folder; None for the standard output.
        data: own records that the rules are to be applied to; None for none.
        labels: Parquet file for the table of these records that the rules read. In Prolog they are
            facts of the program, too.

    Raises:
        FileExistsError: if there is a folder already.
        FileNotFoundError: if there is no such run, or no such data.
        ValueError: if files are damaged, there are no rules to export, the run is not on
            records, or a file of the data would be replaced.
    """
    estimator = load(run) if is_saved(run) else None
    if estimator is None:
        model, explainer = _of_experiment(run)
    else:
        model = estimator.model_
    if to == _SAVED_MODEL:
        assert out is not None  # the command line asks for it
        if isinstance(estimator, NestedRegressor) and estimator.offset_:
            warnings.warn(
                f"The outputs of the network are numbers minus {estimator.offset_!r}, as float32 "
                "would not tell them apart.",
                stacklevel=2,
            )
        _save_model(model, Path(out))
        return
    if estimator is not None:
        check_has_rules(estimator, run)
        explainer = estimator.explainer_
    table = None
    if data is not None:
        for path, flag in ((out, "--out"), (labels, "--labels")):
            if path is not None:
                check_not_input(path, data, flag)
        if estimator is None:
            raise ValueError(f"Expected a run on own records, for --data. Received: {run}")
        table = _table(run, estimator, data, labels)
    rules = explainer.rules_
    text = {
        "sql": rules.to_sql,
        "prolog": lambda: rules.to_prolog(table),
        "python": rules.to_python,
        "json": rules.to_json,
    }[to]()
    text = text if text.endswith("\n") else f"{text}\n"
    if out is None:
        sys.stdout.write(text)
        return
    with atomic_write(out) as part:
        part.write_text(text, encoding="utf-8")


def _of_experiment(run: PathLike) -> tuple[keras.Model, Explainer]:
    """The network and the rules of a run of an experiment."""
    path = Path(run)
    if not ((path / "model.keras").is_file() and (path / "rules").is_dir()):
        raise FileNotFoundError(
            "Expected the folder of a finished `keras-mmil train` or `run` with rules. "
            f"Received: {run}"
        )
    model = load_network(path / "model.keras")
    return model, Explainer.load(path / "rules", model)


def _table(
    run: PathLike,
    estimator: NestedClassifier | NestedRegressor,
    data: PathLike,
    labels: PathLike | None,
) -> pa.Table:
    """The table that rules read, of own records."""
    records = joined(list(new_records(estimator.schema_, data, **how_read(run))), "")
    with users_errors():
        x = estimator.schema_.read(records, without=estimator.target_ or ())
    return estimator.explainer_.labels_table(x, labels)


def _save_model(model: keras.Model, out: Path) -> None:
    """Write a SavedModel to a folder that is whole or absent."""
    if out.exists():
        raise FileExistsError(f"Expected a new folder for a SavedModel. Received: --out {out}")
    with atomic_folder(out) as part:
        model.export(part, verbose=False)

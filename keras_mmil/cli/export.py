"""Rules and networks of runs, for other programs; and explanations of texts."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import keras
import pyarrow as pa

from keras_mmil._support.archives import load_network
from keras_mmil._support.files import atomic_folder, atomic_write
from keras_mmil._support.types import PathLike
from keras_mmil.cli.finished_run import check_has_rules
from keras_mmil.cli.own_files import check_not_input, new_records, users_errors
from keras_mmil.cli.run_folder import how_read, read_settings
from keras_mmil.estimators import NestedRegressor
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.estimators.storage import is_saved
from keras_mmil.records.to_arrow import joined
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.texts import side_by_side

__all__ = ["explain_texts", "export"]

_SAVED_MODEL, _PROLOG = "savedmodel", "prolog"


def export(
    run: PathLike,
    to: str,
    out: PathLike | None = None,
    *,
    dialect: str | None = None,
    data: PathLike | None = None,
    labels: PathLike | None = None,
) -> None:
    """Write the rules of a run, or its network, in a form that other programs read.

    The run may be the folder of an estimator, too. Without `out`, rules go to the standard output.
    The table of labels that rules read of `data` is written to `labels`; in Prolog its rows are
    also facts of the program. Without it, SQL reads linked tables as they are in a dialect, and
    Python and JavaScript read records, wherever the run is on such.
    """
    estimator = NestedEstimator.load(run) if is_saved(run) else None
    if estimator is None:
        model, explainer = _of_experiment(run)
    else:
        model = estimator.model_
    if to == _SAVED_MODEL:
        assert out is not None  # the command line requires it
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
    rules = explainer.rules_ if estimator is None else estimator.rules_
    reads_labels = labels is not None
    text = {
        "sql": lambda: rules.to_sql(reads_labels, dialect or "sqlite"),
        "prolog": lambda: rules.to_prolog(table),
        "python": lambda: rules.to_python(reads_labels),
        "javascript": rules.to_javascript,
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
    estimator: NestedEstimator,
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


def explain_texts(runs: Sequence[PathLike], texts: Sequence[str], *, form: str, color: bool) -> str:
    """Explain texts by one run of an experiment on texts, or by several side by side.

    The form is "terminal", "markdown" or "html"; `color` is for bold and dim on the terminal.
    """
    by_run = [_explainer_of_texts(run).explain(texts) for run in runs]
    titles = [read_settings(run)["experiment"] for run in runs]
    if form == "html":
        tables = "\n".join(side_by_side(row, titles) for row in zip(*by_run, strict=True))
        return f'<!doctype html>\n<meta charset="utf-8">\n<title>Explanations</title>\n{tables}'
    shown = []
    for row in zip(*by_run, strict=True):
        for title, explanation in zip(titles, row, strict=True):
            text = explanation.to_markdown() if form == "markdown" else explanation.to_text(color)
            heading = f"### {title}" if form == "markdown" else f"--- {title}"
            shown.append(f"{heading}\n\n{text}" if len(runs) > 1 else text)
    return "\n\n".join(shown)


def _explainer_of_texts(run: PathLike) -> Explainer:
    path = Path(run) / "text_model.keras"
    if not path.is_file():
        raise FileNotFoundError(
            "Expected the folder of a finished run on texts, such as `keras-mmil run imdb` makes. "
            f"Received: {run}"
        )
    return Explainer.load(Path(run) / "rules", load_network(path))

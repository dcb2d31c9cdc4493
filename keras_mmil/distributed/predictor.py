"""A saved model, applied to batches of Arrow: all that an engine of batch work needs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import tensorflow as tf

from keras_mmil._support.archives import load_network
from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Array, PathLike
from keras_mmil.batches import in_order
from keras_mmil.distributed.columns import InputColumns
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.estimators.storage import STATE, is_saved
from keras_mmil.model.checks import InputChecks
from keras_mmil.model.run import predict_batches
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.explanation import Explanation

__all__ = ["Predictor", "paths_of"]

_MODEL, _RULES = "model.keras", "rules"  # in a folder
_EXPLANATION = ("label", "network", "agrees", "because", "explanation")


class Predictor:
    """A saved model that maps batches of rows to batches of rows, one for each.

    It needs no engine, and any engine can use it: Ray, Spark, DuckDB, or a loop.

    Args:
        model_path: a `.keras` file; the folder of a saved `NestedClassifier` or `NestedRegressor`,
            whose columns are the fields of the records; or the folder of a `keras-mmil run`.
        explainer: folder of a saved `Explainer`, to explain; None for the rules in the folder of an
            estimator or a run.
        label: of an estimator of several labels, the one whose rules explain.
        keep: columns that are passed on, such as the key of a row.
        batch_size: number of top-bags that the network computes at once.

    Attributes:
        keep: the columns that are passed on, a list.
        model: the network.

    Raises:
        FileNotFoundError: if there is no such model.
        ValueError: if it is damaged, or `keep` names a column twice.

    Example:

    >>> predictor = keras_mmil.distributed.Predictor("model.keras", keep=["id"])
    >>> predictor.predict_batch(batch)  # a pyarrow.RecordBatch
    """

    def __init__(
        self,
        model_path: PathLike,
        *,
        explainer: PathLike | None = None,
        label: str | None = None,
        keep: Sequence[str] = (),
        batch_size: int = 64,
    ) -> None:
        self._batch_size = positive_int("batch_size", batch_size)
        self.keep = [keep] if isinstance(keep, str) else list(keep)
        if len(set(self.keep)) < len(self.keep):
            raise ValueError(f"Expected different columns to keep. Received: {keep=}")
        self._model_path, self._rules, self._label = Path(model_path), explainer, label
        self._estimator: NestedEstimator | None = None
        if is_saved(model_path):
            self._estimator = NestedEstimator.load(model_path)
            self.model = self._estimator.model_
        else:
            self.model = self._load_network()
            self._input_columns = InputColumns(self.model.input)
        self._checks = InputChecks(self.model)

    def _load_network(self) -> keras.Model:
        if self._label is not None:
            raise ValueError(
                f"Expected no label, which only estimators have. Received: label={self._label!r}"
            )
        file = self._model_path / _MODEL if self._model_path.is_dir() else self._model_path
        if not file.is_file():
            raise FileNotFoundError(
                "Expected a .keras file, the folder of a saved estimator, or that of a run. "
                f"Received: {self._model_path}"
            )
        return load_network(file)

    @cached_property
    def explainer(self) -> Explainer:
        """The rules, loaded on the first access.

        Raises:
            FileNotFoundError, ValueError: if there are none, or they are of another model.
        """
        rules = self._rules
        if rules is None and self._estimator is not None:
            return self._estimator.explainer_of(self._label)
        if rules is None and (self._model_path / _RULES).is_dir():
            rules = self._model_path / _RULES
        if rules is None:
            raise ValueError(
                "Expected the folder of a saved explainer: explainer=…, as only the folders of "
                f"estimators and runs have rules. Received: {self._model_path}"
            )
        return Explainer.load(rules, self.model)

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns that are read: those of the model, and those to keep.

        Raises:
            ValueError: if some are missing.
        """
        if missing := [name for name in self.keep if name not in schema.names]:
            raise ValueError(
                f"Expected the columns to keep, {self.keep}. "
                f"Received: columns {schema.names}, without {missing}"
            )
        if self._estimator is None:
            wanted = list(self._input_columns.names(schema).values())
        else:
            wanted = self._estimator.schema_.columns(without=self._estimator.target_ or ())
        if missing := [name for name in wanted if name not in schema.names]:
            raise ValueError(
                f"Expected columns of the fields {wanted} of the records. "
                f"Received: columns {schema.names}, without {missing}"
            )
        return list(dict.fromkeys([*wanted, *self.keep]))

    def _read(self, batch: pa.RecordBatch) -> Any:
        """Rows as inputs of the network."""
        if self._estimator is None:
            return self._input_columns.tensors(batch)
        return self._estimator.schema_.read(batch, without=self._estimator.target_ or ())

    def predict_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The outputs of the network for each row.

        Args:
            batch: rows.

        Returns:
            The columns to keep, and "prediction": numbers where the model has one unit, else lists
            of them; of a model of several outputs "prediction/NAME" for each. Of a classifier of
            records "prediction", the class, or for each label whether it applies, and
            "probability", lists of one number for each class or label.

        Raises:
            TypeError, ValueError: if columns are missing, or do not fit the model.
        """
        self.columns(batch.schema)
        if not len(batch):
            raise ValueError("Expected at least one row. Received: an empty batch")
        x = self._checks(self._read(batch))
        outputs = predict_batches(self.model, in_order(x, self._batch_size))
        if self._estimator is not None:
            results = self._estimator.predictions_of(outputs)
        elif isinstance(outputs, Mapping):
            results = {f"prediction/{name}": each for name, each in outputs.items()}
        elif isinstance(outputs, list | tuple):
            pairs = zip(self.model.output_names, outputs, strict=True)
            results = {f"prediction/{name}": each for name, each in pairs}
        else:
            results = {"prediction": outputs}
        return self._with_kept(batch, {name: _column(each) for name, each in results.items()})

    def explain_batch(self, batch: pa.RecordBatch, first: int = 0) -> pa.RecordBatch:
        """Why each row is in its class.

        Args:
            batch: rows.
            first: number of the first row, for the names of top-bags in explanations.

        Returns:
            The columns to keep, and "label", the class by the rules; "network", that of the
            network; "agrees", whether these are the same; "because", the rule that
            decided, in words; and "explanation", a text.

        Raises:
            TypeError, ValueError: as `predict_batch`; and if there are no rules.
        """
        self.columns(batch.schema)
        explanations = list(self._explanations(batch, first))
        columns = [
            pa.array([each.top_bag.name for each in explanations], pa.string()),
            pa.array([each.network_name for each in explanations], pa.string()),
            pa.array([each.agrees for each in explanations], pa.bool_()),
            pa.array([str(each.top_bag.reason) for each in explanations], pa.string()),
            pa.array([str(each) for each in explanations], pa.string()),
        ]
        return self._with_kept(batch, dict(zip(_EXPLANATION, columns, strict=True)))

    def _explanations(self, batch: pa.RecordBatch, first: int) -> Iterator[Explanation]:
        """A few at a time: explanations of many top-bags are large."""
        for start in range(0, len(batch), self._batch_size):

            def show(position: tuple[int, ...], start: int = start) -> str:
                (index,) = position[-1:]
                return str(index + first + start if len(position) == 1 else index)

            some = batch.slice(start, self._batch_size)
            yield from self.explainer.explain(self._read(some), show)

    def _with_kept(self, batch: pa.RecordBatch, results: dict[str, pa.Array]) -> pa.RecordBatch:
        if both := results.keys() & set(self.keep):
            raise ValueError(
                f"Expected other columns to keep than {list(results)}. Received: {sorted(both)}"
            )
        kept = {name: batch.column(name) for name in self.keep}
        return pa.RecordBatch.from_pydict(kept | results)


def _column(x: Any) -> pa.Array:
    """Outputs that lead with the rows: for each a number or string, or a list."""
    is_single = not isinstance(x, tf.RaggedTensor) and np.shape(x)[1:] == (1,)
    return _array(np.asarray(x)[:, 0] if is_single else x)


def _array(x: Any) -> pa.Array:
    if isinstance(x, tf.RaggedTensor):
        return _lists(_array(x.values), x.row_splits.numpy())
    x = np.asarray(x)
    if x.ndim > 1:
        return _lists(_array(x.reshape(-1, *x.shape[2:])), np.arange(len(x) + 1) * x.shape[1])
    return pa.array(x.tolist(), pa.string()) if x.dtype.kind in "US" else pa.array(x)


def _lists(values: pa.Array, splits: Array) -> pa.Array:
    # The one type of lists that all engines know.
    return pa.ListArray.from_arrays(pa.array(splits, pa.int32()), values)


def paths_of(path: PathLike, rules: PathLike | None = None, with_rules: bool = True) -> list[Path]:
    """The files that `Predictor` reads, always in the same order."""
    path = Path(path)
    paths = [path]
    if path.is_dir():
        # The first holds the checksums of all files of an estimator, also of its rules.
        paths = [path / name for name in (STATE, _MODEL)]
    if with_rules:
        paths += sorted(Path(rules if rules is not None else path / _RULES).rglob("*"))
    return [each for each in paths if each.is_file()]

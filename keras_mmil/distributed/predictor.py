"""Predictions and explanations of rows of Arrow: all that an engine of batch work needs."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Array, PathLike
from keras_mmil.distributed.served import load
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.explain.explanation import Explanation

__all__ = ["Predictor"]

_EXPLANATION = ("label", "network", "agrees", "rule", "explanation")


class Predictor:
    """A saved model, which maps batches of rows to batches of rows, one for each.

    It needs no engine, and any engine can use it: Ray, Spark, DuckDB, or a loop.

    Args:
        model_path: a `.keras` file; the folder of a saved `NestedClassifier` or `NestedRegressor`,
            whose columns are the fields of the records; or the folder of a `keras-mmil run`.
        explainer: folder of a saved `Explainer`, to explain; None for the rules that a folder of an
            estimator or a run holds.
        label: of an estimator of several labels, the one whose rules explain.
        keep: columns that are passed on, such as the key of a row.
        batch_size: number of top-bags that the network computes at once.

    Attributes:
        keep: the columns that are passed on, a list.

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
        self._served = load(model_path, explainer, label)

    @property
    def explainer(self) -> Explainer:
        """The rules, loaded when they are first asked for.

        Raises:
            FileNotFoundError, ValueError: if there are none, or of another model.
        """
        return self._served.explainer

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns that are read of rows: those of the model, and those to keep.

        Raises:
            ValueError: if some are not there.
        """
        if missing := [name for name in self.keep if name not in schema.names]:
            raise ValueError(
                f"Expected the columns to keep, {self.keep}. "
                f"Received: columns {schema.names}, without {missing}"
            )
        return list(dict.fromkeys([*self._served.columns(schema), *self.keep]))

    def predict_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The outputs of the network for each row.

        Args:
            batch: rows.

        Returns:
            The columns to keep, and "prediction": numbers where the model has one unit, else lists
            of them; of a model of several outputs "prediction/NAME" for each. Of a classifier of
            records "prediction", the class, or for each label whether it is there, and
            "probability", lists of one number for each.

        Raises:
            TypeError, ValueError: if columns are missing, or do not fit the model.
        """
        self.columns(batch.schema)
        if not len(batch):
            raise ValueError("Expected at least one row. Received: an empty batch")
        outputs = self._served.predict(batch, self._batch_size)
        return self._with_kept(batch, {name: _column(x) for name, x in outputs.items()})

    def explain_batch(self, batch: pa.RecordBatch, first: int = 0) -> pa.RecordBatch:
        """Why each row is of its class.

        Args:
            batch: rows.
            first: number of the first of them, which explanations name.

        Returns:
            The columns to keep, and "label", the class by the rules; "network", that of the
            network; "agrees", whether these are the same; "rule", the one that decided; and
            "explanation", a text.

        Raises:
            TypeError, ValueError: as `predict_batch`; and if there are no rules.
        """
        self.columns(batch.schema)
        found = list(self._explanations(batch, first))
        names = [each.top_bag.name for each in found], [each.network_name for each in found]
        texts = [each.top_bag.clause for each in found], [str(each) for each in found]
        arrays = [
            *(pa.array(each, pa.string()) for each in names),
            pa.array([each.agrees for each in found], pa.bool_()),
            *(pa.array(each, pa.string()) for each in texts),
        ]
        return self._with_kept(batch, dict(zip(_EXPLANATION, arrays, strict=True)))

    def _explanations(self, batch: pa.RecordBatch, first: int) -> Iterator[Explanation]:
        """A few at a time: those of many top-bags are large."""
        for start in range(0, len(batch), self._batch_size):

            def show(position: tuple[int, ...], start: int = start) -> str:
                (index,) = position[-1:]
                return str(index + first + start if len(position) == 1 else index)

            some = batch.slice(start, self._batch_size)
            yield from self.explainer.explain(self._served.read(some), show)

    def _with_kept(self, batch: pa.RecordBatch, found: dict[str, pa.Array]) -> pa.RecordBatch:
        if both := found.keys() & set(self.keep):
            raise ValueError(
                f"Expected other columns to keep than {list(found)}. Received: {sorted(both)}"
            )
        kept = {name: batch.column(name) for name in self.keep}
        return pa.RecordBatch.from_pydict(kept | found)


def _column(x: Any) -> pa.Array:
    """Outputs that lead with the rows: for each a number or text, or a list."""
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
    # Lists of the one type that all engines know.
    return pa.ListArray.from_arrays(pa.array(splits, pa.int32()), values)

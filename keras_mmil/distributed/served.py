"""What was saved of a model: a `.keras` file, an estimator, or a run, loaded to be applied."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import keras
import pyarrow as pa

from keras_mmil._support.archives import load_network
from keras_mmil._support.types import Array, PathLike
from keras_mmil.batches import in_order
from keras_mmil.distributed.columns import InputColumns
from keras_mmil.estimators import saved
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.interpretation import Explainer
from keras_mmil.model.checks import InputChecks
from keras_mmil.model.run import predict_batches

__all__ = ["Served", "load", "paths_of"]

_MODEL, _RULES = "model.keras", "rules"  # in a folder
_ESTIMATOR = "estimator.json"


class Served(Protocol):
    """A network, and what is beside it.

    Attributes:
        model: the network.
    """

    model: keras.Model

    @property
    def explainer(self) -> Explainer:
        """Its rules, loaded when they are first asked for.

        Raises:
            FileNotFoundError, ValueError: if there are none, or of another model.
        """

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns that it reads.

        Raises:
            ValueError: if some are missing.
        """

    def read(self, batch: pa.RecordBatch) -> Any:
        """Rows as top-bags of the network."""

    def predict(self, batch: pa.RecordBatch, batch_size: int) -> dict[str, Any]:
        """What is predicted of rows, arrays that lead with them, by the name of their column."""


class _Network:
    """A functional model of a file."""

    def __init__(self, model: keras.Model, path: Path, rules: PathLike | None) -> None:
        self.model, self._folder, self._rules = model, path, rules
        self._columns, self._checks = InputColumns(model.input), InputChecks(model)

    @cached_property
    def explainer(self) -> Explainer:
        rules = self._rules
        if rules is None and (self._folder / _RULES).is_dir():
            rules = self._folder / _RULES
        if rules is None:
            raise ValueError(
                "Expected the folder of a saved explainer: explainer=…, as only the folders of "
                f"estimators and runs have rules. Received: {self._folder}"
            )
        return Explainer.load(rules, self.model)

    def columns(self, schema: pa.Schema) -> list[str]:
        return list(self._columns.names(schema).values())

    def read(self, batch: pa.RecordBatch) -> Any:
        return self._columns.tensors(batch)

    def predict(self, batch: pa.RecordBatch, batch_size: int) -> dict[str, Any]:
        x = self._checks(self.read(batch))
        outputs = predict_batches(self.model, in_order(x, batch_size))
        if not isinstance(outputs, list | tuple | Mapping):
            return {"prediction": outputs}
        names = list(outputs) if isinstance(outputs, Mapping) else self.model.output_names
        flat = outputs.values() if isinstance(outputs, Mapping) else outputs
        return {f"prediction/{name}": each for name, each in zip(names, flat, strict=True)}


class _Estimator:
    """An estimator of a folder, which reads records: their fields are columns."""

    def __init__(
        self, estimator: NestedEstimator, rules: PathLike | None, label: str | None
    ) -> None:
        self.model, self._rules, self._label = estimator.model_, rules, label
        self._estimator, self._schema = estimator, estimator.schema_
        self._without = estimator.target_ or ()
        self._checks = InputChecks(self.model)

    @cached_property
    def explainer(self) -> Explainer:
        if self._rules is None:
            return self._estimator.explainer_of(self._label)
        return Explainer.load(self._rules, self.model)

    def columns(self, schema: pa.Schema) -> list[str]:
        wanted = self._schema.columns(without=self._without)
        if missing := [name for name in wanted if name not in schema.names]:
            raise ValueError(
                f"Expected columns of the fields {wanted} of the records. "
                f"Received: columns {schema.names}, without {missing}"
            )
        return wanted

    def read(self, batch: pa.RecordBatch) -> Any:
        return self._schema.read(batch, without=self._without)

    def predict(self, batch: pa.RecordBatch, batch_size: int) -> dict[str, Array]:
        x = self._checks(self.read(batch))
        outputs = predict_batches(self.model, in_order(x, batch_size))
        return self._estimator.predictions_of(outputs)


def load(path: PathLike, rules: PathLike | None = None, label: str | None = None) -> Served:
    """Load what was saved.

    Args:
        path: a `.keras` file; the folder of a saved estimator; or that of a run.
        rules: folder of a saved explainer; None for the rules that the folder has.
        label: of an estimator of several labels, the one whose rules are wanted.

    Raises:
        FileNotFoundError: if there is none of these.
        ValueError: if it is damaged.
    """
    path = Path(path)
    if saved.is_saved(path):
        return _Estimator(saved.load(path), rules, label)
    if label is not None:
        raise ValueError(f"Expected no label, which only estimators have. Received: {label=}")
    file = path / _MODEL if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(
            "Expected a .keras file, the folder of a saved estimator, or that of a run. "
            f"Received: {path}"
        )
    return _Network(load_network(file), path, rules)


def paths_of(path: PathLike, rules: PathLike | None = None, with_rules: bool = True) -> list[Path]:
    """The files that `load` reads, in an order that is always the same.

    Args:
        path, rules: as of `load`.
        with_rules: whether the rules count.
    """
    path = Path(path)
    found = [path]
    if path.is_dir():
        # The one holds the checksums of all files of an estimator, also of its rules.
        found = [path / name for name in (_ESTIMATOR, _MODEL)]
    if with_rules:
        found += sorted(Path(rules if rules is not None else path / _RULES).rglob("*"))
    return [each for each in found if each.is_file()]

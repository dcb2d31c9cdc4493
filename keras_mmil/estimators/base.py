"""What both estimators share."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from keras_mmil import ragged
from keras_mmil._support.checks import is_int
from keras_mmil._support.types import Array, Bools, Floats, Ints, PathLike
from keras_mmil.estimators import _storage
from keras_mmil.estimators._given import Target, labels_of, path_of, weights_of
from keras_mmil.estimators._kept import Kept
from keras_mmil.estimators._rules import Interpreted
from keras_mmil.estimators._training import divided, trained
from keras_mmil.model.seeds import alone, seeded
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels, records_model
from keras_mmil.records.paths import place

__all__ = ["NestedEstimator"]


class NestedEstimator(Interpreted):
    """Base of `NestedClassifier` and `NestedRegressor`: see there."""

    fitted: ClassVar[tuple[str, ...]] = ()  # what a child has of the labels, for files

    def __init__(
        self,
        *,
        schema: Schema | None = None,
        units: int = 32,
        activation: str = "relu",
        aggregation: Any = ("max", "mean"),
        dropout: float = 0.0,
        member_dropout: float = 0.0,
        weight_decay: float = 0.0,
        min_count: int = 2,
        n_edges: int = 0,
        compress: Any = "auto",
        learning_rate: Any = 1e-3,
        epochs: int = 100,
        batch_size: int = 32,
        validation_split: float = 0.1,
        patience: int | None = 10,
        explainer: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        keep_data: bool = False,
        verbose: int = 0,
    ) -> None:
        self.schema = schema
        self.units = units
        self.activation = activation
        self.aggregation = aggregation
        self.dropout = dropout
        self.member_dropout = member_dropout
        self.weight_decay = weight_decay
        self.min_count = min_count
        self.n_edges = n_edges
        self.compress = compress
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.validation_split = validation_split
        self.patience = patience
        self.explainer = explainer
        self.random_state = random_state
        self.keep_data = keep_data
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Target,
        sample_weight: npt.ArrayLike | None = None,
        *,
        validation_data: tuple[Any, ...] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        folder: PathLike | None = None,
        resume: bool = False,
    ) -> Self:
        """Infer the schema, build the network, and train it.

        Threads train one after the other, as the random numbers of a process are one sequence;
        for trainings side by side use processes. With an int as `random_state`, what the program
        draws at random elsewhere stays as it is.

        Args:
            X: records: a list of dicts, a path, a DataFrame, or whatever `Schema.infer` takes.
            y: a label for each record, as an array; or the path of a field of the records, which
                then is not read as one of their parts; or a tuple of several paths. Records
                without a label (None, NaN) are left out, with a warning of how many.
            sample_weight: of the records, numbers ≥ 0, [records]; None for equal ones. They weigh
                the loss, also where training stops by it. Rules are learned of all records alike.
            validation_data: further records to stop by and to choose rules on, `(X, y)` or
                `(X, y, sample_weight)`, in place of a share of the others. The schema is not
                inferred from them.
            callbacks: as of `keras.Model.fit`.
            folder: for checkpoints, see `training.fit_resumable`; None for none.
            resume: whether to continue the training that was interrupted in the folder, with the
                same data and parameters.

        Raises:
            KeyError, TypeError, ValueError: as `Schema.infer`, `Schema.read` and `records_model`;
                and if labels or weights are not as many as the records, all weights are 0, of
                those to train on or of those held out, or `random_state` is no int for a folder.
        """
        if folder is not None and not is_int(self.random_state):
            raise ValueError(
                "Expected random_state to be an int, for a training that may be resumed. "
                f"Received: random_state={self.random_state!r}"
            )
        X = list(X) if isinstance(X, Iterator) else X
        self.target_: str | list[str] | None = path_of(y)
        self.schema_ = Schema.infer(X) if self.schema is None else copy.deepcopy(self.schema)
        if self.target_ is not None:
            self._choose_kinds()
            self._drop_other_types()
        records = self._labelled(X, y, sample_weight)
        n_given = len(records[1])
        if validation_data is not None:
            records = ragged.concat([records, self._labelled(*validation_data)])
        x, given, given_weights = records
        labels, targets = self._encode(given, given_weights)
        weights = self._weigh(targets, given_weights)
        seed = int(check_random_state(self.random_state).randint(2**31))
        parts: tuple[Ints, Ints | None] = np.arange(n_given), np.arange(n_given, len(given))
        if validation_data is None:
            by_class = labels.kind == "classes"
            parts = divided(targets, self.validation_split, seed, by_class=by_class)
        for name, part in zip(("to train on", "that are held out"), parts, strict=True):
            if part is not None and not weights[part].any():
                raise ValueError(
                    f"Expected positive weights of some of the records {name}. "
                    f"Received: weights of {len(part)} that are all 0"
                )
        data = ragged.take((x, targets, weights), parts[0])
        validation = parts[1] if parts[1] is None else ragged.take((x, targets, weights), parts[1])
        with alone if self.random_state is None else seeded(seed):
            self.model_, self.history_ = trained(
                lambda: self._build(labels),
                data,
                validation,
                epochs=self.epochs,
                batch_size=self.batch_size,
                patience=self.patience,
                seed=seed,
                callbacks=callbacks,
                folder=folder,
                resume=resume,
                verbose=self.verbose,
            )
        self._kept = Kept.of(data[0]), None if validation is None else Kept.of(validation[0])
        self._explainers = {}
        return self

    def predictions_of(self, outputs: Array) -> dict[str, Array]:
        """All that is predicted of records, by name: "prediction", what `predict` gives.

        Args:
            outputs: of the network for these records, [records, n].
        """
        return {"prediction": self._decide(outputs)}

    def save(self, folder: PathLike, *, overwrite: bool = False) -> None:
        """Write the estimator to a folder: its schema and its parameters as JSON, its network as
        Keras does, and its rules, if it has been asked for them. No records are written.

        Args:
            folder: new, empty, or with a saved estimator, which is replaced.
            overwrite: whether to write to a folder that holds something else, too. What is there
                stays, but for files of the same names.

        Raises:
            NotFittedError: before `fit`.
            FileExistsError: if the folder holds something else.
            ValueError: if a parameter is an object that JSON does not know.
        """
        check_is_fitted(self, "model_")
        _storage.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: PathLike) -> Self:
        """Read an estimator that was saved.

        Raises:
            ValueError: if the folder holds none of this class.
        """
        return _storage.load(cls, folder)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.input_tags.allow_nan = True
        tags.no_validation = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags

    def _labelled(
        self, X: Any, y: Target, sample_weight: npt.ArrayLike | None = None
    ) -> tuple[Any, Array, Floats]:
        """Records as the network takes them, their labels as they are given, and weights.

        Those without a label are left out.
        """
        if self.target_ is not None:
            if path_of(y) != self.target_:
                raise ValueError(
                    f"Expected the same path for all records, {self.target_!r}. Received: {y!r}"
                )
            x, given, are_there = self.schema_.read_labelled(X, self.target_)
            return x, given, _weights_of_some(sample_weight, are_there)
        return self._with_labels(self.schema_.read(X), y, sample_weight)

    def _with_labels(self, x: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Floats]:
        """Those of the records that have a label, with an array of labels: see `_labelled`."""
        given, are_there = labels_of(y, ragged.n_top_bags(x))
        weights = _weights_of_some(sample_weight, are_there)
        return ragged.take(x, np.flatnonzero(are_there)), given, weights

    def _read(self, X: Any) -> Any:
        """Records as the network takes them."""
        check_is_fitted(self, "model_")
        X = list(X) if isinstance(X, Iterator) else X
        return self.schema_.read(X, without=self.target_ or ())

    def _predicted(self, X: Any) -> Array:
        return self._computed(self._read(X))

    def _computed(self, x: Any) -> Array:
        """The outputs of the network for records as it takes them; also for none."""
        if not ragged.n_top_bags(x):
            return np.zeros((0, self.model_.output_shape[-1]), self.model_.output.dtype)
        return np.asarray(self.model_.predict(x, verbose=0))

    def _decide(self, outputs: Array) -> Array:
        """What is predicted, by the outputs of the network."""
        raise NotImplementedError

    def _scored(self, X: Any, y: Target, sample_weight: Any) -> tuple[Array, Array, Floats]:
        """True labels, predicted ones, and weights, of the records that have a label.

        The records are read once: they may be an iterator.
        """
        check_is_fitted(self, "model_")
        if path_of(y) is None:
            x, true, weights = self._with_labels(self._read(X), y, sample_weight)
        else:
            x, given, weights = self._labelled(X, y, sample_weight)
            true = self._decode(given)
        return true, self._decide(self._computed(x)), weights

    def _unlike_model(self) -> str:
        """What of a loaded estimator does not go with its network and schema; empty if all does."""
        return ""

    def _build(self, labels: Labels) -> keras.Model:
        schema = self.schema_
        if self.target_ is not None:
            schema = copy.deepcopy(schema)
            for path in [self.target_] if isinstance(self.target_, str) else self.target_:
                schema.drop(path)
        names = ("units", "activation", "aggregation", "dropout", "member_dropout")
        others = ("weight_decay", "min_count", "n_edges", "compress", "learning_rate")
        arguments = {name: getattr(self, name) for name in (*names, *others)}
        return records_model(schema, labels, **arguments)

    def _choose_kinds(self) -> None:
        """Have the fields that are the target taken for what can be predicted."""
        raise NotImplementedError

    def _drop_other_types(self) -> None:
        """Drop the values of other types that are where a target of one type is."""
        for target in [self.target_] if isinstance(self.target_, str) else self.target_ or []:
            others = [each.path for each in self.schema_ if place(each.path) == place(target)]
            for path in set(others) - {target}:
                self.schema_.drop(path)

    def _encode(self, y: Array, weights: Floats) -> tuple[Labels, Array]:
        """What is to be predicted, and the labels as the network takes them."""
        raise NotImplementedError

    def _weigh(self, y: Array, weights: Floats) -> Floats:
        """The weights in the loss of records with these labels."""
        return weights

    def _decode(self, y: Array) -> Array:
        """Labels that were read from records, as `predict` gives them."""
        raise NotImplementedError


def _weights_of_some(sample_weight: Any, are_there: Bools) -> Floats:
    """The weights of those records that have a label.

    Raises:
        ValueError: if none has.
    """
    if not are_there.any():
        raise ValueError(f"Expected labels of some records. Received: none of {len(are_there)}")
    return weights_of(sample_weight, len(are_there))[are_there]

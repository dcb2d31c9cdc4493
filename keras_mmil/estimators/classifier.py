"""The classifier."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets

from keras_mmil._support.checks import check_number
from keras_mmil._support.types import Array, Floats
from keras_mmil.estimators._given import Target
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.records.network import Labels

__all__ = ["NestedClassifier"]


class NestedClassifier(ClassifierMixin, NestedEstimator):
    """Classify nested records, and say by which rules.

    Infers the schema of the records, builds the network of `zoo.records_model`, and trains it until
    the loss on a part of the records that is held out no longer falls.

    Args:
        class_weight: weight of the records of each class, which multiplies their `sample_weight`:
            a dict from classes to numbers ≥ 0, of which those that are not named have 1; or
            "balanced", so that all classes weigh as much together; or None for equal weights.
        schema: a `Schema`, with the kinds that were chosen; None to infer one from the records.
        units, activation, aggregation, dropout, member_dropout, weight_decay, min_count, n_edges,
        compress, learning_rate: as of `zoo.records_model`.
        epochs: at most.
        batch_size: number of records in a batch.
        validation_split: share of the records that is held out, by which training stops and rules
            are chosen; 0 for none.
        patience: epochs in which the loss on them may fail to fall; the weights of the best epoch
            are then restored. None to train all epochs, and to keep the weights of the last one.
        explainer: dict of arguments of the `Explainer`.
        random_state: int or RandomState that all random numbers follow from; None for other ones
            each time.
        keep_data: whether a pickle holds the records that the estimator was fitted on, as it does
            itself: rules are learned from them when they are first asked for. Of a pickle without
            them, only those rules can be had that were asked for before.
        verbose: as of `keras.Model.fit`, and of the `Explainer`.

    Attributes:
        classes_: array of the classes, sorted; of several labels, their names, or their positions.
        schema_: the `Schema`.
        model_: the `keras_mmil.Model`.
        history_: dict from the names of losses and metrics to a list of their values by epoch.
        target_: the path, or the paths, that the labels are at; None where they were given.

    Example:

    >>> classifier = keras_mmil.NestedClassifier(random_state=0)
    >>> classifier.fit(customers, "churned")  # or an array of labels
    >>> classifier.predict(new_customers)
    >>> print(classifier.rules_)
    """

    fitted: ClassVar[tuple[str, ...]] = ("classes_", "is_multilabel_")

    def __init__(
        self,
        *,
        class_weight: Mapping[Any, float] | str | None = None,
        schema: Any = None,
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
        explainer: Any = None,
        random_state: Any = None,
        keep_data: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            schema=schema,
            units=units,
            activation=activation,
            aggregation=aggregation,
            dropout=dropout,
            member_dropout=member_dropout,
            weight_decay=weight_decay,
            min_count=min_count,
            n_edges=n_edges,
            compress=compress,
            learning_rate=learning_rate,
            epochs=epochs,
            batch_size=batch_size,
            validation_split=validation_split,
            patience=patience,
            explainer=explainer,
            random_state=random_state,
            keep_data=keep_data,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def predict(self, X: Any) -> Array:
        """The class of each record, [records]; of several labels 0 or 1, [records, labels]."""
        return self._decide(self._predicted(X))

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class or label, [records, classes]."""
        return self._probabilities(self._predicted(X))

    def predictions_of(self, outputs: Array) -> dict[str, Array]:
        """What `predict` and `predict_proba` give: "prediction" and "probability".

        Args:
            outputs: of the network for some records, [records, n].
        """
        return {"prediction": self._decide(outputs), "probability": self._probabilities(outputs)}

    def rule_classes(self, y: Array, label: str | None = None) -> Array:
        """Which of the classes of the rules labels are: ints [records], 0 or 1 for one of several.

        Args:
            y: labels, as the schema reads them or as they were given to `fit`.
            label: one of several labels; None where there is but one.

        Raises:
            ValueError: if a label is none of `classes_`.
        """
        if self.is_multilabel_:
            return y[:, self.classes_.tolist().index(label)]
        if self.target_ is not None:
            return y
        if not (known := np.isin(y, self.classes_)).all():
            raise ValueError(
                f"Expected classes among {self.classes_.tolist()}. Received: {y[~known][0]!r} in y"
            )
        return np.searchsorted(self.classes_, y)

    def score(self, X: Any, y: Target, sample_weight: Any = None) -> float:
        """Accuracy: the share of records of which the class, or all labels, are predicted right.

        Args:
            X: records.
            y: their labels, or where they are, as of `fit`; those without one do not count.
            sample_weight: of the records.
        """
        true, predicted, weights = self._scored(X, y, sample_weight)
        return float(accuracy_score(true, predicted, sample_weight=weights))

    def _probabilities(self, outputs: Array) -> Array:
        if outputs.shape[1] > 1 or self.is_multilabel_:
            return outputs
        return np.concatenate([1 - outputs, outputs], axis=1)

    def _decide(self, outputs: Array) -> Array:
        probabilities = self._probabilities(outputs)
        if self.is_multilabel_:
            return (probabilities > 0.5).astype(np.int64)
        return self.classes_[probabilities.argmax(axis=1)]

    def _unlike_model(self) -> str:
        names, n = self.classes_.tolist(), self.model_.output_shape[-1]
        if len(names) != (2 if n == 1 and not self.is_multilabel_ else n):
            return f"classes {names}, of a network with {n} outputs"
        # As `fit` has them: those of the schema, or of an array without two equal ones, sorted.
        known = sorted(set(names)) if self.target_ is None else self.schema_.classes(self.target_)
        return "" if names == list(known) else f"classes {names}, and not {list(known)}"

    def _choose_kinds(self) -> None:
        if isinstance(self.target_, str):
            field = self.schema_[self.target_]
            # Classes have the names that they have in the data.
            if field.kind in ("number", "text", "identifier") or field.is_two_words:
                self.schema_[self.target_] = "category"

    def _encode(self, y: Array, weights: Floats) -> tuple[Labels, Array]:
        self.is_multilabel_ = y.ndim == 2
        if self.target_ is not None:
            names = self.schema_.classes(self.target_)
            self.classes_ = np.array(names)
            return Labels("labels" if self.is_multilabel_ else "classes", len(names)), y
        check_classification_targets(y)
        if self.is_multilabel_:
            if not np.isin(y, (0, 1)).all():
                raise ValueError(
                    "Expected labels 0 or 1 in the columns of y. "
                    f"Received: {np.unique(y)[:5].tolist()}"
                )
            self.classes_ = np.arange(y.shape[1])
            return Labels("labels", y.shape[1]), y.astype(np.int64)
        self.classes_, positions = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Expected at least two classes. Received: {self.classes_.tolist()} in y"
            )
        return Labels("classes", len(self.classes_)), positions

    def _weigh(self, y: Array, weights: Floats) -> Floats:
        if self.class_weight is None:
            return weights
        if self.is_multilabel_:
            raise ValueError(
                "Expected class_weight=None for several labels, which are no classes. "
                f"Received: class_weight={self.class_weight!r}"
            )
        names = self.classes_.tolist()
        if isinstance(self.class_weight, Mapping) and set(self.class_weight) <= set(names):
            found = {
                name: check_number(f"class_weight[{name!r}]", weight, 0)
                for name, weight in self.class_weight.items()
            }
            of_classes = np.array([found.get(name, 1.0) for name in names])
        elif isinstance(self.class_weight, str) and self.class_weight == "balanced":
            together = np.bincount(y, weights, minlength=len(names))
            share = weights.sum() / max((together > 0).sum(), 1)
            of_classes = np.divide(share, together, out=np.zeros(len(names)), where=together > 0)
        else:
            raise ValueError(
                f"Expected 'balanced', None or a dict from some of the classes {names} to numbers. "
                f"Received: class_weight={self.class_weight!r}"
            )
        return (weights * of_classes[y]).astype(np.float32)

    def _decode(self, y: Array) -> Array:
        return y if self.is_multilabel_ else self.classes_[y]

    def _explained(self, label: Any) -> dict[str, Any]:
        names = self.classes_.tolist()
        if not self.is_multilabel_:
            if label is not None:
                raise ValueError(f"Expected no label, for one of classes. Received: {label=}")
            return {"class_names": [str(name) for name in names]}
        if label not in names:
            raise ValueError(f"Expected one of the labels {names}. Received: {label=}")
        index = names.index(label)
        return {"target": (index, 0.5), "class_names": [f"not {label}", str(label)]}

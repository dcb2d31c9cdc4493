"""The classifier of nested records."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets

from keras_mmil import ragged
from keras_mmil._support.checks import check_number
from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Floats, Tensors
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.estimators.targets import Target
from keras_mmil.records.network import Labels

__all__ = ["NestedClassifier"]


class NestedClassifier(ClassifierMixin, NestedEstimator):
    """Classify nested records, and explain the classes by rules.

    Infers the schema of the records, and builds the network of `zoo.records_model`: ten of them
    side by side, five of which also read statistics of bags, such as the mean price of the orders.
    Each is trained without a fifth of the records, until the loss on these no longer falls. Beside
    the networks, a linear model, a forest and boosted trees read the fields of the records and the
    statistics of their bags; and of few records whose members have many numbers, a regression with
    a kernel how near these come to others. Each is judged on records that it has not seen, which
    gives the weights with which they decide together: `trials_`. All of it is one model, `model_`,
    which predicts, is explained, and is saved. `fit_rules`, or the first access to `rules_`, learns
    its rules.

    Args:
        class_weight: weight of the records of each class, multiplied by their `sample_weight`: a
            dict from classes to numbers ≥ 0, with 1 for classes that are left out; "balanced", so
            that all classes have the same total weight; or None for equal weights.
        schema: a `Schema`, with the kinds that were chosen; None to infer one from the records.
        effort: "auto"; "high" for 20 networks and more trees; or "low" for one network alone,
            without statistics, whose training holds out a tenth of the records.
        units, activation, aggregation, dropout, member_dropout, weight_decay, min_count, n_edges,
        compress, learning_rate: same as in `zoo.records_model`.
        epochs: maximum number of epochs.
        batch_size: number of records in a batch.
        validation_split: fraction of the records that nothing is trained on, for early stopping,
            weights and choosing rules; 0 for none. None to hold other records out of each network;
            of one network, a tenth.
        patience: number of epochs without a noticeably lower loss on them (by 0.3 % of the first
            epoch's) after which training stops and the weights of the best epoch are restored. None
            to train all epochs, and to keep the weights of the last one.
        explainer: dict of arguments of the `Explainer`, whose tolerance is "one_standard_error"
            here.
        random_state: int or RandomState that seeds all random numbers; None for different ones each
            time.
        keep_data: whether a pickle includes the records that the estimator was fitted on. Without
            them, an unpickled estimator has only the rules that were learned before it was pickled.
        verbose: "auto" for a progress bar of the epochs, and of the search for rules, in a terminal
            or notebook; 0 for none; or as in `keras.Model.fit`.

    Attributes:
        classes_: array of the classes, sorted; of several labels, their names or positions.
        schema_: the `Schema`.
        model_: the `keras_mmil.Model`.
        history_: dict from the names of losses and metrics to a list of their values by epoch.
        trials_: how well the majority, the network, the trees, and all together predict records
            that they were not trained on; in the order of a table that `fit` prints where it shows
            progress. Empty where no records are held out.
        target_: the path or paths of the labels; None where `fit` got the labels themselves.
        rules_, explainer_: the rules, and the `Explainer`: see `fit_rules`.
        rare_class_: index of one of two classes, if it is rare and hardly ever predicted: rules
            then say where it is likelier than its share of the records.

    Example:

    >>> classifier = keras_mmil.NestedClassifier(random_state=0)
    >>> classifier.fit(customers, "churned")  # or an array of labels
    >>> classifier.predict(new_customers)
    >>> print(classifier.fit_rules().rules_)
    """

    fitted: ClassVar[tuple[str, ...]] = ("classes_", "is_multilabel_")

    class_weight: Mapping[Any, float] | str | None

    def __init__(
        self,
        *,
        class_weight: Mapping[Any, float] | str | None = None,
        schema: Any = None,
        units: int = 16,
        activation: str = "relu",
        aggregation: Any = ("max", "mean", "sum"),
        dropout: float = 0.0,
        member_dropout: float = 0.0,
        weight_decay: float = 1.0,
        min_count: int = 2,
        n_edges: int = 0,
        compress: Any = "auto",
        learning_rate: Any = 4e-3,
        effort: str = "auto",
        epochs: int = 100,
        batch_size: int = 64,
        validation_split: float | None = None,
        patience: int | None = 10,
        explainer: Any = None,
        random_state: Any = None,
        keep_data: bool = False,
        verbose: int | str = "auto",
    ) -> None:
        self._set(locals())

    def predict(self, X: Any, by: str = "network") -> Array:
        """The class of each record, [records]; of several labels 0 or 1, [records, labels].

        Args:
            X: records.
            by: "network"; or "rules" for the class that the rules give, which explanations are of.
        """
        x = self._read(X)
        if by == "rules":
            return self.predicted_by_rules(x)
        if by != "network":
            raise ValueError(f"Expected 'network' or 'rules'. Received: by={by!r}")
        return self._decide(self._network_outputs(x))

    def predicted_by_rules(self, x: Tensors) -> Array:
        """What `predict` returns by the rules, for records that `schema_` has read."""
        found = [
            self.explainer_of(label).predict(x) if ragged.n_top_bags(x) else np.zeros(0, np.int64)
            for label in self._rule_labels()
        ]
        return np.stack(found, axis=1) if self.is_multilabel_ else self.classes_[found[0]]

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class or label, [records, classes]."""
        return self._probabilities(self._network_outputs(self._read(X)))

    def predictions_of(self, outputs: Array) -> dict[str, Array]:
        """What `predict` and `predict_proba` return: "prediction" and "probability".

        Args:
            outputs: of the network for some records, [records, n].
        """
        return {"prediction": self._decide(outputs), "probability": self._probabilities(outputs)}

    def rule_classes(self, y: Array, label: str | None = None) -> Array:
        """The class of the rules that each label belongs to, int [records]; 0 or 1 for several.

        Args:
            y: labels, as the schema reads them or as they were passed to `fit`.
            label: one of several labels; None where there is only one.

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
        """Accuracy: the fraction of records whose class, or all of whose labels, are predicted.

        Args:
            X: records.
            y: their labels, or the path of these, same as in `fit`; records without one are left
                out.
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

    def _mismatch(self) -> str:
        names, n = self.classes_.tolist(), self.model_.output_shape[-1]
        if len(names) != (2 if n == 1 and not self.is_multilabel_ else n):
            return f"classes {names}, for a network with {n} outputs"
        # As in `fit`: those of the schema, or the distinct ones of an array, sorted.
        known = sorted(set(names)) if self.target_ is None else self.schema_.classes(self.target_)
        return "" if names == list(known) else f"classes {names}, and not {list(known)}"

    def _choose_kinds(self) -> None:
        if isinstance(self.target_, str):
            field = self.schema_[self.target_]
            # Classes keep the names that they have in the data.
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
                "Expected class_weight=None for several labels, which are not classes. "
                f"Received: class_weight={self.class_weight!r}"
            )
        names = self.classes_.tolist()
        if isinstance(self.class_weight, Mapping) and set(self.class_weight) <= set(names):
            by_name = {
                name: check_number(f"class_weight[{name!r}]", weight, 0)
                for name, weight in self.class_weight.items()
            }
            of_classes = np.array([by_name.get(name, 1.0) for name in names])
        elif isinstance(self.class_weight, str) and self.class_weight == "balanced":
            total = np.bincount(y, weights, minlength=len(names))
            share = weights.sum() / max((total > 0).sum(), 1)
            of_classes = np.divide(share, total, out=np.zeros(len(names)), where=total > 0)
        else:
            raise ValueError(
                f"Expected 'balanced', None or a dict from some of the classes {names} to numbers. "
                f"Received: class_weight={self.class_weight!r}"
            )
        return (weights * of_classes[y]).astype(np.float32)

    def _decode(self, y: Array) -> Array:
        return y if self.is_multilabel_ else self.classes_[y]

    def _rule_labels(self) -> Sequence[Any]:
        return self.classes_.tolist() if self.is_multilabel_ else (None,)

    @property
    def rare_class_(self) -> int | None:
        """Index of one of two classes that is rare, and hardly ever predicted; None otherwise.

        Rules then say where it is likelier than its share of the records; others would be constant.
        """
        if len(self.classes_) != 2 or not self.trials_ or not self.trials_[-1].misses_rare_class:
            return None
        return self.trials_[-1].rare_class

    def _rare_target(self, index: int) -> dict[str, Any]:
        share, name = float(self.trials_[-1].rarest or 0.0), f"P({self.classes_[index]})"
        above, below = f"{name} > {percent(share)}", f"{name} ≤ {percent(share)}"
        # The output is the probability of the second class.
        threshold, names = (share, [below, above]) if index else (1 - share, [above, below])
        return {"target": (0, threshold), "class_names": names}

    def _rule_target(self, label: Any) -> dict[str, Any]:
        names = self.classes_.tolist()
        if not self.is_multilabel_:
            if label is not None:
                raise ValueError(f"Expected no label, as there is only one. Received: {label=}")
            if self.rare_class_ is not None:
                return self._rare_target(self.rare_class_)
            return {"class_names": [str(name) for name in names]}
        if label not in names:
            raise ValueError(f"Expected one of the labels {names}. Received: {label=}")
        index = names.index(label)
        return {"target": (index, 0.5), "class_names": [f"not {label}", str(label)]}

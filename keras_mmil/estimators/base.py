"""What both estimators share: reading, training, predictions, rules and files."""

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from keras_mmil import ragged
from keras_mmil._support.checks import is_int, positive_int
from keras_mmil._support.types import Array, Bools, Config, Floats, Ints, PathLike, Tensors
from keras_mmil.estimators import storage, trials
from keras_mmil.estimators.halves import HALVES, HalfLoss, are_separate
from keras_mmil.estimators.targets import Target, labels_of, path_of, split, weights_of
from keras_mmil.estimators.trials import EFFORTS, Effort, Trial
from keras_mmil.layers import BagStatistics
from keras_mmil.layers.pool import Pool
from keras_mmil.model import Model
from keras_mmil.model.seeds import alone, seeded
from keras_mmil.records import Schema
from keras_mmil.records.network import Ensemble, Feed, Labels, ensemble
from keras_mmil.records.paths import place
from keras_mmil.records.routes import reads, tables
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.explanation import Explanation
from keras_mmil.rules.export.rule_book import RuleBook
from keras_mmil.rules.export.standalone import Source
from keras_mmil.rules.report.background import Background, WhatIf
from keras_mmil.rules.report.page import Report
from keras_mmil.training import fit_resumable
from keras_mmil.training.stopping import MIN_DELTA, VALIDATION, EarlyStopping

__all__ = ["NestedEstimator"]

_NOT_LOGS = ("epoch", "seconds")  # in the history of `fit_resumable`
# Arguments of `records_model` that an estimator passes on.
_OF_NETWORK = (
    *("units", "activation", "aggregation", "dropout", "member_dropout"),
    *("weight_decay", "min_count", "n_edges", "compress", "learning_rate"),
)

_LOSSES = ("loss", "val_loss")  # of the history, that a report shows
_READ = 256  # records at once
_HELD_OUT = 0.1  # of the records, where no members are cross-fitted

# Inputs of the network, labels and weights.
Data: TypeAlias = tuple[Any, Array, Floats]


def _for_members(outputs: Labels, n: int, x: Any, y: Array, weights: Floats) -> Data:
    """Data for n members, which have labels and weights of their own."""
    many = np.repeat(y.reshape(len(y), 1, -1), n, axis=1)
    if outputs.activation == "softmax":
        many = many[:, :, 0]
    return x, many, np.repeat(weights[:, None], n, axis=1)


class EpochProgress(keras.callbacks.Callback):
    """One progress bar for all epochs, with the losses and the time that is left at most."""

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        losses = ("loss", "val_loss")
        self._bar = keras.utils.Progbar(
            self.params["epochs"], unit_name="epoch", stateful_metrics=losses
        )
        self._bar.update(0)  # the first epoch, in which graphs are traced, takes seconds

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        losses = [(name, x) for name, x in (logs or {}).items() if name in ("loss", "val_loss")]
        is_last = self.model.stop_training
        self._bar.update(epoch + 1, losses, finalize=is_last or epoch + 1 == self.params["epochs"])


class NestedEstimator(BaseEstimator):
    """Base of `NestedClassifier` and `NestedRegressor`: see there."""

    fitted: ClassVar[tuple[str, ...]] = ()  # attributes of a subclass that `save` writes

    schema: Schema | None
    units: int
    activation: str
    aggregation: Any
    dropout: float
    member_dropout: float
    weight_decay: float
    min_count: int
    n_edges: int
    compress: Any
    learning_rate: Any
    effort: str
    epochs: int
    batch_size: int
    validation_split: float | None
    patience: int | None
    explainer: Mapping[str, Any] | None
    random_state: int | np.random.RandomState | None
    keep_data: bool
    verbose: int | str

    schema_: Schema
    model_: keras.Model
    history_: dict[str, list[float]]
    trials_: tuple[Trial, ...]
    target_: str | list[str] | None
    _cache: "TrainingCache | None"  # None in an estimator from a file
    _explainers: dict[str | None, Explainer]

    def _set(self, parameters: Mapping[str, Any]) -> None:
        """Set the parameters of a constructor, its `locals()`, as scikit-learn expects."""
        self.__dict__.update((name, x) for name, x in parameters.items() if name != "self")

    # Training

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

        Threads train one after the other, as the random numbers of a process are one sequence; use
        processes to train in parallel. With an int as `random_state`, the random state of the
        program is left as it was.

        Args:
            X: records: a list of dicts, a path, a DataFrame, or whatever `Schema.infer` takes.
            y: a label for each record, as an array; or the path of a field of the records, which
                then is not an input; or a tuple of several paths. Records without a label (None,
                NaN) are left out, with a warning of how many.
            sample_weight: numbers ≥ 0, [records]; None for equal weights. They weight the loss,
                including the validation loss. Rules ignore them.
            validation_data: further records for early stopping and for choosing rules, `(X, y)` or
                `(X, y, sample_weight)`, instead of `validation_split`. The schema is not inferred
                from them.
            callbacks: same as in `keras.Model.fit`.
            folder: for checkpoints, see `training.fit_resumable`; None for none.
            resume: whether to continue the training that was interrupted in the folder, with the
                same data and parameters.

        Raises:
            KeyError, TypeError, ValueError: as `Schema.infer`, `Schema.read` and `records_model`;
                and if the number of labels or weights is not that of the records, all weights for
                training or validation are 0, or `random_state` is no int where there is a folder.
        """
        if folder is not None and not is_int(self.random_state):
            raise ValueError(
                "Expected random_state to be an int, for a training that may be resumed. "
                f"Received: random_state={self.random_state!r}"
            )
        X = list(X) if isinstance(X, Iterator) else X
        self._infer(X, y)
        x, labels, weights = self._read_labelled(X, y, sample_weight)
        x_valid, n_train = None, len(labels)
        if validation_data is not None:
            x_valid, *more = self._read_labelled(*validation_data)
            labels, weights = ragged.concat([(labels, weights), tuple(more)])
        outputs, targets = self._encode(labels, weights)
        weights = self._weigh(targets, weights)
        seed = int(check_random_state(self.random_state).randint(2**31))
        effort = self._effort()
        folds: Ints | None = None  # of cross-fitted members: nothing is held out of all
        train: Ints
        valid: Ints | None
        if validation_data is not None:
            train, valid = np.arange(n_train), np.arange(n_train, len(targets))
        elif self.validation_split is None and effort.members > 1:
            train, valid = np.arange(n_train), None
            folds = trials.folds_of(targets, effort.members // 2, seed)
        else:
            share = _HELD_OUT if self.validation_split is None else self.validation_split
            stratify = outputs.kind == "classes"
            train, valid = split(targets, share, seed, stratify=stratify)
            if valid is not None:
                x, x_valid = ragged.take(x, train), ragged.take(x, valid)
        for name, part in (("to train on", train), ("that are held out", valid)):
            if part is not None and not weights[part].any():
                raise ValueError(
                    f"Expected positive weights of some of the records {name}. "
                    f"Received: weights of {len(part)} that are all 0"
                )
        data = x, targets[train], weights[train]
        validation = None if valid is None else (x_valid, targets[valid], weights[valid])
        with alone if self.random_state is None else seeded(seed):
            made, feed = self._trained(
                outputs, effort, data, validation, folds, seed, callbacks, folder, resume
            )
            self._decide_by(outputs, effort, made, feed, data, validation, folds, seed)
        self._cache = TrainingCache(x, x_valid)
        self._explainers = {}
        if self._shows_progress:
            print(trials.table(self.trials_, outputs.kind == "numbers"))
        return self

    def facts(self, X: Any, y: str) -> tuple[Labels, Array, Array, Sequence[str], Ints]:
        """What trees would learn from, without any training.

        Args:
            X: records.
            y: path of their labels.

        Returns:
            What is predicted; the labels [records], as the network takes them; what is known of the
            records that have one, [records, features], and the field or statistic that each
            feature is of; and the positions of these records in X.
        """
        self._infer(X, y)
        x, labels, has_label = self.schema_.read_labelled(X, y)
        outputs, targets = self._encode(labels, np.ones(len(labels)))
        made = self._build(outputs, 2, x, targets)
        shape = len(targets), len(made.feature_names)
        features = np.zeros(shape, np.float32)
        if made.feature_names:
            model = Model(made.members.input, made.features)
            features = model.predict(x, batch_size=_READ, verbose=0)
        return outputs, targets, features, made.feature_names, np.flatnonzero(has_label)

    def _infer(self, X: Any, y: Target) -> None:
        """Infer the schema, if there is none, and choose what the target is."""
        self.target_ = path_of(y)
        self.schema_ = Schema.infer(X) if self.schema is None else copy.deepcopy(self.schema)
        if self.target_ is not None:
            self._choose_kinds()
            self._drop_other_types()

    def _effort(self) -> Effort:
        if self.effort not in EFFORTS:
            names = ", ".join(map(repr, EFFORTS))
            raise ValueError(f"Expected one of {names}. Received: effort={self.effort!r}")
        return EFFORTS[self.effort]

    def _trained(
        self,
        outputs: Labels,
        effort: Effort,
        data: Data,
        validation: Data | None,
        folds: Ints | None,
        seed: int,
        callbacks: Sequence[keras.callbacks.Callback],
        folder: PathLike | None,
        resume: bool,
    ) -> tuple[Ensemble, Feed]:
        """Members of a network, trained until the validation loss no longer falls.

        With `folds`, the loss is that of each member on its fold, which it is not trained on.

        Returns:
            The network, and the records as it was trained on them.
        """
        epochs = positive_int("epochs", self.epochs)
        batch_size = positive_int("batch_size", self.batch_size)
        n = effort.members
        x, y, weights = _for_members(outputs, n, *data)
        x_valid = None
        if folds is not None:  # of each half of the members
            is_held_out = folds[:, None] == np.arange(n) % (n // 2)
            # Of all members, as the loss is the mean over all that there are.
            validation = x, y, weights * is_held_out * (n // 2)
            weights = weights * ~is_held_out
        elif validation is not None:
            x_valid, *labels = _for_members(outputs, n, *validation)
            validation = x_valid, *labels
        patience = None
        if validation is not None:
            patience = positive_int("patience", self.patience, optional=True)
        arguments: dict[str, Any] = {
            "sample_weight": weights,
            "epochs": epochs,
            "batch_size": batch_size,
            "callbacks": list(callbacks),
            "verbose": 0 if self.verbose == "auto" else self.verbose,
        }
        if self._shows_progress:
            arguments["callbacks"].append(EpochProgress())
        counting = np.flatnonzero(data[2])  # what has no weight makes no difference
        # All labels choose pairs of facts, also those of records that are held out of members. This
        # does not flatter their losses, as hardly any is chosen by chance: see `interactions`.
        network = self._build(outputs, n, ragged.take(x, counting), data[1][counting])
        feed = network.feed(x, x_valid)
        fed = feed.model, feed.x, feed.x if x_valid is None else feed.x_valid
        losses = HALVES if n > 1 and are_separate(self.aggregation) else VALIDATION
        if folder is not None:
            arguments |= {"folder": folder, "seed": seed, "resume": resume}
            arguments |= {"wrap": lambda *_: fed, "validation_data": validation}
            arguments |= {"patience": patience, "min_delta": MIN_DELTA, "losses": losses}
            trained, rows = fit_resumable(lambda: network.members, x, y, **arguments)
            names = [name for name in rows[0] if name not in _NOT_LOGS]
            self.history_ = {name: [row[name] for row in rows] for name in names}
            network.members.set_weights(trained.get_weights())
        else:
            model, of_train, of_valid = fed
            if validation is not None:
                validation = of_valid, *validation[1:]
            if patience is not None:
                stop = EarlyStopping(patience, MIN_DELTA, losses)
                arguments["callbacks"].append(stop)
            arguments |= {"validation_data": validation, "validation_batch_size": _READ}
            history = model.fit(of_train, y, **arguments).history
            self.history_ = {name: list(map(float, values)) for name, values in history.items()}
        return network, feed

    def _decide_by(
        self,
        outputs: Labels,
        effort: Effort,
        made: Ensemble,
        feed: Feed,
        data: Data,
        validation: Data | None,
        folds: Ints | None,
        seed: int,
    ) -> None:
        """Make the model that decides: the network, with a forest if there is one.

        Each is judged, and their weights are chosen, on records that it was not trained on.
        """
        _, y, weights = data
        of_valid = None if feed.x_valid is None else feed.computed(feed.x_valid)
        # Where others judge the networks, only trees read these.
        of_train = feed.computed(feed.x) if effort.trees or of_valid is None else None
        parts, features = list(made.means), None if of_train is None else of_train.features
        names = ["network with statistics", "network"][-len(parts) :]
        judged = None if folds is None and validation is None else validation or data
        predictions: list[Array] = []
        seen = of_train if of_valid is None else of_valid
        if judged is not None and seen is not None:
            predictions += trials.halves(seen.outputs, folds)
        condition = None
        if effort.trees and features is not None:
            new = None if of_valid is None else of_valid.features
            at, by_condition = trials.condition_of(outputs, features, y, weights, folds, new, seed)
            condition = made.feature_names[at], by_condition
            n_folds = 0 if folds is None else trials.N_FOLDS
            n_features = features.shape[1]
            columns = trials.distinct_columns(features)
            fewer = columns[columns < n_features - made.n_details]
            of_boosting = trials.columns_of_boosting(outputs, columns, fewer)
            near = np.intersect1d(columns, made.distances)
            learned, boosted, of_near = (
                (outputs, features[:, at], at, y, weights) for at in (columns, of_boosting, near)
            )
            models = {
                "linear": trials.linear_of(*learned, n_features, seed),
                "kernel": trials.kernel_of(*of_near, n_features, seed),
                "forest": trials.forest_of(*learned, effort.trees, seed),
                "boosting": trials.boosting_of(*boosted, n_folds, seed),
            }
            for name, model in models.items():
                if model is not None:
                    layer, unseen = model
                    names.append(name)
                    parts.append(layer(made.features))
                    if new is not None:
                        predictions.append(np.asarray(layer(new)))
                    elif folds is not None:
                        predictions.append(unseen)
        shares = (1.0,) * len(parts)
        self.trials_ = ()
        if judged is not None:
            _, truth, of_records = judged
            if len(parts) > 1:
                shares = trials.weights_of(outputs, predictions, truth, of_records)
            found = list(zip(names, predictions, shares, strict=True))
            self.trials_ = self._judged(outputs, condition, found, truth, of_records)
        elif len(parts) > 1:
            shares = (1 / len(parts),) * len(parts)
        decision = Pool(shares, outputs.activation, name="decision")(parts)
        self.model_ = Model(made.members.input, decision, name="records")
        # To be evaluated; this optimizer has no state, which would be saved.
        self.model_.compile(keras.optimizers.SGD(), loss=made.members.loss)

    def _judged(
        self,
        outputs: Labels,
        condition: tuple[str, Array] | None,
        found: Sequence[tuple[str, Array, float]],
        y: Array,
        weights: Floats,
    ) -> tuple[Trial, ...]:
        """How well each would decide alone, and all together; `found` with names and shares."""

        def trial(name: str, predicted: Array, share: float = 0.0) -> Trial:
            return trials.trial_of(name, outputs, predicted, y, weights, share)

        worst = "mean" if outputs.kind == "numbers" else "majority"
        tried = [trial(worst, trials.constant(outputs, y, weights))]
        if condition is not None:
            tried.append(replace(trial("one condition", condition[1]), of=condition[0]))
        tried += [trial(*each) for each in found]
        if len(found) > 1:
            _, predictions, shares = zip(*found, strict=True)
            pooled = trials.pooled(outputs, predictions, shares)
            tried.append(trial("all", pooled, sum(shares)))
        return tuple(tried)

    @property
    def _shows_progress(self) -> bool:
        """Whether somebody is likely to wait before a terminal or a notebook."""
        return self.verbose == "auto" and (sys.stdout.isatty() or "ipykernel" in sys.modules)

    def _build(self, outputs: Labels, n_members: int, x: Mapping[str, Any], y: Array) -> Ensemble:
        schema = self.schema_
        if self.target_ is not None:
            schema = copy.deepcopy(schema)
            targets = self._target_paths()
            for path in [*targets, *schema.copies_of(targets)]:
                schema.drop(path)
        options = {name: getattr(self, name) for name in _OF_NETWORK}
        metrics = [partial(HalfLoss, half=half) for half in (0, 1)] if n_members > 1 else []
        options["targets"] = trials.targets(outputs, y)
        return ensemble(schema, outputs, n_members, x, metrics=metrics, **options)

    def _drop_other_types(self) -> None:
        """Drop the values of other types that are where a target of one type is."""
        for target in self._target_paths():
            others = [each.path for each in self.schema_ if place(each.path) == place(target)]
            for path in set(others) - {target}:
                self.schema_.drop(path)

    def _target_paths(self) -> list[str]:
        return [self.target_] if isinstance(self.target_, str) else self.target_ or []

    # Reading and predictions

    def predictions_of(self, outputs: Array) -> dict[str, Array]:
        """All predictions for records by name: "prediction" is what `predict` returns.

        Args:
            outputs: of the network for these records, [records, n].
        """
        return {"prediction": self._decide(outputs)}

    def _read(self, X: Any) -> Any:
        """Records as inputs of the network."""
        check_is_fitted(self, "model_")
        X = list(X) if isinstance(X, Iterator) else X
        return self.schema_.read(X, without=self.target_ or ())

    def _read_labelled(self, X: Any, y: Target, sample_weight: npt.ArrayLike | None = None) -> Data:
        """Those of the records that have a label: inputs, labels as they were read, and weights."""
        x, labels, has_label = self._labelled(X, y)
        return x, labels, weights_of(sample_weight, has_label)

    def _labelled(self, X: Any, y: Target) -> tuple[Any, Array, Bools]:
        """Likewise, and which of the records have a label."""
        if self.target_ is not None:
            if path_of(y) != self.target_:
                raise ValueError(
                    f"Expected the same path for all records, {self.target_!r}. Received: {y!r}"
                )
            return self.schema_.read_labelled(X, self.target_)
        return self._with_labels(self.schema_.read(X), y)

    def _with_labels(self, x: Any, y: Any) -> tuple[Any, Array, Bools]:
        """Likewise, of inputs that have been read, with an array of labels."""
        labels, has_label = labels_of(y, ragged.n_top_bags(x))
        return ragged.take(x, np.flatnonzero(has_label)), labels, has_label

    def _network_outputs(self, x: Any) -> Array:
        """The outputs of the network; also for no records."""
        if not ragged.n_top_bags(x):
            return np.zeros((0, self.model_.output_shape[-1]), self.model_.output.dtype)
        return np.asarray(self.model_.predict(x, verbose=0))

    def _scored(self, X: Any, y: Target, sample_weight: Any) -> tuple[Array, Array, Floats]:
        """True and predicted labels, and weights, of the records that have a label.

        The records are read once: they may be an iterator.
        """
        check_is_fitted(self, "model_")
        if path_of(y) is None:
            x, true, has_label = self._with_labels(self._read(X), y)
            weights = weights_of(sample_weight, has_label)
        else:
            x, true, weights = self._read_labelled(X, y, sample_weight)
            true = self._decode(true)
        return true, self._decide(self._network_outputs(x)), weights

    # Rules

    def fit_rules(self) -> Self:
        """Learn the rules of the network, which takes seconds to minutes.

        Of several labels, it learns the rules of each. Progress is shown according to `verbose`.
        Rules that are there already are kept, so that a second call does nothing. `rules_`,
        `explainer_`, `explain` and `report` call this when they need rules; call it yourself to
        choose when, such as before `save`.

        Returns:
            The estimator itself.

        Raises:
            NotFittedError: before `fit`.
            ValueError: if there are no rules, nor records to learn them from, as in an estimator
                that was saved, or pickled without `keep_data`, before its rules were learned.
        """
        check_is_fitted(self, "model_")
        for label in self._rule_labels():
            self.explainer_of(label)
        return self

    @property
    def explainer_(self) -> Explainer:
        """The `Explainer` of the network; the first access calls `fit_rules`.

        Raises:
            NotFittedError: before `fit`.
            ValueError: for several labels, which have one each: see `explainer_of`.
        """
        return self.explainer_of(None)

    @property
    def rules_(self) -> RuleBook:
        """The rules of `explainer_`; the first access calls `fit_rules`."""
        return self.rules_of(None)

    def explainer_of(self, label: str | None) -> Explainer:
        """The `Explainer` of one of several labels. Its rules are learned on the first call.

        Args:
            label: one of `classes_`; None where there is only one.

        Raises:
            NotFittedError: before `fit`.
            ValueError: if there is no such label; or as `fit_rules`.
        """
        check_is_fitted(self, "model_")
        if label not in self._explainers:
            arguments = self._rule_target(label)
            if self._cache is None:
                raise ValueError(
                    "Expected an estimator whose rules were learned (`fit_rules`) before it was "
                    "saved or pickled (as it is on its way from another process), which leaves the "
                    "training records out; or a pickle of one with keep_data=True. "
                    "Received: one without rules"
                )
            verbose = self._shows_progress if self.verbose == "auto" else self.verbose
            # The fewest of rules that are about as faithful. Of tickets, these have 55 conditions
            # instead of 87, and are right more often.
            defaults = {"verbose": int(verbose), "tolerance": "one_standard_error"}
            arguments |= {**defaults, **(self.explainer or {})}
            explainer = Explainer(**arguments)
            self._explainers[label] = explainer.fit(self.model_, *self._cache.tensors())
        return self._explainers[label]

    def rules_of(self, label: str | None) -> RuleBook:
        """The rules of one of several labels: those of `explainer_of`, which also read records."""
        rules = self.explainer_of(label).rules_
        bags, fields = reads(self.schema_.root)
        layers = [layer for layer in self.model_.layers if isinstance(layer, BagStatistics)]
        formulas = {layer.bag: layer.formulas for layer in layers}
        source = Source(bags, fields, formulas, tables(self.schema_.root, self.schema_.key))
        return replace(rules, source=source)

    def explain(self, X: Any, label: str | None = None) -> Sequence[Explanation]:
        """Why the rules put each record into its class; records are called by their key.

        Args:
            X: records.
            label: one of several labels; None where there is only one.
        """
        X = list(X) if isinstance(X, Iterator) else X
        explainer, x = self.explainer_of(label), self._read(X)
        if not ragged.n_top_bags(x):
            return []
        names = self.schema_.names(X)
        return explainer.explain(x, {"": lambda position: names[position[0]]})

    def report(
        self, X: Any, y: Target | None = None, label: str | None = None, **arguments: Any
    ) -> Report:
        """A report about the rules: `report(X, y).save("report.html")`, or .json, or .md.

        It says also how the network and a random forest on aggregates fare, what was tried, and
        which fields are left out; and it calls records by their key, see `Schema.key`.

        Args:
            X: records that neither the network nor the rules have seen.
            y: their labels, or the path of these, same as in `fit`; None for no accuracy.
            label: one of several labels; None where there is only one.
            arguments: others of `Explainer.report`.

        Raises:
            NotFittedError: before `fit`.
            KeyError, TypeError, ValueError: as `fit` for X and y, and `explainer_of`.
        """
        X = list(X) if isinstance(X, Iterator) else X
        explainer, names = self.explainer_of(label), np.array(self.schema_.names(X), object)
        places = np.arange(len(names))
        if y is None:
            x, classes = self._read(X), None
        else:
            x, labels, has_label = self._labelled(X, y)
            classes, places = self.rule_classes(labels, label), np.flatnonzero(has_label)
        target = self.target_ if label is None else label
        if isinstance(target, str):
            arguments = {"title": f"Rules for {target}", **arguments}
        background = self._background(x, names[places].tolist())
        background = replace(background, what_if=self._what_if(X, places, label))
        return explainer.report(x, classes, background=background, **arguments)

    def _what_if(self, X: Any, places: Ints, label: str | None) -> WhatIf | str:
        """What a report needs for records that a reader changes: those at some places of X."""
        try:
            rules = self.rules_of(label).on_records()
        except ValueError as error:
            return str(error)

        def records(positions: Sequence[int]) -> Sequence[Config]:
            return self.schema_.as_json(X, places[list(positions)].tolist(), self.target_ or ())

        return WhatIf(rules, records)

    def _background(self, x: Any, names: Sequence[str]) -> Background:
        """What a report says of the training, with the names of the records in it."""
        is_number = bool(self.trials_) and self.trials_[0].model == "mean"
        baselines = {}
        if "forest" in (layer.name for layer in self.model_.layers):
            flat = keras.Model(self.model_.input, self.model_.get_layer("forest").output)
            parts = [
                np.asarray(flat(ragged.take(x, slice(start, start + _READ)), training=False))
                for start in range(0, ragged.n_top_bags(x), _READ)
            ]
            baselines["random forest on aggregates"] = np.concatenate(parts)
        return Background(
            names=names,
            baselines=baselines,
            tried=trials.rows(self.trials_, is_number),
            advice=trials.diagnosis(self.trials_),
            history={name: self.history_[name] for name in _LOSSES if name in self.history_},
            left_out={
                part.path: f"{part.kind}: {part.why}" for part in self.schema_ if part.is_left_out
            },
        )

    # Files and copies

    def save(self, folder: PathLike, *, overwrite: bool = False) -> None:
        """Write the estimator to a folder: schema and parameters as JSON, the network as Keras
        does, and the rules, if they have been learned (`fit_rules`). No records are written.

        Args:
            folder: new, empty, or with a saved estimator, which is replaced.
            overwrite: whether to write to a folder that holds other files, too. They are kept,
                except those of the same names.

        Raises:
            NotFittedError: before `fit`.
            FileExistsError: if the folder holds other files.
            ValueError: if JSON cannot hold a parameter.
        """
        check_is_fitted(self, "model_")
        storage.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: PathLike) -> Self:
        """Read an estimator that was saved.

        Raises:
            FileNotFoundError: if the folder holds none.
            ValueError: if it is of another class, or damaged.
        """
        return storage.load(cls, folder)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all but the training records, unless `keep_data`."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"_cache": None} if "_cache" in state and not self.keep_data else state

    def __copy__(self) -> Self:
        """A copy in this process, with the training records."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A deep copy, which shares the training records: nothing changes them."""
        new = memo[id(self)] = copy.copy(self)
        others = {name: value for name, value in vars(self).items() if name != "_cache"}
        new.__dict__.update(copy.deepcopy(others, memo))
        return new

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.input_tags.allow_nan = True
        tags.no_validation = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags

    # What subclasses define

    def rule_classes(self, y: Array, label: str | None = None) -> Array:
        """The class of the rules that each label belongs to, [records].

        Args:
            y: labels, as the schema reads them or as they were passed to `fit`.
            label: one of several labels; None where there is only one.
        """
        raise NotImplementedError

    def _choose_kinds(self) -> None:
        """Give the target field a kind that can be predicted."""
        raise NotImplementedError

    def _encode(self, y: Array, weights: Floats) -> tuple[Labels, Array]:
        """What the network predicts, and the labels as it takes them."""
        raise NotImplementedError

    def _weigh(self, y: Array, weights: Floats) -> Floats:
        """The weights in the loss of records with these encoded labels."""
        return weights

    def _decode(self, y: Array) -> Array:
        """Labels that were read from records, as `predict` returns them."""
        raise NotImplementedError

    def _decide(self, outputs: Array) -> Array:
        """The predictions for outputs of the network."""
        raise NotImplementedError

    def _rule_labels(self) -> Sequence[Any]:
        """The labels that have rules of their own."""
        return (None,)

    def _rule_target(self, label: str | None) -> dict[str, Any]:
        """Arguments of the explainer that define its classes."""
        raise NotImplementedError

    def _mismatch(self) -> str:
        """What of a loaded estimator does not fit its network and schema; empty if all does."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Column:
    """A tensor as arrays; of strings, the distinct values and the id of each."""

    values: Array
    ids: Array | None
    row_splits: tuple[Array, ...]

    @classmethod
    def of(cls, x: tf.Tensor | tf.RaggedTensor, shared: dict[bytes, Array]) -> Self:
        """Row splits that several tensors have are taken from `shared`."""
        is_ragged = isinstance(x, tf.RaggedTensor)
        flat = x.flat_values if is_ragged else x
        splits = [each.numpy() for each in x.nested_row_splits] if is_ragged else []
        row_splits = tuple(shared.setdefault(each.tobytes(), each) for each in splits)
        if flat.dtype != tf.string:
            return cls(flat.numpy(), None, row_splits)
        values, ids = tf.unique(flat)
        small = np.min_scalar_type(max(len(values) - 1, 0))
        return cls(values.numpy(), ids.numpy().astype(small), row_splits)

    def tensor(self) -> tf.Tensor | tf.RaggedTensor:
        if self.ids is None:
            flat = tf.constant(self.values)
        else:
            flat = tf.gather(tf.constant(self.values, tf.string), self.ids.astype(np.int32))
        if not self.row_splits:
            return flat
        return tf.RaggedTensor.from_nested_row_splits(flat, self.row_splits, validate=False)


class TrainingCache:
    """The inputs that rules are learned from, as arrays: these are small, and can be pickled."""

    def __init__(self, x: Mapping[str, tf.Tensor], x_valid: Mapping[str, tf.Tensor] | None) -> None:
        shared: dict[bytes, Array] = {}
        self._parts = [
            None if part is None else {name: _Column.of(t, shared) for name, t in part.items()}
            for part in (x, x_valid)
        ]

    def tensors(self) -> tuple[Tensors, Tensors | None]:
        """The inputs for training and for validation, if there are any."""
        x, x_valid = (
            None if part is None else {name: column.tensor() for name, column in part.items()}
            for part in self._parts
        )
        return x, x_valid

"""Experiments on nested records, which are not the paper's: documents, linked tables, molecules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold, train_test_split

from keras_mmil import ragged
from keras_mmil._support.types import Ints
from keras_mmil.datasets import molecules, mutagenesis, recipes, synthetic, trains
from keras_mmil.records import Schema, link
from keras_mmil.records.network import records_model
from keras_mmil.training import cosine_decay
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import Data, Experiment, RuleData, Split

__all__ = ["records_experiment"]

_SYNTHETIC = "synthetic"  # made-up customers, in place of the records of any experiment
_N_SYNTHETIC = 300
_FOLDS = 10


@dataclass(frozen=True)
class _Records:
    """The data of an experiment, and how its network is trained."""

    load: Callable[[int], Any]  # from a seed to the records: a list or an Arrow array
    target: str  # path of the labels
    # From labels and a seed to the records for training and validation, and those for test.
    divide: Callable[[npt.NDArray[Any], int], tuple[Ints, Ints]]
    share_valid: float = 0.2  # of the former for validation; 0 for all of them
    trains_on_all: bool = False  # also on those for validation, which then serve the rules alone
    kinds: Mapping[str, str] = field(default_factory=dict)  # by path, where not inferred
    model: Mapping[str, Any] = field(default_factory=dict)  # arguments of `records_model`
    learning_rate: float = 0.001  # initial, with cosine decay
    batch_size: int = 32
    explainer: Mapping[str, Any] = field(default_factory=dict)


def records_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`."""
    records = _RECORDS[entry.key]
    return Experiment(
        **vars(entry),
        build=partial(records_model, **records.model),
        load=partial(_load, records),
        class_names=None,
        schedule=partial(cosine_decay, records.learning_rate),
        batch_size=records.batch_size,
        keeps_best=not records.trains_on_all and records.share_valid > 0,
    )


def _load(
    records: _Records,
    *,
    seed: int = 0,
    limit: int | None = None,
    source: str = "",
    unlabelled: bool = False,
) -> Data:
    if source == _SYNTHETIC and records.target != synthetic.churn.TARGET:
        records = _Records(
            partial(_customers, n_customers=_N_SYNTHETIC), synthetic.churn.TARGET, records.divide
        )
    all_records, target = records.load(seed), records.target
    labels = _labels(all_records, target)
    known, test = records.divide(labels, seed)
    train = valid = known
    if records.share_valid:
        train, valid = train_test_split(
            known, test_size=records.share_valid, random_state=seed, stratify=labels[known]
        )
    train, valid, test = train[:limit], valid[:limit], test[:limit]
    schema = Schema.infer(
        _take(all_records, np.append(train, valid) if records.trains_on_all else train)
    )
    for path, kind in records.kinds.items():
        schema[path] = kind
    for_rules, *others = (
        Split(*schema.read(_take(all_records, chosen), target=target))
        for chosen in (train, valid, test)
    )
    for_training = for_rules
    if records.trains_on_all:
        for_training = Split(*ragged.concat([for_rules[:2], others[0][:2]]))
    return Data(
        train=for_training,
        valid=others[0],
        test=others[1],
        build_arguments={"schema": schema, "target": target},
        class_names=tuple(map(str, schema.classes(target))),
        rule_data=lambda: RuleData(for_rules.x, others[0].x),
        explainer=records.explainer,
    )


def _take(records: Any, chosen: Ints) -> Any:
    return [records[i] for i in chosen] if isinstance(records, list) else records.take(chosen)


def _labels(records: Any, target: str) -> npt.NDArray[Any]:
    if isinstance(records, list):
        return np.asarray([record[target] for record in records])
    return np.asarray(records.field(target).to_pylist())


def _first(n_test: int, labels: npt.NDArray[Any], seed: int) -> tuple[Ints, Ints]:
    """All but the last records, and the last ones."""
    n = len(labels) - min(n_test, len(labels) // 2)
    return np.arange(n), np.arange(n, len(labels))


def _fold(labels: npt.NDArray[Any], seed: int) -> tuple[Ints, Ints]:
    """All folds but one, and that one: seeds 0 to 9 are the folds of one partition, and so on."""
    partition, number = divmod(seed, _FOLDS)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=partition)
    train, test = list(folds.split(labels, labels))[number]
    return train, test


def _at_random(labels: npt.NDArray[Any], seed: int) -> tuple[Ints, Ints]:
    """Four fifths and one fifth of the records, random, stratified."""
    known, test = train_test_split(
        np.arange(len(labels)), test_size=0.2, random_state=seed, stratify=labels
    )
    return known, test


def _all(labels: npt.NDArray[Any], seed: int) -> tuple[Ints, Ints]:
    """All records, twice: for a puzzle without a test set."""
    return np.arange(len(labels)), np.arange(len(labels))


def _molecules(name: str, radius: int, seed: int) -> list[dict[str, Any]]:
    return molecules.load(name, radius)


def _customers(seed: int, n_customers: int = 5000, share_without_orders: float = 0.0) -> Any:
    return link(*synthetic.load_churn(n_customers, seed, share_without_orders=share_without_orders))


# Settings were chosen on parts of the training data; see docs/records.md.
_MUTAGENESIS = partial(
    _Records,
    lambda seed: mutagenesis.load(),
    mutagenesis.TARGET,
    trains_on_all=True,
    model={"n_edges": 8, "weight_decay": 1.0},
    batch_size=20,
)
_CHURN = partial(
    _Records,
    target=synthetic.churn.TARGET,
    divide=partial(_first, 1000),
    model={"aggregation": "max"},
    explainer={"max_clusters": 6},
)
# Radius in bonds, arguments of the model, and numbers of clusters, bonds first.
_MOLECULES: Mapping[str, tuple[int, Mapping[str, Any], tuple[int, ...]]] = {
    "MUTAG": (1, {}, (12, 30)),
    "Mutagenicity": (1, {}, (12, 30)),
    "NCI1": (2, {"weight_decay": 0.5}, (20, 30, 40)),
}
_RECORDS: Mapping[str, _Records] = {
    "mutagenesis-first-100": _MUTAGENESIS(divide=partial(_first, 88)),
    "mutagenesis-folds": _MUTAGENESIS(divide=_fold),
    "recipes": _Records(
        lambda seed: recipes.load(),
        recipes.TARGET,
        partial(_first, 500),
        trains_on_all=True,
        kinds={"ingredients[]": "text"},
        model={"units": 64, "activation": "linear", "aggregation": "sum", "member_dropout": 0.5},
        learning_rate=0.003,
    ),
    "trains": _Records(
        lambda seed: link(*trains.load()),
        trains.TARGET,
        _all,
        share_valid=0,
        model={"aggregation": "max"},
        explainer={"max_clusters": 8},
    ),
    **{
        name.lower(): _Records(
            partial(_molecules, name, radius),
            molecules.TARGET,
            _at_random,
            model=model,
            explainer={"n_clusters": n_clusters, "ccp_alpha": 5e-4},
        )
        for name, (radius, model, n_clusters) in _MOLECULES.items()
    },
    "churn-with-orders": _CHURN(load=_customers),
    "churn-some-without": _CHURN(load=partial(_customers, share_without_orders=0.3)),
}

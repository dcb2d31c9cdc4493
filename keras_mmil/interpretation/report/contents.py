"""What is in a report: figures, rules, clusters, cases, and how it was made."""

import datetime
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.formatting import majority, percent
from keras_mmil._support.types import Array, Config, Ints, Tensors
from keras_mmil._version import __version__
from keras_mmil.interpretation.evidence.certificate import (
    Certificate,
    Counted,
    UsedTopBagsError,
    certify,
)
from keras_mmil.interpretation.evidence.deletion import DeletionTest
from keras_mmil.interpretation.evidence.edits import UneditableError
from keras_mmil.interpretation.evidence.interval import Interval, interval
from keras_mmil.interpretation.export.rule_book import RuleBook
from keras_mmil.interpretation.fitting.search import GridPoint
from keras_mmil.interpretation.network.capture import Observation
from keras_mmil.interpretation.network.data import Source, TopBags
from keras_mmil.interpretation.network.nesting import expand
from keras_mmil.interpretation.network.targets import Target
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.rules.level import Clusters, Level

__all__ = ["Figure", "Material", "Reported", "figures", "gather", "made", "overview"]

_MOST_DELETIONS = 300  # top-bags
_LEVEL = 0.95  # probability of the intervals


class Reported(Protocol):
    """A fitted `Explainer`, which describes these attributes and methods."""

    levels_: tuple[Level, ...]
    classes_: tuple[str, ...]
    n_clusters_: tuple[int, ...]
    grid_: tuple[GridPoint, ...]
    fidelity_: float
    majority_: float
    feature_names: Sequence[str] | None
    _target: Target
    _fingerprint: str

    @property
    def rules_(self) -> RuleBook:
        """The rules of all levels."""

    @property
    def clusters_(self) -> tuple[Clusters, ...]:
        """The clusters of the rows of each bag-layer."""

    def _observe(self, batches: Iterable[Tensors], in_order: bool = False) -> Iterator[Observation]:
        """What the network computes on batches of checked top-bags."""

    def get_params(self) -> Config:
        """The arguments of the constructor."""

    def top_bags(self, x: TopBags) -> Source:
        """Top-bags, checked, which can be read several times."""

    def read(self, data: Source, with_places: bool = False) -> Reading:
        """The labels of everything in some top-bags, by rules and network."""

    def hashes(self, x: TopBags) -> npt.NDArray[np.uint64]:
        """A hash of the content of each top-bag."""

    def _used_for(
        self, trained_on: npt.NDArray[np.uint64] | None
    ) -> dict[str, npt.NDArray[np.uint64]]:
        """Hashes of the top-bags that are known to have been used, by what for."""

    def deletion(self, x: TopBags) -> DeletionTest:
        """Whether the network's class changes when the members that decided are removed."""


@dataclass(frozen=True, eq=False)
class Material:
    """What a report is made of.

    Attributes:
        x: the top-bags, as checked inputs.
        truth: true classes, int [top-bags]; None where they are unknown.
        reading: what rules and network say of them.
        matched: whether each rule of the top-bags matches, bool [top-bags, rules].
        certificate: None where intervals would be wrong.
        doubt: why there are none; empty otherwise.
        knows_training: whether it is known what the network was trained on.
        deletion: None where members cannot be removed.
    """

    x: Tensors
    truth: Ints | None
    reading: Reading
    matched: npt.NDArray[np.bool_]
    certificate: Certificate | None
    doubt: str
    knows_training: bool
    deletion: DeletionTest | None

    @property
    def by_rules(self) -> Ints:
        """Classes by the rules."""
        return self.reading.labels[-1]


@dataclass(frozen=True)
class Figure:
    """One of the large figures.

    Attributes:
        title: what it is.
        value: as text.
        note: its interval, and what to compare it with.
    """

    title: str
    value: str
    note: str


def gather(
    explainer: Reported,
    x: TopBags,
    y: npt.ArrayLike | None,
    trained_on: npt.NDArray[np.uint64] | None = None,
) -> Material:
    """Let rules and network read some top-bags."""
    source = explainer.top_bags(x)
    truth = None
    if y is None and not source.has_labels:
        parts = list(source.batches())
    else:
        batches, labels = source.labelled(y)
        parts = list(batches)
        n = sum(map(ragged.n_top_bags, parts))
        truth = explainer._target.true_labels(labels(), n, len(explainer.classes_))
    inputs = ragged.concat(parts)
    reading = explainer.read(explainer.top_bags(inputs))
    level = explainer.levels_[-1]
    counted = Counted.of(level, reading, truth)
    certificate, doubt = None, ""
    try:
        used = explainer._used_for(trained_on)
        certificate = certify(level, counted, explainer.hashes(inputs), used, _LEVEL)
    except UsedTopBagsError as error:  # the rules or the network have seen these data
        doubt = str(error)
    try:
        some = ragged.take(inputs, slice(_MOST_DELETIONS))
        deletion = explainer.deletion(some)
    except UneditableError:  # such as texts, of which no members can be removed
        deletion = None
    return Material(
        x=inputs,
        truth=truth,
        reading=reading,
        matched=counted.matched,
        certificate=certificate,
        doubt=doubt,
        knows_training=trained_on is not None,
        deletion=deletion,
    )


def figures(material: Material) -> list[Figure]:
    """The large figures, and what constant rules would reach."""
    by_rules, network, truth = material.by_rules, material.reading.network, material.truth
    n, exact, found = len(network), material.certificate is not None, []

    def figure(title: str, right: Array, note: str) -> Figure:
        share = interval(int(right.sum()), n)
        ends = f"95 %: {percent(share.low)} to {percent(share.high)}; " if exact else ""
        return Figure(title, percent(share.estimate), ends + note)

    if truth is not None:
        constant = f"most frequent class {percent(majority(truth))}"
        found.append(figure("network accuracy", network == truth, constant))
        found.append(figure("rule accuracy", by_rules == truth, constant))
    constant = f"constant rules {percent(majority(network))}"
    found.append(figure("fidelity", by_rules == network, constant))
    if material.deletion is not None and material.deletion.interval.n:
        share: Interval = material.deletion.interval
        note = (
            "the network's class changes when what decided is removed; "
            f"95 %: {percent(share.low)} to {percent(share.high)}; {share.n} top-bags"
        )
        found.append(Figure("deletion test", percent(share.estimate), note))
    return found


def overview(explainer: Reported, material: Material) -> list[str]:
    """What the model predicts, and on what data: sentences."""
    reading, classes = material.reading, explainer.classes_
    sizes = [
        f"{len(here.rows):,} {clusters.path or clusters.words}"
        for here, clusters in zip(
            expand(reading.nestings, reading.parents), explainer.clusters_, strict=True
        )
    ]
    top = explainer.levels_[-1]
    counts = np.bincount(reading.network, minlength=len(classes))
    shares = ", ".join(
        f"{name} {percent(count / counts.sum())}"
        for name, count in zip(classes, counts, strict=True)
        if count
    )
    inside = f", which hold {', '.join(reversed(sizes))}" if sizes else ""
    found = [
        f"The network tells the class of a {top.word}; the rules say in words how it does so.",
        f"This page shows {len(reading.network):,} {top.words}{inside}. "
        f"Classes by the network: {shares}.",
    ]
    if material.certificate is None:
        return [*found, f"Figures are without intervals. {material.doubt}"]
    intervals = "Intervals hold for data that neither the rules nor the network have seen."
    if material.certificate.n_used:
        intervals += (
            f" {material.certificate.n_used} of these {top.words} equal some that rules or network "
            "were fitted, chosen or trained on."
        )
    elif material.knows_training:
        intervals += f" They have seen none of these {top.words}."
    if not material.knows_training:
        intervals += " What the network was trained on is not checked here."
    return [*found, intervals]


def made(explainer: Reported) -> dict[str, str]:
    """How the rules were made."""
    parameters = {
        name: tuple(value) if isinstance(value, list) else value  # as they are in files
        for name, value in explainer.get_params().items()
        if name not in ("verbose", "n_jobs", "random_state", "target") and value is not None
    }
    return {
        "keras-mmil": __version__,
        "Keras, TensorFlow, Python": f"{keras.__version__}, {tf.__version__}, "
        f"{platform.python_version()}",
        "written": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hash of the network": str(explainer._fingerprint),
        "seed": str(explainer.get_params()["random_state"]),
        "fidelity on validation data": f"{percent(explainer.fidelity_, 2)} (constant rules "
        f"{percent(explainer.majority_, 2)})",
        "settings": ", ".join(f"{name}={value!r}" for name, value in parameters.items()),
    }

"""The figures and facts of a report: how good the rules are, on what data, and how they arose."""

import datetime
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.formatting import majority, percent
from keras_mmil._support.types import Array, Bools, Ints, Tensors
from keras_mmil._version import __version__
from keras_mmil.rules.evidence.certificate import (
    Certificate,
    Outcomes,
    UsedTopBagsError,
    certify,
    interval,
)
from keras_mmil.rules.evidence.deletion import DeletionTest
from keras_mmil.rules.evidence.edits import UneditableError
from keras_mmil.rules.explain.reading import Reading
from keras_mmil.rules.network.nesting import expand
from keras_mmil.rules.network.sources import TopBags

if TYPE_CHECKING:
    from keras_mmil.rules.explainer import Explainer

__all__ = ["Figure", "ReportData", "collect", "figures", "overview", "provenance"]

_MOST_DELETIONS = 300  # top-bags
_LEVEL = 0.95  # probability of the intervals


@dataclass(frozen=True, eq=False)
class ReportData:
    """What a report is about.

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
    matched: Bools
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
    """One of the large figures, as text, with a note on its interval and what to compare it to."""

    title: str
    value: str
    note: str


def collect(
    explainer: "Explainer",
    x: TopBags,
    y: npt.ArrayLike | None,
    trained_on: npt.NDArray[np.uint64] | None = None,
) -> ReportData:
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
    outcomes = Outcomes.of(level, reading, truth)
    certificate, doubt = None, ""
    try:
        used = explainer._used_for(trained_on)
        certificate = certify(level, outcomes, explainer.hashes(inputs), used, _LEVEL)
    except UsedTopBagsError as error:  # the rules or the network have seen these data
        doubt = str(error)
    try:
        some = ragged.take(inputs, slice(_MOST_DELETIONS))
        deletion = explainer.deletion(some)
    except UneditableError:  # such as texts, whose members cannot be removed
        deletion = None
    return ReportData(
        x=inputs,
        truth=truth,
        reading=reading,
        matched=outcomes.matched,
        certificate=certificate,
        doubt=doubt,
        knows_training=trained_on is not None,
        deletion=deletion,
    )


def figures(data: ReportData) -> list[Figure]:
    """The large figures, and what constant rules would reach."""
    by_rules, network, truth = data.by_rules, data.reading.network, data.truth
    n, exact, result = len(network), data.certificate is not None, []

    def figure(title: str, right: Array, note: str) -> Figure:
        share = interval(int(right.sum()), n)
        ends = f"95 %: {percent(share.low)} to {percent(share.high)}; " if exact else ""
        return Figure(title, percent(share.estimate), ends + note)

    if truth is not None:
        constant = f"most frequent class {percent(majority(truth))}"
        result.append(figure("network accuracy", network == truth, constant))
        result.append(figure("rule accuracy", by_rules == truth, constant))
    constant = f"constant rules {percent(majority(network))}"
    result.append(figure("fidelity", by_rules == network, constant))
    if data.deletion is not None and data.deletion.interval.n:
        share = data.deletion.interval
        note = (
            "the network's class changes when what decided is removed; "
            f"95 %: {percent(share.low)} to {percent(share.high)}; {share.n} top-bags"
        )
        result.append(Figure("deletion test", percent(share.estimate), note))
    return result


def overview(explainer: "Explainer", data: ReportData) -> list[str]:
    """What the model predicts, and on what data: sentences."""
    reading, classes = data.reading, explainer.classes_
    occurrences = expand(reading.nestings, reading.parents)
    sizes = [
        f"{len(here.rows):,} {clusters.path or clusters.words}"
        for here, clusters in zip(occurrences, explainer.clusters_, strict=True)
    ]
    top = explainer.levels_[-1]
    counts = np.bincount(reading.network, minlength=len(classes))
    shares = ", ".join(
        f"{name} {percent(count / counts.sum())}"
        for name, count in zip(classes, counts, strict=True)
        if count
    )
    inside = f", which hold {', '.join(reversed(sizes))}" if sizes else ""
    sentences = [
        f"The network tells the class of a {top.word}; the rules say in words how it does so.",
        f"This page shows {len(reading.network):,} {top.words}{inside}. "
        f"Classes by the network: {shares}.",
    ]
    if data.certificate is None:
        return [*sentences, f"Figures are without intervals. {data.doubt}"]
    intervals = "Intervals hold for data that neither the rules nor the network have seen."
    if data.certificate.n_used:
        intervals += (
            f" {data.certificate.n_used} of these {top.words} equal some that rules or network "
            "were fitted, chosen or trained on."
        )
    elif data.knows_training:
        intervals += f" They have seen none of these {top.words}."
    if not data.knows_training:
        intervals += " What the network was trained on is not checked here."
    return [*sentences, intervals]


def provenance(explainer: "Explainer") -> dict[str, str]:
    """How the rules were learned."""
    parameters = explainer.get_params()
    settings = {
        name: tuple(value) if isinstance(value, list) else value  # same as in files
        for name, value in parameters.items()
        if name not in ("verbose", "n_jobs", "random_state", "target") and value is not None
    }
    return {
        "keras-mmil": __version__,
        "Keras, TensorFlow, Python": f"{keras.__version__}, {tf.__version__}, "
        f"{platform.python_version()}",
        "written": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hash of the network": str(explainer._fingerprint),
        "seed": str(parameters["random_state"]),
        "fidelity on validation data": f"{percent(explainer.fidelity_, 2)} (constant rules "
        f"{percent(explainer.majority_, 2)})",
        "settings": ", ".join(f"{name}={value!r}" for name, value in settings.items()),
    }

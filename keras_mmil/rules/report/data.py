"""The figures and facts of a report: how good the rules are, on what data, and how they arose."""

import datetime
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.formatting import majority, percent
from keras_mmil._support.types import Array, Bools, Floats, Ints, Tensors
from keras_mmil._version import __version__
from keras_mmil.rules.evidence.certificate import (
    Certificate,
    Outcomes,
    UsedTopBagsError,
    certify,
    interval,
)
from keras_mmil.rules.evidence.deletion import DeletionTest, FieldDeletion
from keras_mmil.rules.evidence.edits import UneditableError
from keras_mmil.rules.explain.reading import Reading, read
from keras_mmil.rules.network.capture import Observation
from keras_mmil.rules.network.nesting import expand
from keras_mmil.rules.network.sources import TopBags
from keras_mmil.rules.network.targets import Outputs, Target, activation
from keras_mmil.rules.report.background import Background

if TYPE_CHECKING:
    from keras_mmil.rules.explainer import Explainer

__all__ = [
    "Figure",
    "ReportData",
    "collect",
    "figures",
    "headline",
    "overview",
    "probabilities",
    "provenance",
]

_MOST_DELETIONS = 300  # top-bags
_LEVEL = 0.95  # probability of the intervals
_PROBABILITIES = ("sigmoid", "hard_sigmoid", "softmax")  # activations


@dataclass(frozen=True, eq=False)
class ReportData:
    """What a report is about.

    Attributes:
        x: the top-bags, as checked inputs.
        names: what they are called.
        truth: true classes, int [top-bags]; None where they are unknown.
        reading: what rules and network say of them.
        baselines: classes by simpler models, int [top-bags], by their names.
        probabilities: of the classes by the network, [top-bags, classes]; None where it has none.
        matched: whether each rule of the top-bags matches, bool [top-bags, rules].
        certificate: None where intervals would be wrong.
        doubt: why there are none; empty otherwise.
        knows_training: whether it is known what the network was trained on.
        deletion: None where members cannot be removed.
        fields: what the network's class does without each field; None where it reads no fields.
    """

    x: Tensors
    names: Sequence[str]
    truth: Ints | None
    reading: Reading
    baselines: Mapping[str, Ints]
    probabilities: Floats | None
    matched: Bools
    certificate: Certificate | None
    doubt: str
    knows_training: bool
    deletion: DeletionTest | None
    fields: Sequence[FieldDeletion] | None

    @property
    def by_rules(self) -> Ints:
        """Classes by the rules."""
        return self.reading.labels[-1]


@dataclass(frozen=True)
class Figure:
    """One of the shares that sum a report up.

    Attributes:
        title: what it is.
        share: from 0 to 1.
        low, high: the ends of its interval at 95 %; None where that is unknown, or there is none.
        note: what it means, or is to be compared to; may be empty.
    """

    title: str
    share: float
    low: float | None = None
    high: float | None = None
    note: str = ""


def probabilities(target: Target, model: keras.Model, outputs: Outputs) -> Floats | None:
    """Those of the classes of a target, [top-bags, classes]; None where outputs are not such."""
    if target.function is not None or len(model.outputs) != 1:
        return None
    (array,) = keras.tree.flatten(outputs)
    array = array.reshape(len(array), -1)
    if activation(model) not in _PROBABILITIES or not len(array):
        return None
    if target.kind == "argmax":
        return np.asarray(array)
    is_it = array[:, target.index]
    return np.stack([1 - is_it, is_it], axis=1)


def collect(
    explainer: "Explainer",
    x: TopBags,
    y: npt.ArrayLike | None,
    trained_on: npt.NDArray[np.uint64] | None,
    background: Background,
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
    n = ragged.n_top_bags(inputs)
    names = list(map(str, range(n))) if background.names is None else list(background.names)
    if len(names) != n:
        raise ValueError(f"Expected names of {n} top-bags. Received: {len(names)}")
    target, seen = explainer._target, list[Outputs]()

    def kept(observations: Iterable[Observation]) -> Iterator[Observation]:
        for each in observations:
            seen.append(each.outputs)
            yield each

    observations = explainer._observe(explainer.top_bags(inputs).batches(), in_order=True)
    reading = read(explainer.levels_, target, kept(observations))
    likely = [probabilities(target, explainer._network.model, each) for each in seen]
    known = [each for each in likely if each is not None]
    level = explainer.levels_[-1]
    outcomes = Outcomes.of(level, reading, truth)
    certificate, doubt = None, ""
    try:
        used = explainer._used_for(trained_on)
        certificate = certify(level, outcomes, explainer.hashes(inputs), used, _LEVEL)
    except UsedTopBagsError as error:  # the rules or the network have seen these data
        doubt = str(error)
    deletion: DeletionTest | None = None
    fields: list[FieldDeletion] | None = None
    try:
        deletion = explainer.deletion(ragged.take(inputs, slice(_MOST_DELETIONS)))
        fields = explainer.deletion_of_fields(inputs)
    except UneditableError:  # such as texts, whose members cannot be removed
        pass
    return ReportData(
        x=inputs,
        names=names,
        truth=truth,
        reading=reading,
        baselines={name: target.labels(each) for name, each in background.baselines.items()},
        probabilities=np.concatenate(known) if known else None,
        matched=outcomes.matched,
        certificate=certificate,
        doubt=doubt,
        knows_training=trained_on is not None,
        deletion=deletion,
        fields=fields,
    )


def figures(data: ReportData) -> list[Figure]:
    """Accuracy and fidelity, each beside what they are to be compared to."""
    by_rules, network, truth = data.by_rules, data.reading.network, data.truth
    n, result = len(network), []

    def figure(title: str, right: Array, note: str) -> Figure:
        share = interval(int(right.sum()), n)
        if data.certificate is None:
            return Figure(title, share.estimate, note=note)
        return Figure(title, share.estimate, share.low, share.high, note)

    if truth is not None:
        result.append(figure("network accuracy", network == truth, ""))
        result.append(figure("rule accuracy", by_rules == truth, ""))
        for name, by_it in data.baselines.items():
            result.append(figure(f"accuracy of a {name}", by_it == truth, "flat, to compare"))
        note = "accuracy of the same answer always"
        result.append(Figure("most frequent class", majority(truth), note=note))
    constant = f"how often rules and network agree; constant rules {percent(majority(network))}"
    result.append(figure("fidelity", by_rules == network, constant))
    if data.deletion is not None and data.deletion.interval.n:
        share = data.deletion.interval
        note = f"the network's class changes when what decided is removed; of {share.n}"
        result.append(Figure("deletion test", share.estimate, share.low, share.high, note))
    return result


def headline(explainer: "Explainer", data: ReportData, of: Sequence[Figure]) -> str:
    """The whole page in a sentence."""
    top, n = explainer.levels_[-1], len(data.reading.network)
    share = {figure.title: percent(figure.share) for figure in of}
    if (constant := explainer.rules_.constant) is not None:
        return f"No finding: the rules put every {top.word} into one class, {constant}."
    n_rules = len(top.rules)
    rules = f"{n_rules} rules agree" if n_rules > 1 else "one rule agrees"
    if data.truth is None:
        same = f"{rules} with the network on {share['fidelity']} of {n:,} {top.words}."
        return same[:1].upper() + same[1:]
    others = [f"a {name}: {share[f'accuracy of a {name}']}" for name in data.baselines] + [
        f"always the most frequent class: {share['most frequent class']}"
    ]
    return (
        f"The network is right on {share['network accuracy']} of {n:,} {top.words} "
        f"({'; '.join(others)}), and {rules} with it on {share['fidelity']}."
    )


def overview(explainer: "Explainer", data: ReportData) -> list[str]:
    """On what data figures are, and what they are worth: sentences."""
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

"""What an experiment of the paper consists of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.types import Ints, Tensors
from keras_mmil.bags import Bags
from keras_mmil.model import Model
from keras_mmil.training import cosine_decay
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.page import Page
from keras_mmil.zoo.experiments.report import Report

__all__ = ["Data", "Experiment", "Part", "RuleData", "Words", "at_most", "is_labelled"]


class Part(NamedTuple):
    """A part of the data, such as the test set.

    Attributes:
        x: top-bags.
        y: their labels, ints [top-bags] or, where a top-bag has several, [top-bags, labels].
        instance_labels: true labels of the instances, nested like `x`; None where they are unknown.
    """

    x: Bags | Tensors
    y: Ints
    instance_labels: tf.RaggedTensor | None = None


class Words(NamedTuple):
    """How texts become the ids that a network reads.

    Attributes:
        vocabulary: the token of each id.
        splitter: of texts into sentences, see `keras_mmil.text`.
    """

    vocabulary: Sequence[str]
    splitter: str


class RuleData(NamedTuple):
    """Top-bags to extract rules from.

    Attributes:
        x: those that the rules are fitted to.
        x_valid: those that the numbers of clusters are chosen on.
    """

    x: Bags | Tensors
    x_valid: Bags | Tensors


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """The data of an experiment.

    Attributes:
        train, valid, test: the parts. In `train` a label of -1 stands for none.
        build_arguments: what the model's builder needs to know of the data.
        whole: all top-bags, for a cross-validation; None for experiments without.
        class_names: names of the classes; None for those of the `Experiment`.
        rule_data: function without arguments that makes the `RuleData`; None to extract rules from
            the labelled top-bags of `train`, validated on `valid`.
        rule_test: what the rules are judged by; None for `test`.
        explainer: arguments of the `Explainer` that depend on the data, such as its target.
        page: function without arguments that makes the `Page` of the report; None for the test set,
            as it is.
        words: of networks that read ids of tokens; None of others.
        report: function of a `Report` that writes to the folder of a run what this experiment shows
            besides rules and figures; None for nothing.
    """

    train: Part
    valid: Part
    test: Part
    build_arguments: Mapping[str, Any] = field(default_factory=dict)
    whole: Part | None = None
    class_names: Sequence[str] | None = None
    rule_data: Callable[[], RuleData] | None = None
    rule_test: Part | None = None
    explainer: Mapping[str, Any] = field(default_factory=dict)
    page: Callable[[], Page] | None = None
    words: Words | None = None
    report: Callable[[Report], None] | None = None

    def for_rules(self) -> RuleData:
        """What the rules are extracted from."""
        if self.rule_data:
            return self.rule_data()
        x, y, _ = self.train
        chosen = is_labelled(y)
        return RuleData(x if chosen.all() else ragged.take(x, chosen), self.valid.x)

    def for_testing_rules(self) -> Part:
        """What the rules are judged by."""
        return self.rule_test or self.test


@dataclass(frozen=True, kw_only=True)
class Experiment(Entry):
    """One experiment of the paper: its `Entry` in the catalogue, and how to run it.

    Attributes:
        build: function of `Data.build_arguments` that returns a compiled `Model`.
        load: function that returns `Data`, of the arguments `seed`; `limit`, the greatest number of
            top-bags in each part; `source`; and `unlabelled`, whether to load top-bags without
            labels, too.
        batch_size: of the training.
        metric: that of the compiled model by which it is judged.
        patience: epochs without a lower validation loss after which a training ends; None for no
            early end.
        keeps_best: whether the network of the lowest validation loss is kept; else the last one is,
            and the validation data are for the rules alone.
        schedule: function from the number of epochs to the learning rate of each epoch; None for
            the model's own rate.
        explainer: arguments of the `Explainer`.
        class_names: names of the classes of top-bags; None for their numbers.
        check_rules: function of a fitted `Explainer`, top-bags and their instance labels that
            returns whether the rules are those that generated the data; None where nobody knows.
    """

    build: Callable[..., Model]
    load: Callable[..., Data]
    batch_size: int
    metric: str = "accuracy"
    patience: int | None = None
    keeps_best: bool = True
    schedule: Callable[[int], Callable[[int], float]] | None = lambda n: cosine_decay(0.001, n)
    explainer: Mapping[str, Any] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = ("negative", "positive")
    check_rules: Callable[..., bool] | None = None

    def learning_rate(self, epochs: int) -> Callable[[int], float] | None:
        """Function from the epoch, of so many, to its learning rate; None for the model's own."""
        return None if self.schedule is None else self.schedule(epochs)


def at_most(limit: int | None, size: int) -> int:
    """A number of top-bags, not above a limit, if there is one."""
    return size if limit is None else min(size, limit)


def is_labelled(y: Ints) -> npt.NDArray[np.bool_]:
    """Whether each top-bag has labels, of which it may have several: bool [top-bags]."""
    return np.logical_and.reduce(y.reshape(len(y), -1) >= 0, axis=1)

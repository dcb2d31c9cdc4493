"""What an experiment consists of: its data, how its network is trained, and what it reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.files import atomic_write
from keras_mmil._support.types import Ints, PathLike, Tensors
from keras_mmil.bags import Bags, inputs_of
from keras_mmil.model import Model
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.explanation import Show, Shows
from keras_mmil.rules.plots import Maps, plot_clouds, plot_correspondence, plot_maps
from keras_mmil.training import cosine_decay
from keras_mmil.zoo.experiments.catalogue import Entry

__all__ = [
    "Data",
    "Experiment",
    "Page",
    "RuleData",
    "RunWriter",
    "Split",
    "Words",
    "at_most",
    "is_labelled",
    "put_in_words",
]


class Page(NamedTuple):
    """Unseen top-bags for `Explainer.report`, their labels, and how to show them."""

    x: Bags | Tensors
    y: Ints  # [top-bags]
    show: Any = None


_N_EXEMPLARY = 256  # top-bags out of which examples are taken
_N_EXPLAINED, _N_DRAWN = 20, 8  # top-bags, clouds or rules
_N_OTHERS = 500  # top-bags whose clouds show where a point would have to be absent


class RunWriter:
    """Writes files to the folder of a run, atomically; pictures only if matplotlib is installed.

    `Data.report` of an experiment calls the methods that suit its data.

    Args:
        folder: of the run; it exists.
        model: the trained network.
        explainer: an `Explainer`, fitted to it.
        x: the top-bags that the rules were fitted to.

    Attributes:
        folder, model, explainer, x: as above.
    """

    def __init__(
        self, folder: PathLike, model: Model, explainer: Explainer, x: Bags | Tensors
    ) -> None:
        self.folder = Path(folder)
        self.model = model
        self.explainer = explainer
        self.x = x

    def write(self, name: str, text: str) -> None:
        """Write a text file."""
        with atomic_write(self.folder / name) as part:
            part.write_text(text, encoding="utf-8")

    def draw(self, name: str, plot: Callable[..., object], *arguments: object) -> None:
        """Save the picture that `plot` draws of `arguments` to its argument `path`."""
        try:
            with atomic_write(self.folder / name) as part:
                plot(*arguments, path=part)
        except ImportError as error:  # matplotlib is an optional dependency
            print(f"{name} is left out. {error}")

    def model_for_texts(self, model: Model) -> None:
        """Save the trained network for strings as `text_model.keras`, for `keras-mmil explain`."""
        with atomic_write(self.folder / "text_model.keras") as part:
            model.save(part)

    def clusters(self, x: Bags | Tensors, show: Shows) -> None:
        """Write `clusters.md`: typical instances and sub-bags of each cluster in top-bags `x`."""
        table = self.explainer.cluster_table(inputs_of(x), show=show)
        self.write("clusters.md", table.to_markdown() + "\n")

    def explanations(self, x: Bags | Tensors, show: Shows) -> None:
        """Write `explanations.txt` of the first top-bags of `x`."""
        some = ragged.take(inputs_of(x), slice(_N_EXPLAINED))
        explanations = self.explainer.explain(some, show)
        self.write("explanations.txt", "\n\n".join(map(str, explanations)) + "\n")

    def clouds(self, x: tf.RaggedTensor, show: Show) -> None:
        """Draw `clouds.png`: the first (bags of) clouds of `x`, with the decisive points."""
        some, others = (ragged.take(x, slice(n)) for n in (_N_DRAWN, _N_OTHERS))
        titles = [show((i,)) for i in range(ragged.n_top_bags(some))]
        self.draw("clouds.png", plot_clouds, self.explainer, some, others, titles)

    def maps(
        self,
        x: Bags | Tensors,
        *,
        of_top_bags: npt.ArrayLike,
        of_instances: npt.ArrayLike,
        members: str | None = None,
    ) -> None:
        """Draw maps of top-bags and instances that are places.

        They are `instance_clusters.png`, the instances of each cluster; `sub_bag_clusters.png`, the
        number of sub-bags of each cluster; `rules_match.png`, where each rule of the second class
        holds; and `rules_nearly.png`, how nearly it does elsewhere.

        Args:
            x: top-bags.
            of_top_bags: their latitude and longitude, float [top-bags, 2].
            of_instances: those of the instances, by id, float [ids, 2].
            members: path of the members to count in place of sub-bags, if top-bags have several
                bags.
        """
        maps = Maps(self.explainer, inputs_of(x))
        clusters = maps.instances(len(np.asarray(of_instances)))
        self.draw("instance_clusters.png", plot_maps, of_instances, clusters)
        if len(self.explainer.clusters_) > 1:
            self.draw("sub_bag_clusters.png", plot_maps, of_top_bags, maps.members(members))
        matches, balances = maps.rules(self.explainer.classes_[1])
        for name, by_rule in {"rules_match.png": matches, "rules_nearly.png": balances}.items():
            some = dict(list(by_rule.items())[:_N_DRAWN])
            if some:  # there may be no rule for that class
                self.draw(name, plot_maps, of_top_bags, some)

    def sub_bags(
        self, x: Bags | Tensors, labels: tf.RaggedTensor, label_names: Sequence[str]
    ) -> None:
        """Write `sub_bags.txt` and `clusters.png`: the true labels of the sub-bags in each cluster.

        The labels of the sub-bags of `x` are ints ≥ 0 with `label_names`.
        """
        names: Mapping[str, Sequence[str]] = {"sub-bag": tuple(label_names)}
        description = self.explainer.describe(
            inputs_of(x), sub_bag_labels=labels, label_names=names
        )[1]
        self.write("sub_bags.txt", f"{description}\n")
        self.draw("clusters.png", plot_correspondence, description)


class Split(NamedTuple):
    """A split of the data, such as the test set.

    Attributes:
        x: top-bags.
        y: their labels, ints [top-bags], or [top-bags, labels].
        instance_labels: true labels of the instances, nested like `x`; None if unknown.
    """

    x: Bags | Tensors
    y: Ints
    instance_labels: tf.RaggedTensor | None = None


class Words(NamedTuple):
    """The token of each id that a network reads, and the splitter of its texts."""

    vocabulary: Sequence[str]
    splitter: str


class RuleData(NamedTuple):
    """Top-bags to fit rules to, and others to choose the numbers of clusters on.

    Without others, some of the former are held out for that.
    """

    x: Bags | Tensors
    x_valid: Bags | Tensors | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """The data of an experiment.

    Attributes:
        train, valid, test: the splits. In `train`, a label of -1 means unlabelled.
        build_arguments: arguments of the model's builder that depend on the data.
        whole: all top-bags, for cross-validation; None for experiments without.
        class_names: names of the classes; None for those of the `Experiment`.
        rule_data: function without arguments that returns the `RuleData`; None for the labelled
            top-bags of `train`, and `valid`.
        rule_test: test set of the rules; None for `test`.
        explainer: arguments of the `Explainer` that depend on the data, such as its target.
        page: function without arguments that returns the `Page` of the report; None for the test
            set as it is.
        words: of networks that read ids of tokens, else None.
        name_clusters: function of a fitted `Explainer` and some top-bags that names its clusters or
            gives examples of them; or None.
        report: function of a `RunWriter`, which writes more than rules and figures; or None.
    """

    train: Split
    valid: Split
    test: Split
    build_arguments: Mapping[str, Any] = field(default_factory=dict)
    whole: Split | None = None
    class_names: Sequence[str] | None = None
    rule_data: Callable[[], RuleData] | None = None
    rule_test: Split | None = None
    explainer: Mapping[str, Any] = field(default_factory=dict)
    page: Callable[[], Page] | None = None
    words: Words | None = None
    name_clusters: Callable[[Explainer, Bags | Tensors], None] | None = None
    report: Callable[[RunWriter], None] | None = None

    def for_rules(self) -> RuleData:
        """The data that rules are fitted to and chosen on."""
        if self.rule_data:
            return self.rule_data()
        x, y, _ = self.train
        chosen = is_labelled(y)
        return RuleData(x if chosen.all() else ragged.take(x, chosen), self.valid.x)

    def for_testing_rules(self) -> Split:
        """The test set of the rules."""
        return self.rule_test or self.test


@dataclass(frozen=True, kw_only=True)
class Experiment(Entry):
    """One experiment of the paper: its `Entry` in the catalogue, and how to run it.

    Attributes:
        build: function of `Data.build_arguments` that returns a compiled `Model`.
        load: function that returns `Data`, of the arguments `seed`; `limit`, the greatest number of
            top-bags in each split; `source`; and `unlabelled`, whether to add unlabelled top-bags.
        batch_size: of the training.
        metric: of the compiled model, by which it is compared.
        patience: of early stopping on the validation loss, in epochs; None for none.
        keeps_best: whether to keep the network of the lowest validation loss, or the last one, with
            validation data for the rules alone.
        schedule: function from the number of epochs to the learning rate of each epoch; None for
            the model's own rate.
        explainer: arguments of the `Explainer`.
        class_names: names of the classes of top-bags; None for their numbers.
        called: what one instance, sub-bag and so on up to a top-bag is called; () for just that.
        check_rules: function of a fitted `Explainer`, top-bags and their instance labels that
            returns whether the rules are those that generated the data; None if unknown.
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
    called: tuple[str, ...] = ()
    check_rules: Callable[..., bool] | None = None

    def learning_rate(self, epochs: int) -> Callable[[int], float] | None:
        """Function from the epoch to its learning rate; None for the model's own."""
        return None if self.schedule is None else self.schedule(epochs)


def put_in_words(
    explainer: Explainer, experiment: Experiment, data: Data, x: Bags | Tensors
) -> None:
    """Let rules speak of what top-bags `x` are made of."""
    for level, word in enumerate(experiment.called):
        explainer.rename(level, word=word)
    if data.name_clusters is not None:
        data.name_clusters(explainer, ragged.take(inputs_of(x), slice(_N_EXEMPLARY)))


def at_most(limit: int | None, size: int) -> int:
    """The smaller of `size` and `limit`, if there is one."""
    return size if limit is None else min(size, limit)


def is_labelled(y: Ints) -> npt.NDArray[np.bool_]:
    """Whether each top-bag is labelled, from labels [top-bags, ...]: bool [top-bags]."""
    return np.logical_and.reduce(y.reshape(len(y), -1) >= 0, axis=1)

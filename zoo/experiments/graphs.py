"""The experiments "Citation Datasets" and "Social Network Datasets"."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.model_selection import train_test_split

from keras_mmil import ragged
from keras_mmil._support.types import Ints, Tensors
from keras_mmil.bags import Bags
from keras_mmil.datasets import citations, social, synthetic
from keras_mmil.model import Model
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.explanation import Show
from keras_mmil.rules.report.renderers import Graphs
from keras_mmil.training import cosine_decay
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import Data, Experiment, Page, RuleData, RunWriter, Split
from keras_mmil.zoo.graphs import citation_mil, citation_mmil, social_mmil

__all__ = ["citation_experiment", "social_experiment"]

# Arguments of the model and of the training, chosen on validation papers; see docs/graphs.md.
_INDUCTIVE = {"batch_size": 128, "patience": 15}
# With batches of 128, 100 epochs are too short for a single bag-layer.
_INDUCTIVE_MIL = {**_INDUCTIVE, "batch_size": 32}
# All training papers (or all, if a teacher labels the others) are one batch, an epoch one step.
_FEW_LABELS = {"batch_size": 4096, "patience": 80}
# With few labels, few neighbours are labelled. Means are over the papers where random walks end;
# maxima learn from a network of such means, see `Entry.teacher`.
_WALK = {"restart": 0.1, "steps": 8, "max_members": 64}
_OF_FEW_LABELS = {
    "word_dropout": 0.5,
    "dropout": 0.5,
    "l2": 5e-4,
    "initial_std": 0.1,
    "learning_rate": 0.01,
}
# Builder, depth of the bags, and numbers of clusters by model.
_BUILDERS: Mapping[str, tuple[Callable[..., Model], int, tuple[int, ...]]] = {
    "mmil": (citation_mmil, 2, (24, 14)),
    "mil": (citation_mil, 1, (16,)),
}
# Exceptions for many labels: of a model, and of a model of one network of papers.
_OF_ONE_MODEL = {("mil", "max"): {"label_smoothing": 0.1}}
_OF_ONE_NETWORK = {("citeseer", "mmil", "max"): {"l2": 5e-4}}


def citation_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`."""
    builder, depth, n_clusters = _BUILDERS[entry.model]
    settings, training = _settings(entry)
    is_walked = entry.split in citations.ALL_VISIBLE and entry.aggregation == "mean"
    walk = _WALK if is_walked else None
    return Experiment(
        **vars(entry),
        build=partial(builder, aggregation=entry.aggregation, **settings),
        load=partial(_load_citations, entry.name, entry.split, depth, walk),
        schedule=None,
        explainer={"n_clusters": n_clusters, "ccp_alpha": 2e-4},
        called=("word", "neighbour", "paper") if entry.model == "mmil" else ("word", "paper"),
        **training,
    )


def _settings(entry: Entry) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the model, and of the training."""
    if entry.split in citations.ALL_VISIBLE:
        of_papers = {"neighbour_dropout": 0.5} if entry.model == "mmil" else {}
        return {**_OF_FEW_LABELS, **of_papers}, _FEW_LABELS
    model = entry.model, entry.aggregation
    own = _OF_ONE_MODEL.get(model, {}) | _OF_ONE_NETWORK.get((entry.name, *model), {})
    return own, _INDUCTIVE_MIL if entry.model == "mil" else _INDUCTIVE


def _load_citations(
    name: str,
    split: str,
    depth: int,
    walk: citations.Walk | None,
    *,
    seed: int = 0,
    limit: int | None = None,
    source: str = "planetoid",
    unlabelled: bool = False,
) -> Data:
    network = synthetic.load_citations(seed=seed) if source == "synthetic" else citations.load(name)
    train, valid, test = (
        Split(*part) for part in network.parts(split, seed, depth=depth, limit=limit, walk=walk)
    )
    if unlabelled and split in citations.ALL_VISIBLE:
        chosen, y = _with_unlabelled(network, network.split(split, seed)[0], limit)
        train = Split(network.word_bags(chosen, depth=depth, walk=walk), y)
    papers = _Papers(network=network, split=split, seed=seed, depth=depth, limit=limit, walk=walk)
    return Data(
        train=train,
        valid=valid,
        test=test,
        build_arguments={"dataset": network},
        class_names=network.class_names,
        rule_data=papers.rule_data,
        name_clusters=papers.name_clusters if papers.can_name_clusters else None,
        page=papers.page,
        report=papers.report,
    )


def _with_unlabelled(
    network: citations.Citations, labelled: Ints, limit: int | None
) -> tuple[Ints, Ints]:
    """The labelled papers and all others, and their labels, -1 for the others."""
    n_others = None if limit is None else 2 * limit
    others = np.setdiff1d(np.arange(len(network.labels)), labelled)[:n_others]
    labelled = labelled[:limit]
    labels = np.concatenate([network.labels[labelled], np.full(len(others), -1)])
    return np.concatenate([labelled, others]), labels


# Shares of papers and of their words to drop, if all papers are visible, and if not.
_MISSING_TRANSDUCTIVE, _MISSING_INDUCTIVE = (0.3, 0.0), (0.3, 0.3)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Papers:
    """The papers of a network in a split; attributes as for `Citations.parts`."""

    network: citations.Citations
    split: str
    seed: int
    depth: int
    limit: int | None
    walk: citations.Walk | None

    def _parts(self) -> tuple[Ints, ...]:
        return self.network.split(self.split, self.seed)

    def rule_data(self) -> RuleData:
        """Papers to fit rules to, and a tenth as many for validation.

        They are those of training and validation, or, if all are visible, all but the test papers,
        as rules need no labels. As networks are more certain of training papers than of others,
        there are also copies that lack random neighbours and words.
        """
        parts = self._parts()
        all_are_visible = self.split in citations.ALL_VISIBLE
        papers = np.concatenate(parts[:2])
        if all_are_visible:
            papers = np.setdiff1d(np.arange(len(self.network.labels)), parts[-1])
        papers = np.random.default_rng(self.seed).permutation(papers)[: self.limit]
        seen = citations.visible(self.split, parts)[1]
        x_valid, x = (
            self.network.word_bags(some, seen, self.depth, self.walk)
            for some in np.split(papers, [-(-len(papers) // 10)])
        )
        rates = (_MISSING_TRANSDUCTIVE if all_are_visible else _MISSING_INDUCTIVE)[-self.depth :]
        seeds = (np.random.SeedSequence((self.seed, i)) for i in range(min(10, 20_000 // len(x))))
        copies = (x.subsample(rates, seed=seed) for seed in seeds)
        return RuleData(Bags.concat([x, *copies]), x_valid)

    @property
    def can_name_clusters(self) -> bool:
        """Whether there are clusters of papers, and bags of them without papers of the test."""
        return self.depth == 2 and self.split not in citations.ALL_VISIBLE

    def name_clusters(self, explainer: Explainer, _: Bags | tf.RaggedTensor) -> None:
        """Clusters of papers, by the subject of most papers for training and validation in them."""
        parts = self._parts()
        words, bags = self._bags(parts[1][: self.limit], citations.visible(self.split, parts)[1])
        described = explainer.describe(
            words, sub_bag_labels=self._labels(bags), label_names={"sub-bag": self._class_names()}
        )
        explainer.rename(1, described[1].majority_names)

    def page(self) -> Page:
        """The test papers."""
        words, show, papers, _ = self._shown()
        return Page(words, self.network.labels[papers], show)

    def _shown(self) -> tuple[tf.RaggedTensor, Show, Ints, tf.RaggedTensor]:
        """Test papers as bags of words, how to show them, their numbers, and their bags."""
        network, depth, parts = self.network, self.depth, self._parts()
        papers, visible = parts[-1][: self.limit], citations.visible(self.split, parts)[-1]
        names = self._class_names()
        words, bags = self._bags(papers, visible)
        word_at, paper_at = ragged.lookup(words), ragged.lookup(bags)

        def show(position: tuple[int, ...]) -> str:
            if len(position) == depth + 1:
                return f"word {word_at(position)}"
            paper = papers[position[0]] if len(position) == 1 else paper_at(position)
            return f"paper {paper} ({names[network.labels[paper]]})"

        return words, show, papers, bags

    def report(self, report: RunWriter) -> None:
        words, show, _, bags = self._shown()
        report.clusters(words, show)
        report.explanations(words, show)
        if self.depth == 2:
            report.sub_bags(words, self._labels(bags), self._class_names())

    def _bags(self, papers: Ints, visible: Ints | None) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The words of papers, nested by `depth`, and the papers in their bags."""
        bags, _ = self.network.bags(papers, visible, self.walk)
        words = tf.gather(self.network.words, bags)
        return words if self.depth == 2 else words.merge_dims(1, 2), bags

    def _labels(self, bags: tf.RaggedTensor) -> tf.RaggedTensor:
        """The classes of papers in bags, as numbers of `_class_names`."""
        labels = self.network.labels[bags.values.numpy()]
        labels = np.where(labels < 0, self.network.n_classes, labels)
        return bags.with_values(tf.constant(labels))

    def _class_names(self) -> list[str]:
        """Names of the classes; the last one, if any are, is of unknown classes (-1)."""
        names = list(self.network.class_names or map(str, range(self.network.n_classes)))
        return [*names, "unknown"] if (self.network.labels < 0).any() else names


_SHOWN_DEGREES = 6
_PLAIN: Mapping[str, Any] = {"build": social_mmil, "schedule": None}
# Better on parts of the training folds than the settings of the paper, which has neither dropout
# nor a schedule: see docs/graphs.md.
_REGULARISED: Mapping[str, Any] = {
    "build": partial(social_mmil, dropout=0.5),
    "schedule": partial(cosine_decay, 0.001),
}
_IS_REGULARISED = ("imdb-binary", "imdb-multi")


def social_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`, whose name is that of the data in lower case."""
    return Experiment(
        **vars(entry),
        **(_REGULARISED if entry.name in _IS_REGULARISED else _PLAIN),
        load=partial(_load_networks, entry.name.upper()),
        batch_size=20,
        class_names=None,
        called=("neighbour", "member", "network"),
    )


def _load_networks(
    name: str,
    *,
    seed: int = 0,
    limit: int | None = None,
    source: str = "tu",
    unlabelled: bool = False,
) -> Data:
    """All graphs, and eight, one and one tenths of them."""
    networks = synthetic.load_networks(seed=seed) if source == "synthetic" else social.load(name)
    bags = Bags.from_ragged(networks.bags())
    y = networks.labels
    tenth = len(y) // 10
    rest, test = train_test_split(np.arange(len(y)), test_size=tenth, random_state=seed, stratify=y)
    train, valid = train_test_split(rest, test_size=tenth, random_state=seed, stratify=y[rest])
    parts = [part[:limit] for part in (train, valid, test)]
    chosen = slice(None) if limit is None else np.concatenate(parts)
    train, valid, test = parts
    return Data(
        train=Split(bags[train], y[train]),
        valid=Split(bags[valid], y[valid]),
        test=Split(bags[test], y[test]),
        build_arguments={"dataset": networks},
        whole=Split(bags[chosen], y[chosen]),
        name_clusters=_show_degrees,
        page=lambda: Page(
            bags[test], y[test], Graphs(bags[test], _show_networks(bags[test], test))
        ),
        report=partial(_report_networks, bags[test], test),
    )


def _show_degrees(explainer: Explainer, x: Bags | Tensors) -> None:
    """Give examples of the degrees of neighbours."""
    assert isinstance(x, dict)  # for type checkers
    degree_at = ragged.lookup(x["bags"])
    explainer.exemplify(0, x, lambda position: f"degree {degree_at(position)}")


def _report_networks(x: Bags, graphs: Ints, report: RunWriter) -> None:
    """Write examples of clusters, and explanations."""
    show = _show_networks(x, graphs)
    report.clusters(x, show)
    report.explanations(x, show)


def _show_networks(x: Bags, graphs: Ints) -> Show:
    """Nodes by their degrees, and neighbourhoods by those in them."""
    degree_at, count_at = ragged.lookup(x.bags), ragged.lookup(x.counts)

    def show(position: tuple[int, ...]) -> str:
        if len(position) == 1:
            return f"graph {graphs[position[0]]}"
        if len(position) == 3:
            return f"degree {degree_at(position)}"
        members = zip(degree_at(position), count_at(position), strict=True)
        degrees = [
            f"{degree} (×{count:g})" if count > 1 else f"{degree}" for degree, count in members
        ]
        more = ", …" if len(degrees) > _SHOWN_DEGREES else ""
        return f"with degrees {', '.join(degrees[:_SHOWN_DEGREES])}{more}"

    return show

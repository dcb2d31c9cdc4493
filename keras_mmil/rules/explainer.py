"""The explainer: a trained network of bag-layers, read as symbolic rules."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import keras
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.formatting import agreement, percent, preformatted
from keras_mmil._support.types import Config, Ints, PathLike, Tensors
from keras_mmil.ragged import concat, n_top_bags
from keras_mmil.rules import storage
from keras_mmil.rules.evidence.certificate import Certificate, certify, check_level, count
from keras_mmil.rules.evidence.counterfactual import Counterfactual, counterfactual
from keras_mmil.rules.evidence.deletion import (
    DeletionTest,
    FieldDeletion,
    deletion,
    deletion_of_fields,
)
from keras_mmil.rules.evidence.stability import Stability, stability
from keras_mmil.rules.explain.clusters import (
    ClusterTable,
    Description,
    Representative,
    cluster_table,
    describe,
    representatives,
)
from keras_mmil.rules.explain.explanation import Explanation, Show, Shows, explain
from keras_mmil.rules.explain.reading import Reading, classify, read
from keras_mmil.rules.explain.texts import annotate, text_pieces
from keras_mmil.rules.export.program import labels_table, program
from keras_mmil.rules.export.rule_book import RuleBook
from keras_mmil.rules.export.sentences import reasons
from keras_mmil.rules.fitting.fitter import Fitted, Fitter
from keras_mmil.rules.fitting.options import Options
from keras_mmil.rules.fitting.progress import Progress
from keras_mmil.rules.fitting.search import GridPoint
from keras_mmil.rules.fitting.task import Task, check_data, prepare
from keras_mmil.rules.network.capture import Network, Observation
from keras_mmil.rules.network.fingerprints import fingerprints
from keras_mmil.rules.network.sources import Source, TopBags, as_batch, top_bags
from keras_mmil.rules.network.targets import Target, TargetFunction
from keras_mmil.rules.report.background import Background
from keras_mmil.rules.report.page import Report, report
from keras_mmil.rules.trees.level import (
    Clusters,
    Level,
    all_clusters,
    call,
    exemplify,
    find_cluster,
    find_clusters,
    rename,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Explainer"]

_FEW = 4  # batches of texts out of which examples of phrases and sentences are taken
_WIDEST = 60  # characters of an example
_ENOUGH = 3  # candidates for each example, as different ones may look the same


class Explainer(Options, BaseEstimator):
    """Read a trained network of bag-layers as symbolic rules.

    The representations of instances, of sub-bags and so on are clustered by k-means; decision trees
    map the clusters in a bag to the cluster, or at the top to the network's class, of the bag; and
    the trees are simplified to rules. Together they form a classifier F̂. The numbers of clusters
    are those of the highest fidelity, the agreement of F̂ with the network, on validation
    data; of equally good ones the fewest clusters in all, then the fewest leaves, are chosen.

    Where a bag-layer has symbols, these are the clusters, and there is no search.

    Args:
        max_clusters: greatest number of clusters to try, at least 2: an int, or a tuple with one
            for each level, instances first. Of more than 400 combinations some are tried, then
            others around the best.
        n_clusters: fixed numbers of clusters, instead of a search: an int or such a tuple.
        metric: distance of rows in clustering. "euclidean": between representations, as in the
            paper. "sensitivity": rows are far apart if they make a difference to the network's
            output. Fewer clusters are enough then, but they say less about what is alike.
        features: what rules test: "occurrence", "frequency" or "count" of clusters, a tuple with
            one for each level, or "auto": occurrence where the bag-layer only takes maxima, count
            where it takes sums, else frequency.
        instances: how instances are labelled: "fields", by rules on their own fields, so that no
            rule needs the network; "centroids", by the nearest centroid, as in the paper; "auto",
            by their fields if they have some and read nothing else.
        target: what the classes of top-bags are. None: those of the output layer, one sigmoid unit
            or a softmax (or logits, if the loss says so). An int: this output against the others.
            `(index, threshold)`: whether this output is above the threshold. A function: maps the
            outputs of top-bags, [top-bags, n], to int labels [top-bags].
        class_names: names of the classes; by default ("negative", "positive") for two.
        max_depth: maximum depth of a tree; None for no limit.
        ccp_alpha: pruning of the trees: a split has to lower the impurity by this much per leaf it
            adds, so that a few odd bags make no rules.
        tolerance: prefer the fewest leaves among combinations whose fidelity is at most this much
            below the highest; or "one_standard_error": the fewest clusters, then leaves, among
            those within one standard error of the highest, as in the pruning of trees.
        validation_fraction: fraction of the top-bags to set aside if `fit` gets no validation data.
        n_init: number of random starts of k-means.
        max_rows: maximum number of rows of a level for k-means. If there are more, a random sample
            of this size is used; the network runs a second time to label all rows of a Dataset, or
            if it computes over 512 MB.
        max_top_bags: maximum number of top-bags to fit rules to, and to choose the numbers of
            clusters on. If there are more, a random sample of this size is used.
        batch_size: number of top-bags that the network computes at once; None for 64 to 1,024,
            depending on their size.
        random_state: seed, an int; None for a random one each time.
        n_jobs: number of threads; None for one per core. It has no effect on the result.
        verbose: 1 for a progress bar, 0 for silence.
        feature_names: names of the features of instances that are vectors of numbers. Their
            clusters then get definitions.

    Attributes:
        levels_: tree and rules of each kind of records that rules label, from the instances
            upwards; the last is that of the top-bags.
        clusters_: the clusters of the rows of each bag-layer, from the instances upwards.
        rules_: the rules of all levels, which can be printed.
        classes_: names of the classes of top-bags.
        n_clusters_: the numbers of clusters.
        fidelity_: fidelity on the validation data.
        fidelity_by_instances_: dict: the fidelity on the validation data with instances labelled by
            "fields", and with as many clusters and "centroids", if these differ.
        majority_: share of the network's most frequent class there, the fidelity of constant rules.
        grid_: all combinations that were tried, each once; after pruning where trees were pruned.

    Example:

    >>> explainer = keras_mmil.Explainer(max_clusters=8).fit(model, x_train, x_valid)
    >>> print(explainer.rules_)
    >>> explainer.evaluate(x_test, y_test)

    Reference:
        Tibo, Jaeger and Frasconi, Learning and Interpreting Multi-Multi-Instance Learning
        Networks, 2020, section "Interpreting Networks of Bag-Layers".
    """

    levels_: tuple[Level, ...]
    classes_: tuple[str, ...]
    n_clusters_: tuple[int, ...]
    fidelity_: float
    fidelity_by_instances_: Mapping[str, float]
    majority_: float
    grid_: tuple[GridPoint, ...]
    _network: Network
    _target: Target
    _fingerprint: str  # of the network's weights
    _used: npt.NDArray[np.uint64]  # hashes of the top-bags that rules were fitted or chosen on
    _task: Task | None = None  # what was fitted, with the data; not saved, nor copied

    def fit(self, model: keras.Model, x: TopBags, x_valid: TopBags | None = None) -> Self:
        """Learn rules from a trained model. The model is left as it is.

        Args:
            model: a functional Keras model with bag-layers one above the other.
            x: top-bags: RaggedTensor, `Bags`, array or dict of inputs; or a `tf.data.Dataset` of
                batches (x), (x, y) or (x, y, sample_weight), the same in each iteration. Of a
                Dataset, memory holds one batch, the labels of at most `max_top_bags` top-bags, and
                at most `max_rows` rows per level.
            x_valid: top-bags on which to choose the numbers of clusters. By default a random
                `validation_fraction` of `x`, which rules are then not fitted to. Required if `x` is
                a Dataset.

        Returns:
            The explainer itself.

        Raises:
            TypeError: if `model` is not a Keras model, or `x` not nested bags.
            ValueError: if the model has no bag-layers, or inputs that bypass them; if data do not
                fit the model; if a Dataset is endless, empty or differs between iterations; or if
                an argument of the constructor is out of range.
        """
        fitter = Fitter(self._prepare(model, x, x_valid), self.verbose)
        self._set(fitter.fit(), fitter.task.network, fitter.task.target)
        self._task = fitter.task
        if self._network.text_layer is not None:
            few = tf.concat(list(itertools.islice(self.top_bags(x).batches(), _FEW)), 0)
            for level in range(len(self.clusters_)):
                self.exemplify(level, few)
        return self

    def check(self, model: keras.Model, x: TopBags, x_valid: TopBags | None = None) -> None:
        """Raise the errors of `fit` that can be known before the model is trained.

        The network computes batches until there is something to read rules from, usually one. The
        rest of a Dataset is not checked.

        Args:
            model, x, x_valid: same as in `fit`.
        """
        check_data(self._prepare(model, x, x_valid))

    @property
    def rules_(self) -> RuleBook:
        """The rules of all levels."""
        check_is_fitted(self, "levels_")
        return RuleBook(self.levels_)

    @property
    def clusters_(self) -> tuple[Clusters, ...]:
        """The clusters of the rows of each bag-layer, from the instances upwards."""
        check_is_fitted(self, "levels_")
        return all_clusters(self.levels_)

    def to_dataframe(self) -> "pd.DataFrame":
        """The rules as a pandas DataFrame."""
        return self.rules_.to_dataframe()

    def rename(
        self,
        level: int | str,
        names: Mapping[int, str] | Mapping[str, str] | None = None,
        *,
        word: str | None = None,
    ) -> Self:
        """Rename clusters, or what they are clusters of, wherever they appear.

        Args:
            level: index of the level, 0 for instances, or its symbol, "u"; for `word` also the
                number of levels, which stands for the top-bags.
            names: dict from clusters (index, or current name) to names.
            word: what one of the rows is called, such as "sentence" for a sub-bag.

        Returns:
            The explainer itself.

        Raises:
            ValueError: if there is no such level or cluster, two clusters would share a name, or
                the rows have a name in the data.

        Example:

        >>> explainer.rename(0, word="player").rename(1, word="situation")
        """
        check_is_fitted(self, "levels_")
        if word is not None:
            self.levels_ = call(self.levels_, level, word)
        if names:
            self.levels_ = rename(self.levels_, level, names)
        return self

    def exemplify(self, level: int | str, x: TopBags, show: Show | None = None, n: int = 3) -> Self:
        """Describe the clusters of a level by members that represent them, in rules in words.

        Of a model that reads texts, `fit` does this for phrases and sentences.

        Args:
            level: index of the level, 0 for instances, or its symbol, "u".
            x: top-bags, such as some hundreds of those for training.
            show: function from the position of a member in `x`, a tuple, to a short text; None for
                a model that reads texts.
            n: greatest number of examples of a cluster.

        Returns:
            The explainer itself.

        Raises:
            ValueError: if there is no such level, or nothing shows what its rows are.

        Example:

        >>> explainer.exemplify(0, x_train, lambda position: words[x_train[position].numpy()])
        """
        check_int("n", n, 1)
        clusters = find_clusters(self.levels_, level)
        data = self.top_bags(x)
        if show is None:
            if (layer := self._network.text_layer) is None:
                raise ValueError("Expected show, for a model that reads no texts. Received: None")
            texts = np.concatenate([np.asarray(batch) for batch in data.batches()])
            show = text_pieces(texts.tolist(), layer)
        keys = [(clusters.level, i) for i in range(clusters.n_clusters)]
        seen = self._observe(data.batches(), in_order=True)
        best = representatives(self.levels_, keys, seen, n=_ENOUGH * n, by="separation")
        examples = tuple(
            tuple(dict.fromkeys(filter(None, (_cut(show(x.position)) for x in best[key]))))[:n]
            for key in keys
        )
        self.levels_ = exemplify(self.levels_, clusters.level, examples)
        return self

    def predict(self, x: TopBags) -> Ints:
        """The classes of top-bags by the rules: int [top-bags].

        Args:
            x: top-bags, same as in `fit`; so also below.
        """
        return self._classify(self.top_bags(x).batches())[0]

    def labels(self, x: TopBags) -> tuple[tf.RaggedTensor, ...]:
        """The labels by the rules of all instances, sub-bags and so on.

        Returns:
            int32 RaggedTensors, from the instances upwards: [top-bags, (n), (m)] for
            instances (their clusters), [top-bags, (n)] for sub-bags.
        """
        return self.read(self.top_bags(x)).nested_labels()

    def labels_table(self, x: TopBags, path: PathLike | None = None) -> pa.Table:
        """The table that exported rules read: a row for each top-bag, and for everything in it.

        Members that the network stores once are repeated as often as in the data.

        Args:
            x: top-bags.
            path: of a Parquet file to write as well.

        Returns:
            A table, top-bags last, with these columns and one for each field, named by its path
            (for times, one for each part). NULL stands for what is missing, and for fields of other
            kinds of records:

            kind: what the record is called, such as "instance", "orders.items", "top-bag".
            id: its number among those of its kind, int64; for a top-bag its index in `x`.
            bag: id of the record that contains it, int64.
            weight: its multiplicity or importance there, float64.
            cluster: by the nearest centroid; NULL where rules decide it.
        """
        return labels_table(self.levels_, self.read(self.top_bags(x)), path)

    def fidelity(self, x: TopBags) -> float:
        """The fraction of top-bags on which rules and network agree."""
        by_rules, by_network = self._classify(self.top_bags(x).batches())
        return agreement("fidelity", by_rules, by_network)["fidelity"]

    def score(self, x: TopBags, y: npt.ArrayLike | None = None) -> float:
        """The accuracy of the rules: the fraction of top-bags that they classify correctly.

        Args:
            x: top-bags.
            y: true labels: [top-bags], [top-bags, 1], or one-hot; None for a Dataset, which yields
                them with `x`.

        Raises:
            ValueError: if there are no labels, or if both `y` and a Dataset have some.
        """
        batches, truth = self.top_bags(x).labelled(y)
        by_rules, _ = self._classify(batches)
        return self._accuracy(by_rules, truth())["accuracy"]

    def evaluate(self, x: TopBags, y: npt.ArrayLike | None = None) -> dict[str, float]:
        """Fidelity and accuracy in one pass, each beside what constant rules would reach.

        Constant rules put every top-bag into one class; at best they reach the share of the most
        frequent class.

        Args:
            x: top-bags.
            y: true labels, same as in `score`; None for a Dataset, or for the fidelity alone.

        Returns:
            Dict of fractions of the top-bags: "fidelity" and "fidelity_majority", the share of the
            network's most frequent class; with labels also "accuracy" and "accuracy_majority", the
            share of the most frequent true class.

        Raises:
            ValueError: if both `y` and a Dataset have labels.
        """
        data = self.top_bags(x)
        if y is None and not data.has_labels:
            return agreement("fidelity", *self._classify(data.batches()))
        batches, truth = data.labelled(y)
        by_rules, by_network = self._classify(batches)
        found = agreement("fidelity", by_rules, by_network)
        return found | self._accuracy(by_rules, truth())

    def explain(self, x: TopBags | str | bytes, show: Shows | None = None) -> Sequence[Explanation]:
        """Why each top-bag got its class: a list of explanations, which can be printed.

        If the model reads texts, they are `TextExplanation`s, which show the reasons in the text.

        Args:
            x: top-bags, or a single one: `x[0]`.
            show: function from the position of a top-bag, sub-bag or instance in `x`, a tuple, to
                its text; by default the last index. If bags have names, a dict from these to such
                functions, with "" for top-bags. The members of `Bags` are sorted, so they are not
                in the order of the RaggedTensor that they were made of.
        """
        check_is_fitted(self, "levels_")
        data = self.top_bags(as_batch(x, self._network.model.input))
        explanations = explain(
            self.levels_,
            self.classes_,
            self.read(data, True),
            show,
            reasons=reasons(program(self.levels_)),
        )
        if (layer := self._network.text_layer) is None:
            return explanations
        texts = np.concatenate([np.asarray(batch) for batch in data.batches()])
        return annotate(texts, explanations, layer)

    def describe(
        self,
        x: TopBags | None = None,
        instance_labels: tf.RaggedTensor | npt.ArrayLike | None = None,
        sub_bag_labels: tf.RaggedTensor | npt.ArrayLike | None = None,
        label_names: Mapping[str, Sequence[str]] | None = None,
    ) -> Description:
        """Describe the clusters by their sizes, and by true labels if they are known.

        Args:
            x: top-bags; None for the sizes on the training data.
            instance_labels: true labels of all instances of `x`, ints ≥ 0, nested like `x`; for
                `Bags`, which do not keep the order of members, like `x.to_ragged()`.
            sub_bag_labels: likewise of sub-bags, the rows of the second bag-layer.
            label_names: dict from "instance" and "sub-bag" to names of those labels.

        Raises:
            ValueError: if labels are not nested like `x`, come without it, or are of levels that do
                not exist: bag-layers side by side have no instances and sub-bags.
        """
        check_is_fitted(self, "levels_")
        truths = {0: instance_labels, 1: sub_bag_labels}
        seen = None if x is None else self.read(self.top_bags(x))
        return describe(self.levels_, seen, truths, label_names or {})

    def representatives(
        self, x: TopBags, level: int | str, cluster: int | str, n: int = 10, by: str = "separation"
    ) -> list[Representative]:
        """The rows of `x` that represent a cluster best.

        Args:
            x: top-bags.
            level: index of the level, 0 for instances, or its symbol, "u".
            cluster: index or name of the cluster.
            n: maximum number of them; equal ones count once.
            by: "separation", the distance to the nearest centroid of another cluster (the paper's
                score), largest first; or "closeness" to the cluster's own centroid.
        """
        check_is_fitted(self, "levels_")
        check_int("n", n, 1)
        clusters = find_clusters(self.levels_, level)
        key = clusters.level, find_cluster(clusters, cluster)
        seen = self._observe(self.top_bags(x).batches(), in_order=True)
        return representatives(self.levels_, [key], seen, n=n, by=by)[key]

    def cluster_table(
        self, x: TopBags, n: int = 20, by: str = "separation", show: Shows | None = None
    ) -> ClusterTable:
        """What represents each cluster: a table, to print or to write as HTML.

        Args:
            x, n, by: same as in `representatives`.
            show: same as in `explain`; by default the position.
        """
        check_int("n", n, 1)
        seen = self._observe(self.top_bags(x).batches(), in_order=True)
        return cluster_table(self.levels_, seen, n=n, by=by, show=show or str)

    def report(
        self,
        x: TopBags,
        y: npt.ArrayLike | None = None,
        show: Any = None,
        *,
        include_data: bool = True,
        n_cases: int | None = None,
        title: str | None = None,
        about: Sequence[str] = (),
        trained_on: npt.NDArray[np.uint64] | None = None,
        background: Background | None = None,
    ) -> Report:
        """A report about the rules: `explainer.report(x, y).save("report.html")`, or .json, or .md.

        It holds a headline, figures with intervals, the rules in words and where they look, the
        fields that matter, cases, and how it was made. The page is one file and fetches nothing.

        Args:
            x: top-bags that the rules have not seen; figures on others come without intervals.
            y: true labels, same as in `score`; None for a Dataset, or for no accuracy.
            show: what shows records: a function from the position of a top-bag, sub-bag or instance
                in `x` to a text, an SVG or an image array; "image", "numbers", "cloud", "graph" or
                "plain"; a `Renderer`; or None, to choose by `x`.
            include_data: whether to show top-bags and what is in them. Otherwise the page holds
                only rules, figures and definitions of clusters.
            n_cases: number of top-bags to list; None for all, up to 2,000. The last of them are
                without what is in them, where the page would get larger than 2 MB.
            title: of the page; None for one that names the classes.
            about: sentences to begin with, such as where the data come from.
            trained_on: same as in `certify`; figures on these come without intervals.
            background: how the network came about, and what the top-bags are called.

        Raises:
            ValueError: if data, labels or names do not fit the model, or `show` is unknown.
        """
        check_is_fitted(self, "levels_")
        return report(
            self,
            x,
            y,
            show,
            include_data=include_data,
            n_cases=n_cases,
            title=title,
            about=about,
            trained_on=trained_on,
            background=background,
            text_layer=self._network.text_layer,
        )

    def hashes(self, x: TopBags) -> npt.NDArray[np.uint64]:
        """A hash of the content of each top-bag, by which `certify` recognises it.

        Args:
            x: top-bags, same as in `fit`.

        Returns:
            uint64 [top-bags].
        """
        inputs, paths = self._network.model.input, self._network.paths
        batches = self.top_bags(x).batches()
        return np.concatenate([fingerprints(batch, inputs, paths) for batch in batches])

    def certify(
        self,
        x: TopBags,
        y: npt.ArrayLike | None = None,
        level: float = 0.95,
        trained_on: npt.NDArray[np.uint64] | None = None,
    ) -> Certificate:
        """Fidelity, accuracy and the precision of each rule, with exact intervals.

        The intervals are valid if the top-bags are an independent sample of what the rules will be
        used on, and neither rules nor network have seen them. Top-bags that the rules were fitted
        or chosen on are recognised by their hashes; those that the network was trained on, only
        with `trained_on`.

        Args:
            x: top-bags, same as in `fit`.
            y: true labels, same as in `score`; None for a Dataset, or for no accuracy.
            level: probability that an interval contains the true share, between 0 and 1.
            trained_on: `hashes` of the top-bags that the network was trained or chosen on; None if
                unknown.

        Returns:
            A `Certificate`, which can be printed. If some top-bags equal used ones, as small graphs
            may, it says how many, and holds the intervals with and without them.

        Raises:
            ValueError: if all top-bags equal used ones, or more than half do, and more than chance
                explains in repetitive data; or if `level` is out of range.
        """
        data = self.top_bags(x)
        check_level(level)
        found = count(self.levels_, self._target, self._network, self._observe, data, y)
        return certify(self.levels_[-1], *found, self._used_for(trained_on), level)

    def stability(
        self,
        x: TopBags | None = None,
        n: int = 20,
        *,
        x_valid: TopBags | None = None,
        random_state: int = 0,
        verbose: int = 0,
    ) -> Stability:
        """How often the same rules come up on bootstrap samples of the data of `fit`.

        Each refit samples as many top-bags with replacement, clusters their rows into as many
        clusters as `fit` chose, and grows trees. The network runs once, or twice if a level has
        more than `max_rows` rows.

        Args:
            x, x_valid: the data of `fit`; None for the same objects, which are neither saved nor
                pickled.
            n: number of refits.
            random_state: seed of the samples.
            verbose: 1 for a progress bar, 0 for none.

        Raises:
            ValueError: if there are no data, or an argument is out of range.
        """
        check_is_fitted(self, "levels_")
        positive_int("n", n)
        check_int("random_state", random_state, 0, 2**32 - 1)
        task = self._task
        if x is not None:
            task = self._prepare(self._network.model, x, x_valid).sampled(Progress(verbose))
        if task is None or (x is None and x_valid is not None):
            raise ValueError(
                "Expected x, the data of `fit`, as a loaded explainer, or a copy, is without them. "
                f"Received: x={x!r}"
            )
        self._check_weights()
        return stability(self.levels_, task, n=n, seed=random_state, verbose=verbose)

    def deletion(self, x: TopBags, innermost: bool = False) -> DeletionTest:
        """Whether the network's class changes when the members that decided are removed.

        Args:
            x: top-bags, same as in `fit`.
            innermost: whether to remove, instead of a bag that decides, only those of its members
                that do, and so on inwards.

        Returns:
            A `DeletionTest`, with a row for each top-bag. If a rule only requires members to be
            absent, none decide, and the top-bag does not count.

        Raises:
            ValueError: if members cannot be removed, such as words of texts or parts of dense
                inputs.
        """
        data = self.top_bags(x)
        found = (self.levels_, self.classes_, self._target, self._network, self._observe)
        return deletion(*found, data, innermost)

    def deletion_of_fields(self, x: TopBags) -> list[FieldDeletion]:
        """How often the network's class changes when a field is missing, or a bag is empty.

        Each field of records, and each bag, is taken from some hundred of the top-bags, spread
        evenly; of many fields, the first hundred.

        Args:
            x: top-bags, same as in `fit`.

        Returns:
            The fields and bags, those first without which the class changes most often.

        Raises:
            ValueError: if the network reads no fields, each an input with its name, as that of
                `zoo.records_model` does.
        """
        data = self.top_bags(x)
        self._check_weights()
        return deletion_of_fields(self._target, self._network, data)

    def counterfactual(
        self, x: TopBags, donors: TopBags | None = None, level: int | str | None = None
    ) -> Counterfactual:
        """The fewest members to remove, or to add, so that the rules say something else.

        Members that are alike to the rules count as one. All combinations are tried, smallest
        first, if there are at most 10,000; otherwise the search is greedy, and the result says so.
        Among equally small changes, one that also changes the network's class is preferred.

        Args:
            x: a single top-bag, `x[:1]` or `x[0]`.
            donors: top-bags whose members may be added; None for removals only.
            level: whose members may be removed: index of the level, 0 for instances, its symbol, or
                the data's name for such members; None for the members of the top-bag itself.

        Raises:
            ValueError: if `x` is not one top-bag, or is a Dataset; if members cannot be removed,
                such as words of texts or parts of dense inputs; or if both donors and a level
                inside the members of the top-bag are given.
        """
        check_is_fitted(self, "levels_")
        batches = list(self.top_bags(as_batch(x, self._network.model.input)).batches())
        n = sum(map(n_top_bags, batches))
        if n != 1:
            raise ValueError(f"Expected one top-bag. Received: x with {n} top-bags")
        given = None if donors is None else concat(list(self.top_bags(donors).batches()))
        top = len(self._network.layers)
        layers = [i for i, parent in enumerate(self._network.parents) if parent == top]
        if level is not None:
            layers = [find_clusters(self.levels_, level).level]
        found = (self.levels_, self.classes_, self._target, self._network, self._observe)
        return counterfactual(*found, batches[0], given, layers)

    def save(self, folder: PathLike) -> None:
        """Save to a folder, as JSON and npz. A `target` that is a function is not saved.

        An explainer can also be pickled, with its network, if its `target` can.

        Args:
            folder: new or empty; or with saved rules, which are replaced.

        Raises:
            ValueError: if the folder holds anything else.
        """
        check_is_fitted(self, "levels_")
        fitted = Fitted(
            levels=self.levels_,
            classes=self.classes_,
            grid=self.grid_,
            n_clusters=self.n_clusters_,
            fidelity=self.fidelity_,
            majority=self.majority_,
            fidelity_by_instances=self.fidelity_by_instances_,
            used=self._used,
        )
        saved = storage.Saved(self.get_params(), fitted, self._target)
        storage.write(folder, saved, self._fingerprint)

    @classmethod
    def load(
        cls, folder: PathLike, model: keras.Model, target: TargetFunction | None = None
    ) -> "Explainer":
        """Load a saved explainer.

        Args:
            folder: where it was saved.
            model: the model that it explains, with the same weights.
            target: the function that was its `target`, if that was a function.

        Raises:
            FileNotFoundError: if there is none.
            ValueError: if it is damaged; if it explains another model (the message names the first
                difference between bag-layers or fields); or if it needs `target`.
        """
        network = Network(model)
        saved = storage.read(folder, network, cls().get_params(), target)
        return cls(**saved.parameters)._set(saved.fitted, network, saved.target)

    def top_bags(self, x: TopBags) -> Source:
        """Top-bags, checked, which can be read several times.

        Args:
            x: top-bags, same as in `fit`.
        """
        check_is_fitted(self, "levels_")
        return top_bags(x, self._network, self.batch_size)

    def read(self, data: Source, with_interpolations: bool = False) -> Reading:
        """The labels of everything in some top-bags, by rules and network.

        Args:
            data: result of `top_bags`.
            with_interpolations: whether to compute also what explanations are ranked by.
        """
        observations = self._observe(data.batches(), in_order=True)
        return read(self.levels_, self._target, observations, with_interpolations)

    def _repr_html_(self) -> str:
        """For notebooks: the rules and their fidelity; before they are learned, the settings."""
        if not hasattr(self, "levels_"):
            return preformatted(repr(self))
        fidelity = f"{percent(self.fidelity_, 2)}, constant rules {percent(self.majority_, 2)}"
        about = preformatted(f"Explainer: fidelity {fidelity} on validation data")
        return about + self.rules_._repr_html_()

    def _repr_mimebundle_(self, **kwargs: object) -> Config:
        """The same; scikit-learn's own would draw a diagram of the settings."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __getstate__(self) -> Config:
        """What copies and pickles hold: all but the data."""
        return {**super().__getstate__(), "_task": None}

    def _prepare(self, model: keras.Model, x: TopBags, x_valid: TopBags | None) -> Task:
        return prepare(Options(**self.get_params()), model, x, x_valid)

    def _set(self, fitted: Fitted, network: Network, target: Target) -> Self:
        self.levels_, self.classes_, self.grid_ = fitted.levels, fitted.classes, fitted.grid
        if network.text_layer is not None and self.levels_[-1].word == "top-bag":
            depth = network.text_layer.depth
            for record, word in enumerate((*("phrase", "sentence")[:depth], "text")):
                self.levels_ = call(self.levels_, record, word)
        self.n_clusters_ = fitted.n_clusters
        self.fidelity_, self.majority_ = fitted.fidelity, fitted.majority
        self.fidelity_by_instances_ = fitted.fidelity_by_instances
        self._network, self._target, self._used = network, target, fitted.used
        self._fingerprint = storage.fingerprint(network.model)
        return self

    def _used_for(
        self, trained_on: npt.NDArray[np.uint64] | None
    ) -> dict[str, npt.NDArray[np.uint64]]:
        """Hashes of the top-bags that are known to have been used, by purpose."""
        used = {"the rules were fitted or chosen on": self._used}
        return used if trained_on is None else used | {"the network was trained on": trained_on}

    def _observe(self, batches: Iterable[Tensors], in_order: bool = False) -> Iterator[Observation]:
        """What the network computes on batches of checked top-bags.

        Args:
            batches: of checked top-bags.
            in_order: whether positions in bags matter, see `Network.batches`.
        """
        self._check_weights()
        projections = [clusters.projection for clusters in all_clusters(self.levels_)]
        observations = self._network.batches(batches, in_order=in_order)
        return (batch.projected(projections) for batch in observations)

    def _check_weights(self) -> None:
        """Raise ValueError where the model's weights are not those that the rules are about."""
        if storage.fingerprint(self._network.model) != self._fingerprint:
            raise ValueError(
                "Expected the weights that the model had when its rules were learned: fit again. "
                f"Received: model={self._network.model.name!r} with other weights"
            )

    def _accuracy(self, by_rules: Ints, y: npt.ArrayLike) -> dict[str, float]:
        truth = self._target.true_labels(y, len(by_rules), len(self.classes_))
        return agreement("accuracy", by_rules, truth)

    def _classify(self, batches: Iterable[Tensors]) -> tuple[Ints, Ints]:
        """The classes of top-bags by the rules, and by the network."""
        return classify(self.levels_, self._target, self._observe(batches))


def _cut(text: str) -> str:
    """A text of one line that is not too long."""
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"

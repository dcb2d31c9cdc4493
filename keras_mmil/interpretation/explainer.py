"""The explainer: a trained network of bag-layers, read as symbolic rules."""

from collections.abc import Mapping, Sequence

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.utils.validation import check_is_fitted

from keras_mmil._support.checks import check_int
from keras_mmil._support.types import PathLike
from keras_mmil.interpretation import storage
from keras_mmil.interpretation.explain.clusters import (
    ClusterTable,
    Description,
    Representative,
    cluster_table,
    describe,
    representatives,
)
from keras_mmil.interpretation.explain.explanation import Explanation, Shows, explain
from keras_mmil.interpretation.explain.texts import annotate
from keras_mmil.interpretation.fitting.fitted import Fitted
from keras_mmil.interpretation.fitting.fitter import Fitter
from keras_mmil.interpretation.fitting.options import Tolerance
from keras_mmil.interpretation.fitting.preparation import check_data, prepare
from keras_mmil.interpretation.network.capture import Network
from keras_mmil.interpretation.network.data import TopBags
from keras_mmil.interpretation.network.targets import Target, TargetChoice, TargetFunction
from keras_mmil.interpretation.reporting import Reporting
from keras_mmil.interpretation.rules.level import find_cluster, find_clusters

__all__ = ["Explainer"]


class Explainer(Reporting):
    """Read a trained network of bag-layers as symbolic rules.

    The representations of instances, of sub-bags and so on are clustered by k-means; decision trees
    map the clusters in a bag to the cluster, or at the top to the network's class, of the bag; and
    the trees are simplified to rules. Together they form a classifier F̂. The numbers of clusters
    are those of the highest fidelity, the agreement of F̂ with the network, on validation
    data; of equally good ones the fewest clusters in all, then the fewest leaves, are chosen.

    Args:
        max_clusters: greatest number of clusters to try, at least 2: an int, or a tuple with one
            for each level, instances first. Of more than 400 combinations some are tried, then
            others around the best.
        n_clusters: the numbers of clusters, instead of a search: an int or a tuple like that.
        metric: distance of rows in clustering. "euclidean": that of the representations, as in the
            paper. "sensitivity": rows are far apart if they make a difference to the network's
            output, so that fewer clusters are enough, which say less about what is alike.
        features: what rules test: "occurrence", "frequency" or "count" of clusters, a tuple with
            one for each level, or "auto": occurrence where the bag-layer only takes maxima, count
            where it takes sums, else frequency.
        instances: how instances are labelled: "fields", by rules on their own fields, so that no
            rule needs the network; "centroids", by the nearest centroid, as in the paper; or
            "auto": by their fields where they have some, and read nothing else.
        target: what the classes of top-bags are. None: those of the output layer, one sigmoid unit
            or a softmax (or logits, as the loss says). An int: this output against the others.
            `(index, threshold)`: whether this output is above it. A function: maps the outputs of
            some top-bags, [top-bags, n], to int labels [top-bags].
        class_names: names of the classes; by default ("negative", "positive") for two.
        max_depth: greatest depth of a tree, None for any.
        ccp_alpha: pruning of the trees: a split has to lower the impurity by this much for each
            leaf it adds, so that a few odd bags make no rules.
        tolerance: prefer the fewest leaves among combinations whose fidelity is at most this much
            below the highest; or "one_standard_error": the fewest clusters, then leaves, among
            those within one standard error of the highest, as in the pruning of trees.
        validation_fraction: fraction of the top-bags to set aside for validation where `fit` is
            given no validation data.
        n_init: number of random starts of k-means.
        max_rows: greatest number of rows of a level that k-means works on; of more, so many are
            drawn at random, and the network computes all of them a second time to label them.
        max_top_bags: greatest number of top-bags that the rules are fitted to, and as many to
            choose the numbers of clusters on; of more, so many are drawn at random.
        batch_size: number of top-bags that the network computes at once.
        random_state: seed, an int, or None for another one each time.
        n_jobs: number of threads; None for one a core. The result does not depend on it.
        verbose: 1 for a progress bar, 0 for none.
        feature_names: of instances that are vectors of numbers: their clusters get definitions.

    Attributes:
        levels_: tree and rules of each kind of records that rules label, from the instances
            upwards; the last is that of the top-bags.
        clusters_: the clusters of the rows of each bag-layer, from the instances upwards.
        rules_: the rules of all levels, which can be printed.
        classes_: names of the classes of top-bags.
        n_clusters_: the numbers of clusters.
        fidelity_: fidelity on the validation data.
        fidelity_by_instances_: the best fidelity on the validation data with instances labelled by
            "fields" and by "centroids", as far as these differ: a dict.
        majority_: share of the network's most frequent class there, the fidelity of constant rules.
        grid_: all combinations that were tried, each once: of those whose trees were pruned, with
            the figures of the pruned ones.

    Example:

    >>> explainer = keras_mmil.Explainer(max_clusters=8).fit(model, x_train, x_valid)
    >>> print(explainer.rules_)
    >>> explainer.evaluate(x_test, y_test)

    Reference:
        Tibo, Jaeger and Frasconi, Learning and Interpreting Multi-Multi-Instance Learning
        Networks, 2020, section "Interpreting Networks of Bag-Layers".
    """

    def __init__(
        self,
        max_clusters: int | Sequence[int] = 10,
        n_clusters: int | Sequence[int] | None = None,
        metric: str = "euclidean",
        features: str | Sequence[str] = "auto",
        instances: str = "auto",
        target: TargetChoice = None,
        class_names: Sequence[str] | None = None,
        max_depth: int | None = None,
        ccp_alpha: float = 1e-3,
        tolerance: Tolerance = 0.0,
        validation_fraction: float = 0.2,
        n_init: int = 3,
        max_rows: int = 100_000,
        max_top_bags: int = 50_000,
        batch_size: int = 64,
        random_state: int | None = 0,
        n_jobs: int | None = None,
        verbose: int = 1,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.max_clusters = max_clusters
        self.n_clusters = n_clusters
        self.metric = metric
        self.features = features
        self.instances = instances
        self.target = target
        self.class_names = class_names
        self.max_depth = max_depth
        self.ccp_alpha = ccp_alpha
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.n_init = n_init
        self.max_rows = max_rows
        self.max_top_bags = max_top_bags
        self.batch_size = batch_size
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.feature_names = feature_names

    def fit(self, model: keras.Model, x: TopBags, x_valid: TopBags | None = None) -> "Explainer":
        """Learn rules from a trained model. The model is left as it is.

        Args:
            model: a functional Keras model with bag-layers one above the other.
            x: top-bags: RaggedTensor, `Bags`, array or dict of inputs; or a `tf.data.Dataset` of
                batches (x), (x, y) or (x, y, sample_weight), the same each time it is iterated.
                Of a Dataset a batch is held in memory at a time, and the labels in `max_top_bags`
                top-bags and `max_rows` rows a level at most.
            x_valid: more of them, on which to choose the numbers of clusters. By default
                `validation_fraction` of `x`, chosen at random, which then is not trained on.
                Required where `x` is a Dataset.

        Returns:
            The explainer itself.

        Raises:
            TypeError: if `model` is not a Keras model, or `x` not nested bags.
            ValueError: if the model has no bag-layers or no chain of them that all inputs go
                through, if data do not fit the model, if a Dataset is endless, empty or not the
                same each time, or if an argument of the constructor is out of range.
        """
        fitter = Fitter(prepare(self, model, x, x_valid), self.verbose)
        self._set(fitter.fit(), fitter.task.network, fitter.task.target)
        self._task = fitter.task
        return self

    def check(self, model: keras.Model, x: TopBags, x_valid: TopBags | None = None) -> None:
        """Raise the errors of `fit` that can be known before the model is trained.

        The network computes as many batches as it takes to have a row for each cluster, most often
        one. Of a Dataset, no others are checked.

        Args:
            model, x, x_valid: as for `fit`.
        """
        check_data(prepare(self, model, x, x_valid))

    def explain(self, x: TopBags | str | bytes, show: Shows | None = None) -> Sequence[Explanation]:
        """Why each top-bag got its class: a list of explanations, which can be printed.

        Where the model reads texts, they are `TextExplanation`s, which show it in the text.

        Args:
            x: top-bags, or a single one: `x[0]`.
            show: function from the position of a top-bag, sub-bag or instance in `x`, a tuple, to
                its text; by default the last index. Where bags have names, a dict of functions by
                these, with "" for top-bags. The members of `Bags` are sorted, and so not in the
                order of the RaggedTensor that they were made of.
        """
        check_is_fitted(self, "levels_")
        data = self.top_bags(self._network.as_batch(x))
        explanations = explain(self.levels_, self.classes_, self.read(data, True), show)
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
        """Describe the clusters by their sizes, and by true labels where they are known.

        Args:
            x: top-bags; None for the sizes on the training data.
            instance_labels: true labels of all instances of `x`, ints ≥ 0, nested like `x`.
            sub_bag_labels: likewise of sub-bags, the rows of the second bag-layer.
            label_names: dict from "instance" and "sub-bag" to names of those labels.

        Raises:
            ValueError: if labels are not nested like `x`, given without it, or of levels that there
                are not: bag-layers beside each other have no instances and sub-bags.
        """
        check_is_fitted(self, "levels_")
        truths = {0: instance_labels, 1: sub_bag_labels}
        seen = None if x is None else self.read(self.top_bags(x))
        return describe(self.levels_, seen, truths, label_names or {})

    def representatives(
        self, x: TopBags, level: int | str, cluster: int | str, n: int = 10, by: str = "separation"
    ) -> list[Representative]:
        """The rows of `x` that stand for a cluster best.

        Args:
            x: top-bags.
            level: index of the level, 0 for instances, or its symbol, "u".
            cluster: index or name of the cluster.
            n: how many at most; equal ones only once.
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
        """What stands for each cluster: a table, to print or to write as HTML.

        Args:
            x, n, by: as for `representatives`.
            show: as for `explain`; by default the position.
        """
        check_int("n", n, 1)
        seen = self._observe(self.top_bags(x).batches(), in_order=True)
        return cluster_table(self.levels_, seen, n=n, by=by, show=show or str)

    def save(self, folder: PathLike) -> None:
        """Save to a folder, as JSON and npz. A `target` that is a function is not saved.

        An explainer can be pickled, too, with its network and a `target` that can be pickled.

        Args:
            folder: new, empty, or with saved rules, which are replaced.

        Raises:
            ValueError: if the folder holds something else.
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
            model: the model that it explains, with the weights it had.
            target: the function that was its `target`, if it was one.

        Raises:
            FileNotFoundError: if there is none.
            ValueError: if it is damaged, explains another model (the message names the first
                difference of bag-layers or fields), or needs `target`.
        """
        network = Network(model)
        saved = storage.read(folder, network, cls().get_params(), target)
        return cls(**saved.parameters)._set(saved.fitted, network, saved.target)

    def _set(self, fitted: Fitted, network: Network, target: Target) -> "Explainer":
        self.levels_, self.classes_, self.grid_ = fitted.levels, fitted.classes, fitted.grid
        self.n_clusters_ = fitted.n_clusters
        self.fidelity_, self.majority_ = fitted.fidelity, fitted.majority
        self.fidelity_by_instances_ = fitted.fidelity_by_instances
        self._network, self._target, self._used = network, target, fitted.used
        self._fingerprint = storage.fingerprint(network.model)
        return self

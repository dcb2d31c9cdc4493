"""Rules as a classifier of top-bags, and how good it is."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self

import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from keras_mmil._support.formatting import agreement
from keras_mmil._support.types import Ints, PathLike, Tensors
from keras_mmil.interpretation.export.rule_book import RuleBook
from keras_mmil.interpretation.export.table import labels_table
from keras_mmil.interpretation.network.capture import Network, Observation
from keras_mmil.interpretation.network.data import Source, TopBags
from keras_mmil.interpretation.network.targets import Target
from keras_mmil.interpretation.readout.reading import Reading, classify, read
from keras_mmil.interpretation.rules.level import Clusters, Level, all_clusters, rename
from keras_mmil.interpretation.storage import fingerprint

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RuleClassifier"]


class RuleClassifier(BaseEstimator):
    """What an `Explainer` does with its rules as a classifier.

    A subclass sets these attributes: `batch_size`; and once it is fitted `levels_`, `classes_`, the
    network, the target, and the fingerprint of the network's weights.
    """

    batch_size: int
    levels_: tuple[Level, ...]
    classes_: tuple[str, ...]
    _network: Network
    _target: Target
    _fingerprint: str

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

    def rename(self, level: int | str, names: Mapping[int, str] | Mapping[str, str]) -> Self:
        """Name clusters; the names appear wherever clusters do.

        Args:
            level: index of the level, 0 for instances, or its symbol, "u".
            names: dict from clusters (index, or name up to now) to names.

        Returns:
            The classifier itself.

        Raises:
            ValueError: if there is no such level or cluster, or two clusters would share a name.
        """
        check_is_fitted(self, "levels_")
        self.levels_ = rename(self.levels_, level, names)
        return self

    def predict(self, x: TopBags) -> Ints:
        """The classes of top-bags by the rules: int [top-bags].

        Args:
            x: top-bags, as for `fit`; so also below.
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
        """What rules that run elsewhere read: a row for each top-bag, and for all that is in it.

        Members that the network stores once are repeated as the data have them.

        Args:
            x: top-bags.
            path: of a Parquet file to write as well.

        Returns:
            A table, top-bags last, with these columns and then one for each field, named by its
            path (one a part of a time); NULL is what is missing, or of another kind of records:

            kind: what the record is called, such as "instance", "orders.items", "top-bag".
            id: its number among those of its kind, int64: of a top-bag its index in `x`.
            bag: id of the record that it is in, int64.
            weight: multiplicity or importance there, float64.
            cluster: by the nearest centroid; NULL where rules say it.
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
            ValueError: if there are no labels, or labels beside a Dataset.
        """
        batches, truth = self.top_bags(x).labelled(y)
        by_rules, _ = self._classify(batches)
        return self._accuracy(by_rules, truth())["accuracy"]

    def evaluate(self, x: TopBags, y: npt.ArrayLike | None = None) -> dict[str, float]:
        """Fidelity and accuracy at once, each beside what constant rules would reach.

        Constant rules put every top-bag into one class. At best this is the most frequent class,
        and they reach its share. `x` is read once.

        Args:
            x: top-bags.
            y: true labels, as for `score`; None for a Dataset, or for the fidelity alone.

        Returns:
            Dict of fractions of the top-bags: "fidelity", and "fidelity_majority", those of the
            network's most frequent class; where there are labels also "accuracy", and
            "accuracy_majority", those of the most frequent true class.

        Raises:
            ValueError: if there are labels beside a Dataset.
        """
        data = self.top_bags(x)
        if y is None and not data.has_labels:
            return agreement("fidelity", *self._classify(data.batches()))
        batches, truth = data.labelled(y)
        by_rules, by_network = self._classify(batches)
        found = agreement("fidelity", by_rules, by_network)
        return found | self._accuracy(by_rules, truth())

    def top_bags(self, x: TopBags) -> Source:
        """Top-bags, checked, which can be read several times.

        Args:
            x: top-bags, as for `fit`.
        """
        check_is_fitted(self, "levels_")
        return self._network.data(x, self.batch_size)

    def read(self, data: Source, with_places: bool = False) -> Reading:
        """The labels of everything in some top-bags, by rules and network.

        Args:
            data: what `top_bags` returned.
            with_places: whether to compute what explanations are ranked by, too.
        """
        observations = self._observe(data.batches(), in_order=True)
        return read(self.levels_, self._target, observations, with_places)

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
        if fingerprint(self._network.model) != self._fingerprint:
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

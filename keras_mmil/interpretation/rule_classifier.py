"""Rules as a classifier of top-bags, and how good it is."""

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from keras_mmil._support.agreement import agreement
from keras_mmil.interpretation.readout.reading import classify, read
from keras_mmil.interpretation.storage import fingerprint

__all__ = ["RuleClassifier"]


class RuleClassifier(BaseEstimator):
    """What an `Explainer` does with its rules as a classifier.

    A subclass has `batch_size`; and once it is fitted `levels_`, `classes_`, and `_network`,
    `_target` and `_fingerprint`: the `Network`, the `Target`, and the weights' fingerprint.
    """

    def predict(self, x):
        """The classes of top-bags by the rules: int [top-bags].

        Args:
            x: top-bags, as for `fit`; so also below.
        """
        return self._classify(self._data(x).batches())[0]

    def fidelity(self, x):
        """The fraction of top-bags on which rules and network agree."""
        by_rules, by_network = self._classify(self._data(x).batches())
        return agreement("fidelity", by_rules, by_network)["fidelity"]

    def score(self, x, y=None):
        """The accuracy of the rules: the fraction of top-bags about which they are right.

        Args:
            x: top-bags.
            y: true labels: [top-bags], [top-bags, 1], or one-hot; None for a Dataset, which yields
                them with `x`.

        Raises:
            ValueError: if there are no labels, or labels beside a Dataset.
        """
        batches, truth = self._data(x).labelled(y)
        by_rules, _ = self._classify(batches)
        return self._accuracy(by_rules, truth())["accuracy"]

    def evaluate(self, x, y=None):
        """Fidelity and accuracy at once, each beside what constant rules would reach.

        Constant rules put every top-bag into one class. They are at their best with the most
        frequent one, and then reach its share. `x` is read once.

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
        data = self._data(x)
        if y is None and not data.has_labels:
            return agreement("fidelity", *self._classify(data.batches()))
        batches, truth = data.labelled(y)
        by_rules, by_network = self._classify(batches)
        found = agreement("fidelity", by_rules, by_network)
        return found | self._accuracy(by_rules, truth())

    def _data(self, x):
        """Top-bags, checked."""
        check_is_fitted(self, "levels_")
        return self._network.data(x, self.batch_size)

    def _observe(self, batches):
        """What the network computes on batches of checked top-bags."""
        if fingerprint(self._network.model) != self._fingerprint:
            raise ValueError(
                "Expected the weights that the model had when its rules were learned: fit again. "
                f"Received: model={self._network.model.name!r} with other weights"
            )
        projections = [level.projection for level in self.levels_]
        return (batch.projected(projections) for batch in self._network.batches(batches))

    def _accuracy(self, by_rules, y):
        y = self._target.true_labels(y, len(by_rules), len(self.classes_))
        return agreement("accuracy", by_rules, y)

    def _classify(self, batches):
        """The classes of top-bags by the rules, and by the network."""
        return classify(self.levels_, self._target, self._observe(batches))

    def _read(self, data):
        """A `Reading` of checked top-bags."""
        return read(self.levels_, self._target, self._observe(data.batches()))

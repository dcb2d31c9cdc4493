"""Rules as a classifier of top-bags, and how good it is."""

from sklearn.base import BaseEstimator

from keras_mmil.interpretation.agreement import agreement

__all__ = ["RuleClassifier"]


class RuleClassifier(BaseEstimator):
    """What an `Explainer` does with its rules as a classifier.

    A subclass has `classes_`, the names of the classes, `_target`, a `Target`, and `_read`, from
    top-bags to a `Reading`.
    """

    def predict(self, x):
        """The classes of top-bags by the rules: int [top-bags]."""
        return self._read(x).labels[-1]

    def fidelity(self, x):
        """The fraction of top-bags on which rules and network agree."""
        return self.evaluate(x)["fidelity"]

    def score(self, x, y):
        """The accuracy of the rules: the fraction of top-bags about which they are right.

        Args:
            x: top-bags.
            y: true labels: [top-bags], [top-bags, 1], or one-hot.
        """
        return self._accuracy(self._read(x), y)["accuracy"]

    def evaluate(self, x, y=None):
        """Fidelity and accuracy at once, each beside what constant rules would reach.

        Constant rules put every top-bag into one class. They are at their best with the most
        frequent one, and then reach its share. `x` is read once.

        Args:
            x: top-bags.
            y: true labels, as for `score`; None for the fidelity alone.

        Returns:
            Dict of fractions of the top-bags: "fidelity", and "fidelity_majority", those of the
            network's most frequent class; with `y` also "accuracy", and "accuracy_majority", those
            of the most frequent true class.
        """
        seen = self._read(x)
        fidelity = agreement("fidelity", seen.labels[-1], seen.network)
        return fidelity if y is None else fidelity | self._accuracy(seen, y)

    def _accuracy(self, seen, y):
        by_rules = seen.labels[-1]
        y = self._target.true_labels(y, len(by_rules), len(self.classes_))
        return agreement("accuracy", by_rules, y)

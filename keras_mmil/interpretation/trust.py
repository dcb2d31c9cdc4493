"""What an explainer says about how far its rules can be trusted."""

import numpy as np
import numpy.typing as npt

from keras_mmil.interpretation.evidence.certificate import Certificate, certify
from keras_mmil.interpretation.network.data import TopBags
from keras_mmil.interpretation.rule_classifier import RuleClassifier

__all__ = ["Trust"]


class Trust(RuleClassifier):
    """Evidence about the rules of an `Explainer`.

    A subclass sets, once it is fitted, the hashes of the top-bags that were used.
    """

    _used: npt.NDArray[np.uint64]

    def certify(
        self, x: TopBags, y: npt.ArrayLike | None = None, level: float = 0.95
    ) -> Certificate:
        """Fidelity, accuracy and the precision of each rule, with exact intervals.

        The intervals are right if the top-bags were drawn independently from what the rules will
        be used on, and neither rules nor network have seen them. The first half of that is checked:
        top-bags that the rules were fitted or chosen on are recognised by their hashes. What the
        network was trained on is not known here.

        Args:
            x: top-bags, as for `fit`.
            y: true labels, as for `score`; None for a Dataset, or for no accuracy.
            level: probability that an interval contains the true share, between 0 and 1.

        Returns:
            A `Certificate`, which can be printed. Where some top-bags equal used ones, as small
            graphs may, it says how many, and holds the intervals with and without them.

        Raises:
            ValueError: if all top-bags equal used ones, or more than half, and more than chance
                explains in data that repeat themselves; or if `level` is out of range.
        """
        data = self.top_bags(x)
        found = (self.levels_, self._target, self._used, self._network, self._observe)
        return certify(*found, data, y, level)

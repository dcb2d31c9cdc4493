"""What an explainer says about how far its rules can be trusted."""

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.types import Config
from keras_mmil.interpretation.evidence.certificate import Certificate, certify
from keras_mmil.interpretation.evidence.stability import Stability, stability
from keras_mmil.interpretation.fitting.options import Arguments
from keras_mmil.interpretation.fitting.preparation import Task, prepare
from keras_mmil.interpretation.network.data import TopBags
from keras_mmil.interpretation.rule_classifier import RuleClassifier

__all__ = ["Trust"]


class Trust(RuleClassifier, Arguments):
    """Evidence about the rules of an `Explainer`.

    A subclass sets, once it is fitted, the hashes of the top-bags that were used.
    """

    _used: npt.NDArray[np.uint64]
    _task: Task | None = None  # what was fitted, with the data; not saved, nor copied

    def __getstate__(self) -> Config:
        """What copies and pickles hold: all but the data."""
        return {**super().__getstate__(), "_task": None}

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

        Each refit draws as many top-bags, with replacement, clusters their rows into the numbers of
        clusters that `fit` chose, and grows trees. The network runs once, or twice where a level
        has more than `max_rows` rows.

        Args:
            x, x_valid: the data of `fit`; None for those that it was given, which are neither saved
                nor pickled.
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
            task = prepare(self, self._network.model, x, x_valid)
        if task is None or (x is None and x_valid is not None):
            raise ValueError(
                "Expected x, the data of `fit`, as a loaded explainer, or a copy, is without them. "
                f"Received: x={x!r}"
            )
        self._check_weights()
        return stability(self.levels_, task, n=n, seed=random_state, verbose=verbose)

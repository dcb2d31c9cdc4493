"""What an explainer says about how far its rules can be trusted."""

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.types import Config
from keras_mmil.interpretation.evidence.certificate import Certificate, certify, check_level, count
from keras_mmil.interpretation.evidence.counterfactual import Counterfactual, counterfactual
from keras_mmil.interpretation.evidence.deletion import DeletionTest, deletion
from keras_mmil.interpretation.evidence.stability import Stability, stability
from keras_mmil.interpretation.fitting.options import Arguments
from keras_mmil.interpretation.fitting.preparation import Task, prepare
from keras_mmil.interpretation.fitting.progress import Progress
from keras_mmil.interpretation.network.data import TopBags
from keras_mmil.interpretation.network.fingerprints import fingerprints
from keras_mmil.interpretation.rule_classifier import RuleClassifier
from keras_mmil.interpretation.rules.level import find_clusters
from keras_mmil.ragged import concat, n_top_bags

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

    def hashes(self, x: TopBags) -> npt.NDArray[np.uint64]:
        """A hash of the content of each top-bag, by which `certify` recognises it.

        Args:
            x: top-bags, as for `fit`.

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

        The intervals are right if the top-bags were drawn independently from what the rules will
        be used on, and neither rules nor network have seen them. Top-bags that the rules were
        fitted or chosen on are recognised by their hashes. What the network was trained on is only
        known with `trained_on`.

        Args:
            x: top-bags, as for `fit`.
            y: true labels, as for `score`; None for a Dataset, or for no accuracy.
            level: probability that an interval contains the true share, between 0 and 1.
            trained_on: `hashes` of the top-bags that the network was trained or chosen on; None
                where nobody knows.

        Returns:
            A `Certificate`, which can be printed. Where some top-bags equal used ones, as small
            graphs may, it says how many, and holds the intervals with and without them.

        Raises:
            ValueError: if all top-bags equal used ones, or more than half, and more than chance
                explains in data that repeat themselves; or if `level` is out of range.
        """
        data = self.top_bags(x)
        check_level(level)
        found = count(self.levels_, self._target, self._network, self._observe, data, y)
        return certify(self.levels_[-1], *found, self._used_for(trained_on), level)

    def _used_for(
        self, trained_on: npt.NDArray[np.uint64] | None
    ) -> dict[str, npt.NDArray[np.uint64]]:
        """Hashes of the top-bags that are known to have been used, by what for."""
        used = {"the rules were fitted or chosen on": self._used}
        return used if trained_on is None else used | {"the network was trained on": trained_on}

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
            task = prepare(self, self._network.model, x, x_valid).drawn(Progress(verbose))
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
            x: top-bags, as for `fit`.
            innermost: whether to remove, instead of a bag that decides, only the members in it that
                do, and so on inwards.

        Returns:
            A `DeletionTest`, with a row for each top-bag. A rule that only wants members to be
            absent has none that decide: such top-bags do not count.

        Raises:
            ValueError: if members cannot be removed, as of texts, or of dense inputs.
        """
        data = self.top_bags(x)
        found = (self.levels_, self.classes_, self._target, self._network, self._observe)
        return deletion(*found, data, innermost)

    def counterfactual(
        self, x: TopBags, donors: TopBags | None = None, level: int | str | None = None
    ) -> Counterfactual:
        """The fewest members to remove, or to add, so that the rules say something else.

        Members that are alike to the rules count as one. All combinations of few members are tried,
        as long as there are at most 10,000; of more, the search is greedy, and the result says so.
        Among equally small changes, one that changes the network's class, too, is preferred.

        Args:
            x: a single top-bag, `x[:1]` or `x[0]`.
            donors: top-bags whose members may be added; None for removals only.
            level: whose members may be removed: index of the level, 0 for instances, its symbol, or
                what the data call such members; None for the members of the top-bag itself.

        Raises:
            ValueError: if `x` is not one top-bag, or a Dataset; if members cannot be removed, as of
                texts, or of dense inputs; or for donors of members that are not the top-bag's own.
        """
        check_is_fitted(self, "levels_")
        batches = list(self.top_bags(self._network.as_batch(x)).batches())
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

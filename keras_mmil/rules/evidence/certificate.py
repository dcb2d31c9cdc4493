"""Fidelity, accuracy and precision with exact intervals, on data that the rules have not seen."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from keras_mmil._support.formatting import majority, percent
from keras_mmil._support.types import Bools, Config, Ints, Tensors
from keras_mmil.rules.explain.reading import Reading, read
from keras_mmil.rules.network.capture import Network, Observation
from keras_mmil.rules.network.fingerprints import fingerprints
from keras_mmil.rules.network.sources import Source
from keras_mmil.rules.network.targets import Target
from keras_mmil.rules.trees.level import Level

__all__ = [
    "Certificate",
    "Interval",
    "Outcomes",
    "RulePrecision",
    "UsedTopBagsError",
    "certify",
    "check_level",
    "count",
    "interval",
]

# More known top-bags than chance explains at this probability are not due to chance.
_BEYOND_CHANCE = 1e-6


class UsedTopBagsError(ValueError):
    """Top-bags are those that rules or network were fitted, chosen or trained on."""


@dataclass(frozen=True)
class Interval:
    """A share, and the interval that contains the true one with at least some probability.

    Attributes:
        estimate: k / n; NaN if n is 0.
        low, high: ends of the interval, from 0 to 1.
        n: number of cases.
        k: number of cases that count.
    """

    estimate: float
    low: float
    high: float
    n: int
    k: int

    def to_dict(self) -> Config:
        """For JSON: None for NaN."""
        return asdict(self) | {"estimate": self.estimate if self.n else None}

    def __str__(self) -> str:
        ends = f"{percent(self.low)} to {percent(self.high)}"
        return f"{percent(self.estimate) if self.n else 'unknown'} ({ends})"


def interval(k: int, n: int, level: float = 0.95) -> Interval:
    """The interval of Clopper and Pearson, which is exact: never too short, for any share and n.

    Args:
        k: number of cases that count.
        n: number of independent cases; for none, the interval is from 0 to 1.
        level: least probability that the interval contains the true share, between 0 and 1.

    Reference:
        Clopper and Pearson, The Use of Confidence or Fiducial Limits, 1934.
    """
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, 0, 0)
    ends = binomtest(int(k), int(n)).proportion_ci(level, method="exact")
    return Interval(k / n, float(ends.low), float(ends.high), int(n), int(k))


@dataclass(frozen=True)
class RulePrecision:
    """The precision of one rule of the top-bags.

    Attributes:
        number: of the rule, from 1, as in the printed rules.
        clause: the rule as text.
        precision: of the top-bags that the rule matches, the share that the network puts into the
            rule's class. The intervals of all rules hold jointly with the probability `level`.
        right: of these, the share whose true class it is, likewise; None without labels.
        share: of all top-bags, the share whose true class it is; None without labels.
    """

    number: int
    clause: str
    precision: Interval
    right: Interval | None = None
    share: float | None = None

    @property
    def lift(self) -> float | None:
        """How many times as often as on average the rule's class is the true one, if known."""
        return (
            self.right.estimate / self.share if self.right and self.right.n and self.share else None
        )

    def __str__(self) -> str:
        text = f"{self.number:3}  {self.clause}  # {self.precision} of {self.precision.n}"
        if self.right is None or self.lift is None:
            return text
        return f"{text}; {self.right.k} rightly so, {self.lift:.2g} times the average"

    def to_dict(self) -> Config:
        """For JSON."""
        right = self.right and self.right.to_dict()
        return {**vars(self), "precision": self.precision.to_dict(), "right": right}


@dataclass(frozen=True)
class Certificate:
    """How good rules are, with exact intervals.

    Attributes:
        level: probability with which each interval contains the true share; those of the rules do
            jointly.
        fidelity: share of the top-bags on which rules and network agree.
        accuracy: share that the rules classify correctly; None without labels.
        rules: the precision of each rule of the top-bags.
        majority: share of the network's most frequent class: the fidelity of constant rules.
        n: number of top-bags.
        n_used: number of those that equal top-bags which the rules were fitted or chosen on, or
            which the network was trained on, where these are known.
        without: the certificate of the others; None where `n_used` is 0.
    """

    level: float
    fidelity: Interval
    accuracy: Interval | None
    rules: tuple[RulePrecision, ...]
    majority: float
    n: int
    n_used: int = 0
    without: "Certificate | None" = None

    def text(self) -> str:
        """The intervals, a line each."""
        lines = [
            f"intervals at {percent(self.level)}, of {self.n} top-bags",
            f"fidelity: {self.fidelity}; constant rules: {percent(self.majority)}",
        ]
        if self.accuracy is not None:
            lines.append(f"accuracy: {self.accuracy}")
        lines.append("precision of each rule; the intervals hold all at once:")
        lines += map(str, self.rules)
        if self.without is not None:
            lines += [
                f"{self.n_used} of these top-bags equal some that rules or network were fitted, "
                "chosen or trained on. Without them:",
                self.without.text(),
            ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> Config:
        """For JSON."""
        return {
            **vars(self),
            "fidelity": self.fidelity.to_dict(),
            "accuracy": self.accuracy and self.accuracy.to_dict(),
            "rules": [rule.to_dict() for rule in self.rules],
            "without": self.without and self.without.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What rules and network say of each top-bag.

    Attributes:
        by_rules, by_network: classes, int [top-bags].
        truth: true classes, or None.
        matched: whether each rule matches, bool [top-bags, rules].
    """

    by_rules: Ints
    by_network: Ints
    truth: Ints | None
    matched: Bools

    @classmethod
    def of(cls, top: Level, reading: Reading, truth: Ints | None = None) -> "Outcomes":
        """Those of a reading."""
        known = reading.of_record(top)
        matched = np.stack([rule.matches(known) for rule in top.rules], axis=1)
        return cls(reading.labels[-1], reading.network, truth, matched)

    def some(self, chosen: Bools) -> "Outcomes":
        """Those of some of the top-bags."""
        truth = None if self.truth is None else self.truth[chosen]
        return Outcomes(self.by_rules[chosen], self.by_network[chosen], truth, self.matched[chosen])


def check_level(level: float) -> None:
    """Raise ValueError unless this is a probability of intervals."""
    if not isinstance(level, float) or not 0 < level < 1:
        raise ValueError(f"Expected a probability between 0 and 1. Received: level={level!r}")


def count(
    levels: Sequence[Level],
    target: Target,
    network: Network,
    observe: Callable[[Iterable[Tensors]], Iterable[Observation]],
    data: Source,
    y: npt.ArrayLike | None,
) -> tuple[Outcomes, npt.NDArray[np.uint64]]:
    """The outcomes of some top-bags, and their hashes.

    `observe` runs the network on batches of checked top-bags; `y` are their labels, None for those
    of a Dataset, or for none.
    """
    has_labels = y is not None or data.has_labels
    batches, truth = data.labelled(y) if has_labels else (data.batches(), None)
    prints: list[npt.NDArray[np.uint64]] = []

    def hashed() -> Iterator[Tensors]:
        for batch in batches:
            prints.append(fingerprints(batch, network.model.input, network.paths))
            yield batch

    top = levels[-1]
    parts = [Outcomes.of(top, read(levels, target, [batch])) for batch in observe(hashed())]
    by_rules, by_network, matched = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("by_rules", "by_network", "matched")
    )
    labels = None
    if truth is not None:
        labels = target.true_labels(truth(), len(by_rules), len(top.rules.names))
    return Outcomes(by_rules, by_network, labels, matched), np.concatenate(prints)


def certify(
    top: Level,
    outcomes: Outcomes,
    prints: npt.NDArray[np.uint64],
    used: Mapping[str, npt.NDArray[np.uint64]],
    level: float,
) -> Certificate:
    """Certify rules on some top-bags, given what `count` returned.

    `used` holds hashes of top-bags, each as often as it was used, by what was done with them, such
    as "the rules were fitted or chosen on".

    Raises:
        UsedTopBagsError: if the top-bags are those that were used.
    """
    is_used = np.zeros(len(prints), bool)
    for purpose, known in used.items():
        if len(known):
            is_known = np.isin(prints, known)
            _check_unused(is_known, known, purpose)
            is_used |= is_known
    if is_used.all():
        raise UsedTopBagsError(
            "Expected top-bags that neither rules nor network were fitted, chosen or trained on. "
            f"Received: {len(is_used)} top-bags, all of which equal some of those"
        )
    result = _certificate(top, outcomes, level)
    if not is_used.any():
        return result
    without = _certificate(top, outcomes.some(~is_used), level)
    return replace(result, n_used=int(is_used.sum()), without=without)


def _certificate(top: Level, outcomes: Outcomes, level: float) -> Certificate:
    n, by_network = len(outcomes.by_rules), outcomes.by_network
    of_each = 1 - (1 - level) / len(top.rules)  # the Bonferroni bound
    rules = []
    for number, (rule, matched) in enumerate(zip(top.rules, outcomes.matched.T, strict=True), 1):
        n_matched = int(matched.sum())
        found = RulePrecision(
            number,
            top.rules.clause(rule),
            interval(int((by_network[matched] == rule.conclusion).sum()), n_matched, of_each),
        )
        if outcomes.truth is not None:
            is_so = outcomes.truth == rule.conclusion
            right = interval(int(is_so[matched].sum()), n_matched, of_each)
            found = replace(found, right=right, share=float(is_so.mean()))
        rules.append(found)
    accuracy = None
    if outcomes.truth is not None:
        accuracy = interval(int((outcomes.by_rules == outcomes.truth).sum()), n, level)
    return Certificate(
        level=level,
        fidelity=interval(int((outcomes.by_rules == by_network).sum()), n, level),
        accuracy=accuracy,
        rules=tuple(rules),
        majority=majority(by_network),
        n=n,
    )


def _check_unused(is_used: Bools, used: npt.NDArray[np.uint64], purpose: str) -> None:
    """Refuse top-bags that were used for some purpose.

    They are if all of them are known, or if more than half are and chance does not explain it:
    where data repeat themselves, new top-bags equal known ones about as often as a used top-bag
    occurs more than once (the estimate of Good and Turing).
    """
    n, n_known = len(is_used), int(is_used.sum())
    counts = np.unique(used, return_counts=True)[1]
    repeated = 1 - float((counts == 1).sum() / len(used))
    chance = binomtest(n_known, n, repeated, alternative="greater").pvalue
    if n_known == n or (n_known > n / 2 and chance < _BEYOND_CHANCE):
        raise UsedTopBagsError(
            f"Expected other top-bags than those that {purpose}. "
            f"Received: {n} top-bags, of which {n_known} equal some of those"
        )

"""How far rules depend on the sample that they were fitted on: refits on bootstrap samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Config, Ints
from keras_mmil.interpretation.evidence.refits import Refit, Refitter
from keras_mmil.interpretation.fitting.plan import MEASURED
from keras_mmil.interpretation.fitting.preparation import Task
from keras_mmil.interpretation.rules.level import Level, all_clusters

__all__ = ["RuleStability", "Stability", "stability"]

# A rule whose clusters have the numbers of the original ones: level, conclusion, and conditions.
_Key: TypeAlias = tuple[int, int, frozenset[tuple[object, ...]]]

# Of these, only the sides on which they are bounded are compared, as any sample moves the bounds.
_CONTINUOUS = (*MEASURED, "frequency", "weight")


@dataclass(frozen=True)
class RuleStability:
    """How often a rule comes up again.

    Attributes:
        level: index of its level.
        number: of the rule, from 1, as in the printed rules.
        clause: the rule as text.
        share: of the refits that have it, too.
    """

    level: int
    number: int
    clause: str
    share: float


@dataclass(frozen=True)
class Stability:
    """How far rules depend on their sample.

    Attributes:
        dice: mean of `dices`.
        agreement: mean of `agreements`.
        dices: for each refit, the overlap of its rules with the original ones: twice the number of
            common rules by the number of both.
        agreements: for each refit, the share of validation top-bags that it classifies as the
            original rules do.
        rules: the original rules that are used in decisions, from the instances upwards.
    """

    dice: float
    agreement: float
    dices: tuple[float, ...]
    agreements: tuple[float, ...]
    rules: tuple[RuleStability, ...]

    @property
    def n(self) -> int:
        """Number of refits."""
        return len(self.dices)

    def text(self) -> str:
        """The figures, and a line for each rule."""
        lines = [
            f"{self.n} refits on bootstrap samples",
            f"the same rules (Dice): {percent(self.dice)}, at least {percent(min(self.dices))}",
            f"the same predictions: {percent(self.agreement)}, at least "
            f"{percent(min(self.agreements))}",
            *(f"{percent(r.share, width=5)}  {r.clause}" for r in self.rules),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> Config:
        """As JSON knows it."""
        return vars(self) | {"rules": [vars(rule) for rule in self.rules]}


def stability(levels: Sequence[Level], task: Task, *, n: int, seed: int, verbose: int) -> Stability:
    """Refit rules on bootstrap samples, and compare.

    The numbers of clusters, and the directions in which rows are clustered, are those of the
    original rules. The clusters of a refit are matched with the original ones so that as many rows
    as possible are in clusters that match.

    Args:
        levels: of the original rules, from the instances upwards.
        task: with the data that they were fitted on.
        n: number of refits.
        seed: of the samples.
        verbose: 1 for a progress bar, 0 for none.
    """
    refits = Refitter(levels, task, verbose)
    original = _keys(levels, {})
    dices, agreements = [], []
    counts = dict.fromkeys(original, 0)
    for refit in refits.run(n, seed):
        keys = set(_keys(refit.levels, _matching(levels, refit)))
        common = keys & counts.keys()
        dices.append(2 * len(common) / (len(keys) + len(counts)))
        agreements.append(float(np.mean(refit.predicted == refits.predicted)))
        for key in common:
            counts[key] += 1
    rules = [
        RuleStability(
            level=index,
            number=number,
            clause=levels[index].rules.clause(list(levels[index].rules)[number - 1]),
            share=counts[key] / n,
        )
        for key, (index, number) in original.items()
    ]
    return Stability(
        dice=float(np.mean(dices)),
        agreement=float(np.mean(agreements)),
        dices=tuple(dices),
        agreements=tuple(agreements),
        rules=tuple(rules),
    )


def match(ours: Ints, theirs: Ints, weights: Array, n_ours: int, n_theirs: int) -> Ints:
    """For each of their clusters, the one of ours that it matches; -1 where none is left.

    Args:
        ours, theirs: clusters of the same rows, int [rows].
        weights: of the rows.
        n_ours, n_theirs: numbers of clusters.

    Returns:
        int [n_theirs]. As much weight as possible is of rows in clusters that match.
    """
    pairs = np.bincount(theirs * n_ours + ours, weights, minlength=n_theirs * n_ours)
    rows, columns = linear_sum_assignment(pairs.reshape(n_theirs, n_ours), maximize=True)
    found = np.full(n_theirs, -1)
    found[rows] = columns
    return found


def _matching(levels: Sequence[Level], refit: Refit) -> dict[int, Ints]:
    """For each bag-layer, the original cluster of each cluster of a refit."""
    found = {}
    for ours, theirs in zip(all_clusters(levels), all_clusters(refit.levels), strict=True):
        known, labels, weights = refit.rows[ours.level]
        found[ours.level] = match(known, labels, weights, ours.n_clusters, theirs.n_clusters)
    return found


def _keys(levels: Sequence[Level], matching: dict[int, Ints]) -> dict[_Key, tuple[int, int]]:
    """The rules that are used in decisions, and for each the index of its level and its number."""
    found: dict[_Key, tuple[int, int]] = {}
    for index, level in enumerate(levels):
        columns = level.rules.columns
        clusters = {
            at.start + i: (bag.level, int(number))
            for bag, at in level.space.of_bags
            for i, number in enumerate(matching.get(bag.level, np.arange(at.stop - at.start)))
        }
        names = matching.get(level.record)
        for number, rule in enumerate(level.rules, 1):
            if not level.rules.needed[rule.conclusion]:
                continue
            conditions = []
            for each in rule.conditions:
                bounds = np.array([each.low, each.high])
                if columns[each.column].feature in _CONTINUOUS:
                    bounds = np.isfinite(bounds)
                what = clusters.get(each.column, each.column)
                conditions.append((what, *bounds.tolist()))
            conclusion = rule.conclusion if names is None else int(names[rule.conclusion])
            found[level.record, conclusion, frozenset(conditions)] = index, number
    return found

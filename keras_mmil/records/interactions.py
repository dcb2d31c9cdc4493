"""Pairs of facts whose number of members tells more of a target than the two facts do.

That a customer has items that are dear and badly rated is in no statistic of prices, nor of
ratings. There are too many such pairs to count all. So those are counted whose number is correlated
with the target even given the numbers of members with each fact alone: an interaction, in the
terms of regression.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tensorflow as tf
from scipy import sparse, stats

from keras_mmil._support.types import Array, Floats, Ints

__all__ = ["Occurrences", "interactions"]

_LEVEL = 0.05  # of significance, of all that is tested
_MOST, _OF_FIELDS = 64, 8  # pairs of a bag, and of two fields
_FEW = 20  # records, at least, with a fact
_ALIKE = 0.95  # correlation of numbers that tell the same
_TRIED = 1_000  # pairs
_FACTS, _CELLS = 400, 1_000_000_000  # at most; and of members times pairs of facts
_ROUNDING = 1e-9  # share of a sum of squares that can be rounding


@dataclass(frozen=True)
class Occurrences:
    """Where the members of a bag are, at any depth, and what is to be told.

    Attributes:
        numbers: how often each distinct row is in each record at the top, [records, rows].
        targets: what each record is to be told apart by, float [records, n].
        share: of the level of significance, for this bag.
    """

    numbers: sparse.csr_matrix
    targets: Floats
    share: float

    @classmethod
    def of(cls, ids: tf.RaggedTensor, n_rows: int, targets: Floats, share: float) -> "Occurrences":
        """Of the row at each place, [records, (n₁), …]."""
        records = np.arange(len(targets))
        for splits in ids.nested_row_splits:
            records = np.repeat(records, np.diff(splits.numpy()))
        rows = ids.flat_values.numpy()
        places = np.ones(len(rows)), (records, rows)
        return cls(sparse.csr_matrix(places, (len(targets), n_rows)), targets, share)

    @cached_property
    def known(self) -> Array:
        """An orthonormal basis of what is known anyway: 1, and the number of members."""
        n = len(self.targets)
        sizes = np.asarray(self.numbers.sum(axis=1)).ravel()
        constant = np.full((n, 1), n**-0.5)
        left = sizes[:, None] - sizes.mean()
        norm = np.linalg.norm(left)
        return constant if norm == 0 else np.hstack([constant, left / norm])

    def unknown(self, columns: Array) -> Array:
        """What is left of columns [records, n] given what is known."""
        return columns - self.known @ (self.known.T @ columns)

    @cached_property
    def goal(self) -> Array:
        """The columns of the target that are not known anyway, of length 1."""
        targets = self.targets.astype(float)
        left = self.unknown(targets)
        norms = np.linalg.norm(left, axis=0)
        there = norms**2 > _ROUNDING * (targets**2).sum(axis=0)
        return left[:, there] / norms[there]


def interactions(
    facts: Array,
    fields: Ints,
    cases: Ints,
    occurrences: Occurrences,
    taken: Sequence[tuple[int, int]] = (),
) -> list[tuple[int, int]]:
    """The pairs of facts that tell most of a target beyond each fact.

    A pair is chosen if the partial correlation of its number with the target, given the numbers of
    members, and of those with each of the facts, is significant among all that are tested
    (Bonferroni), also where the variance of the target differs (White, 1980). So of targets that
    are independent of the records, any is chosen in one of twenty data sets at most, although
    the choice sees the targets of records that are held out later.

    Args:
        facts: which are true of each row, 1.0 or 0.0, [rows, facts].
        fields: the field that each fact is about, [facts].
        cases: a number for each fact, equal for a fact and its opposite, [facts]. Of pairs that
            differ in opposites alone, the one whose number is most correlated with the target is
            chosen.
        occurrences: of the rows.
        taken: pairs that are counted anyway.

    Returns:
        Pairs of different fields, the most significant pair first; of each the first fact first.
    """
    if not occurrences.goal.shape[1]:
        return []
    some = _telling(facts, occurrences)
    tested = _Tested.of(facts[:, some], fields[some], occurrences)
    if tested is None:
        return []
    found: list[tuple[int, int]] = []
    columns: list[Array] = []
    n_of = Counter[tuple[int, int]]()
    known = {(min(pair), max(pair)) for pair in taken}
    for i, j in tested.candidates(cases[some]):
        pair, of = (int(some[i]), int(some[j])), (int(fields[some[i]]), int(fields[some[j]]))
        if pair in known or n_of[of] == _OF_FIELDS or not tested.holds(i, j):
            continue
        column = occurrences.unknown(tested.number(i, j)[:, None])[:, 0]
        column /= np.linalg.norm(column)
        if any(abs(column @ other) > _ALIKE for other in columns):
            continue
        n_of[of] += 1
        found.append(pair)
        columns.append(column)
        if len(found) == _MOST:
            break
    return found


def _telling(facts: Array, occurrences: Occurrences) -> Ints:
    """The facts that vary; of many, those that are most correlated with the target."""
    singles = occurrences.numbers @ facts
    left = occurrences.unknown(singles)
    squares = (left**2).sum(axis=0)
    varies = (squares > _ROUNDING * (singles**2).sum(axis=0)) & ((singles > 0).sum(axis=0) >= _FEW)
    cosines = occurrences.goal.T @ left / np.sqrt(np.where(varies, squares, np.inf))
    most = min(_FACTS, int((2 * _CELLS / max(occurrences.numbers.nnz, 1)) ** 0.5))
    order = np.argsort(-np.abs(cosines).max(axis=0), kind="stable")
    return np.sort(order[varies[order]][:most])


@dataclass(frozen=True)
class _Tested:
    """Facts of which all pairs are tested.

    Attributes:
        facts, fields, occurrences: as in `interactions`.
        left: the numbers of members with each fact, without what is known, [records, facts].
        t: the statistic of each pair, of the column of the target where it is greatest: absolute
            values [facts, facts], 0 where i ≥ j.
        column: which one.
        cosines: absolute correlation with the target, given the number of members alone.
        least: the critical value of the statistic.
    """

    facts: Array
    fields: Ints
    occurrences: Occurrences
    left: Array
    t: Array
    column: Ints
    cosines: Array
    least: float

    @classmethod
    def of(cls, facts: Array, fields: Ints, occurrences: Occurrences) -> "_Tested | None":
        """Test all pairs; None if there are none, or too few records."""
        known, goal = occurrences.known, occurrences.goal
        n, size = facts.shape[1], len(goal)
        n_pairs = sum(int((fields[i + 1 :] != fields[i]).sum()) for i in range(n))
        degrees = size - known.shape[1] - 3
        if not n_pairs or degrees < 1:
            return None
        left = occurrences.unknown(occurrences.numbers @ facts)
        a_a, a_y, gram = (left**2).sum(axis=0), goal.T @ left, left.T @ left
        t, cosines, column = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n), int)
        for i in range(n - 1):
            at = np.flatnonzero(fields != fields[i])
            at = at[at > i]
            if not len(at):
                continue
            both = occurrences.numbers @ (facts[:, at] * facts[:, [i]])
            squares = (both**2).sum(axis=0)
            p_p = squares - ((known.T @ both) ** 2).sum(axis=0)
            p_a, p_y = left[:, i] @ both, goal.T @ both
            p_b = np.einsum("rf,rf->f", left[:, at], both)
            # Without what the first fact tells, and then the second one.
            b_b = a_a[at] - gram[i, at] ** 2 / a_a[i]
            differs = b_b > _ROUNDING * a_a[at]
            b_b = np.where(differs, b_b, 1)
            p_b = np.where(differs, p_b - gram[i, at] / a_a[i] * p_a, 0)
            b_y = np.where(differs, a_y[:, at] - gram[i, at] / a_a[i] * a_y[:, [i]], 0)
            rest = p_p - p_a**2 / a_a[i] - p_b**2 / b_b
            varies = rest > _ROUNDING * np.maximum(squares, 1)
            of_y = 1 - a_y[:, [i]] ** 2 / a_a[i] - b_y**2 / b_b
            covariance = p_y - p_a / a_a[i] * a_y[:, [i]] - p_b / b_b * b_y
            scale = np.where(varies, rest, 1) * np.maximum(of_y, _ROUNDING)
            r = np.where(varies & (of_y > _ROUNDING), np.abs(covariance) / np.sqrt(scale), 0)
            of_pairs = r * np.sqrt(degrees / np.maximum(1 - r**2, _ROUNDING))
            t[i, at], column[i, at] = of_pairs.max(axis=0), of_pairs.argmax(axis=0)
            cosines[i, at] = np.abs(p_y).max(axis=0) / np.sqrt(np.where(varies, p_p, np.inf))
        n_tests = n_pairs * goal.shape[1]
        least = float(stats.t.isf(_LEVEL * occurrences.share / (2 * n_tests), degrees))
        return cls(facts, fields, occurrences, left, t, column, cosines, least)

    def candidates(self, cases: Ints) -> Iterator[tuple[int, int]]:
        """Significant pairs, the most significant first; one of those of opposite facts."""
        i, j = np.nonzero(self.t > self.least)
        of_cases = cases[i] * (cases.max(initial=0) + 1) + cases[j]
        _, groups = np.unique(of_cases, return_inverse=True)
        greatest = np.zeros(groups.max(initial=-1) + 1)
        np.maximum.at(greatest, groups, self.t[i, j])
        order = np.lexsort((-self.cosines[i, j], groups, -greatest[groups]))
        first = np.unique(groups[order], return_index=True)[1]
        chosen = order[np.sort(first)][:_TRIED]
        yield from zip(i[chosen].tolist(), j[chosen].tolist(), strict=True)

    def number(self, i: int, j: int) -> Array:
        """The number of members with both facts, in each record."""
        return self.occurrences.numbers @ (self.facts[:, i] * self.facts[:, j])

    def holds(self, i: int, j: int) -> bool:
        """Whether a pair is significant where the variance of the target may differ.

        Its statistic is at most the root of the number of records that it rests on, so that few
        records are not enough, either.
        """
        known = np.hstack([self.occurrences.known, self.left[:, [i, j]]])
        basis, r = np.linalg.qr(known / np.linalg.norm(known, axis=0))
        basis = basis[:, np.abs(np.diag(r)) > _ROUNDING**0.5]
        both = np.stack([self.number(i, j), self.occurrences.goal[:, self.column[i, j]]])
        x, y = both - (both @ basis) @ basis.T
        return bool(abs(x @ y) > self.least * np.linalg.norm(x * y))

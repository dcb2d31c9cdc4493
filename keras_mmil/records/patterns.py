"""What the members of bags look like, in words: frequent patterns, and frequent pairs of facts.

Substructures tell more than the fields they consist of: that two of an atom's bonds are double ones
to an oxygen, not that there are two oxygens and two double bonds. The number of members with each
pattern is what the Weisfeiler-Lehman kernel compares graphs by (Shervashidze et al., 2011). A pair
is a fact about the members of which another is true: that agents, and not customers, wait for long.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mmil.layers.statistics import Pattern, Summarized, Test

__all__ = ["Contents", "facts_in_words"]

_LEAST, _MOST = 5, 256  # different bags with a pattern, or members with a pair; and how many
_CELLS = 1_000_000  # pairs, at most, among which frequent ones are sought
_CONDITIONS = 8  # categories of a field, at most, one of which is in each pair


class Contents:
    """The members of the bags of a path, in some records.

    Args:
        bag: the path.
        fields: of a member.
        columns: values of each field, [rows].
        members: rows of the members of each bag; and, if equal ones are merged, their weights.
        inner: the bags in the rows: their contents, and the bag of each row.
    """

    def __init__(
        self,
        bag: str,
        fields: Sequence[Summarized],
        columns: Sequence[tf.Tensor],
        members: Sequence[tf.RaggedTensor],
        inner: "Sequence[tuple[Contents, tf.Tensor]]",
    ) -> None:
        self.bag = bag
        self._fields = fields
        pairs = zip(fields, columns, strict=False)
        self._columns = [(field, x.numpy()) for field, x in pairs if field.is_keyed]
        rows = members[0]
        self._splits, self._rows = rows.row_splits.numpy(), rows.flat_values.numpy()
        self._weights = np.ones(len(self._rows), int)
        if len(members) > 1:
            self._weights = members[1].flat_values.numpy().astype(int)
        self._inner = [(contents, ids.numpy()) for contents, ids in inner]

    def patterns(self, keys: tf.Tensor) -> list[tuple[int, str, Pattern]]:
        """Keys and descriptions of patterns of several fields, the most frequent first.

        Args:
            keys: of the pattern of each row: see `BagStatistics.keys`.
        """
        if len(self._columns) + len(self._inner) < 2:
            return []  # counted by category
        bags = np.repeat(np.arange(len(self._splits) - 1), np.diff(self._splits))
        there = self._weights > 0
        distinct, first, ids = np.unique(keys.numpy(), return_index=True, return_inverse=True)
        found = np.unique(ids[self._rows[there]].astype(np.int64) * len(bags) + bags[there])
        counts = np.bincount(found // max(len(bags), 1), minlength=len(distinct))
        order = np.argsort(-counts, kind="stable")[:_MOST]
        order = order[counts[order] >= _LEAST]
        patterns = [(int(distinct[i]), self._pattern(int(first[i]))) for i in order]
        return [(key, self._described(pattern), pattern) for key, pattern in patterns]

    def pairs(self, facts: tf.Tensor) -> list[tuple[int, int, str]]:
        """Numbers and descriptions of pairs of facts about different fields, frequent ones first.

        One is about a boolean or a field of few categories. Pairs of which one implies the other
        are left out.

        Args:
            facts: which are true of each row: see `BagStatistics.facts`.
        """
        sizes = [len(field.facts) for field in self._fields]
        field_of_each = np.repeat(np.arange(len(sizes)), sizes)
        # What is true of others, up to those of which the number is missing, is no further fact.
        facts_of_all = [fact for field in self._fields for fact in field.facts]
        is_opposite = np.array(["at_most" in fact for fact in facts_of_all], bool)
        conditions = [
            field.kind == "boolean"
            or (field.kind == "category" and len(field.values) <= _CONDITIONS)
            for field in self._fields
        ]
        is_condition = np.array(conditions, bool)[field_of_each]
        weights = np.bincount(self._rows, self._weights, minlength=len(facts))
        matrix = facts.numpy()
        single = weights @ matrix
        most = max(_CELLS // max(len(single), 1), 1)  # conditions, the frequent ones
        first = np.flatnonzero(is_condition)
        first = np.sort(first[np.argsort(-single[first], kind="stable")[:most]])
        both = (matrix[:, first] * weights[:, None]).T @ matrix
        is_new = (both < single) & (both < single[first, None]) & (both >= _LEAST)
        is_new &= (field_of_each[first, None] != field_of_each) & ~is_opposite
        # Of two conditions, the first one comes first.
        places = np.arange(len(single))
        is_new &= ~np.isin(places, first) | (first[:, None] < places)
        i, j = np.nonzero(is_new)
        best = np.argsort(-both[i, j], kind="stable")[:_MOST]
        names = facts_in_words(self.bag, self._fields)
        pairs = zip(first[i[best]].tolist(), j[best].tolist(), strict=True)
        return [(a, b, f"{names[a]}, {names[b]}") for a, b in pairs]

    def _pattern(self, row: int) -> Pattern:
        """The pattern of a row."""
        values = [_value(field, x[row]) for field, x in self._columns]
        return values, [contents._patterns(int(bags[row])) for contents, bags in self._inner]

    def _patterns(self, bag: int) -> list[tuple[int, Pattern]]:
        """The patterns of the members of a bag, in alphabetical order, with how many have each."""
        at = slice(*self._splits[bag : bag + 2])
        counts, patterns = Counter[str](), dict[str, Pattern]()
        for row, weight in zip(self._rows[at].tolist(), self._weights[at].tolist(), strict=True):
            pattern = self._pattern(row)
            text = self._short(pattern)
            counts[text] += weight
            patterns[text] = pattern
        return [(n, patterns[text]) for text, n in sorted(counts.items()) if n]

    def _described(self, pattern: Pattern) -> str:
        """A pattern in words: "element C, bonds: 2 × double O, single C"."""
        values, bags = pattern
        parts = [
            shown if field.kind == "boolean" else f"{_named(self.bag, field)} {shown}"
            for (field, _), shown in zip(self._columns, self._shown(values), strict=True)
        ]
        for (contents, _), members in zip(self._inner, bags, strict=True):
            name = contents.bag.removeprefix(self.bag).lstrip(".")
            parts.append(f"{name}: {contents._listed(members)}")
        return ", ".join(parts)

    def _listed(self, members: Sequence[tuple[int, Pattern]]) -> str:
        """The members of a bag in words, "2 × double O, single C"."""
        pairs = [(n, self._short(pattern)) for n, pattern in members]
        return ", ".join(f"{n} × {text}" if n > 1 else text for n, text in pairs) or "none"

    def _short(self, pattern: Pattern) -> str:
        """A pattern in words, without the names of categories."""
        values, bags = pattern
        pairs = zip(self._inner, bags, strict=True)
        inner = [f"({contents._listed(members)})" for (contents, _), members in pairs]
        return " ".join([*self._shown(values), *inner])

    def _shown(self, values: Sequence[Any]) -> Iterator[str]:
        """The values of a pattern in words."""
        for (field, _), value in zip(self._columns, values, strict=True):
            if field.kind == "boolean":
                sign = "missing " if value is None else "" if value else "not "
                yield f"{sign}{_named(self.bag, field)}"
            else:
                yield "other" if value is None else _shown(value)


def _value(field: Summarized, value: Any) -> Any:
    """A boolean or category in a pattern: None for a missing boolean, or another category."""
    if field.kind == "boolean":
        return None if np.isnan(value) else bool(value > 0.5)
    value = value.decode(errors="replace") if isinstance(value, bytes) else int(value)
    return value if value in field.values else None


def facts_in_words(bag: str, fields: Sequence[Summarized]) -> list[str]:
    """Facts about the members of a bag, in the order of `BagStatistics.facts`."""
    return [_said(field, _named(bag, field), fact) for field in fields for fact in field.facts]


def _named(bag: str, field: Summarized) -> str:
    return field.path.removeprefix(bag).lstrip(".").removesuffix("[]")


def _said(field: Summarized, name: str, fact: Test) -> str:
    """A fact about a field in words."""
    if field.kind == "boolean":
        return name
    if field.kind == "text":
        return f"{name} with {fact['word']!r}"
    if field.kind == "category":
        return f"{name} {_shown(fact['is'])}"
    return f"{name} > {fact['above']:g}" if "above" in fact else f"{name} ≤ {fact['at_most']:g}"


def _shown(value: Any) -> str:
    """A category; in quotation marks, if it is more than a word."""
    return str(value) if re.fullmatch(r"\w+", str(value)) else repr(value)

"""What the members of bags look like: frequent patterns, in words.

Substructures tell more than the fields they consist of: that two of an atom's bonds are double ones
to an oxygen, not that there are two oxygens and two double bonds. The number of members with each
pattern is what the Weisfeiler-Lehman kernel compares graphs by (Shervashidze et al., 2011).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_mmil.layers.statistics import Summarized

__all__ = ["Contents"]

_LEAST, _MOST = 5, 256  # different bags with a pattern, and patterns that are counted


class Contents:
    """The members of the bags of a path, in some records.

    Args:
        bag: the path.
        fields: of a member.
        columns: values of each field, [rows].
        keys: of the pattern of each row, int64: see `BagStatistics.keys`.
        members: rows of the members of each bag; and, if equal ones are merged, their weights.
        inner: the bags in the rows: their contents, and the bag of each row.
    """

    def __init__(
        self,
        bag: str,
        fields: Sequence[Summarized],
        columns: Sequence[tf.Tensor],
        keys: tf.Tensor,
        members: Sequence[tf.RaggedTensor],
        inner: "Sequence[tuple[Contents, tf.Tensor]]",
    ) -> None:
        self.bag = bag
        pairs = zip(fields, columns, strict=False)
        self._columns = [(field, x.numpy()) for field, x in pairs if field.is_keyed]
        self._keys = keys.numpy()
        rows = members[0]
        self._splits, self._rows = rows.row_splits.numpy(), rows.flat_values.numpy()
        self._weights = np.ones(len(self._rows), int)
        if len(members) > 1:
            self._weights = members[1].flat_values.numpy().astype(int)
        self._inner = [(contents, ids.numpy()) for contents, ids in inner]

    def frequent(self) -> list[tuple[int, str]]:
        """Keys and descriptions of patterns of several fields, the most frequent first."""
        if len(self._columns) + len(self._inner) < 2:
            return []  # counted by category
        bags = np.repeat(np.arange(len(self._splits) - 1), np.diff(self._splits))
        there = self._weights > 0
        keys, first, ids = np.unique(self._keys, return_index=True, return_inverse=True)
        pairs = np.unique(ids[self._rows[there]].astype(np.int64) * len(bags) + bags[there])
        counts = np.bincount(pairs // max(len(bags), 1), minlength=len(keys))
        order = np.argsort(-counts, kind="stable")[:_MOST]
        return [(int(keys[i]), self._of_row(int(first[i]))) for i in order if counts[i] >= _LEAST]

    def _of_row(self, row: int) -> str:
        """A row in words: "element C, bonds: 2 × double O, single C"."""
        named = [field.path.removeprefix(self.bag).lstrip(".") for field, _ in self._columns]
        parts = [
            shown if field.kind == "boolean" else f"{name} {shown}"
            for (field, _), name, shown in zip(self._columns, named, self._values(row), strict=True)
        ]
        for contents, bags in self._inner:
            name = contents.bag.removeprefix(self.bag).lstrip(".")
            parts.append(f"{name}: {contents._of_bag(int(bags[row]))}")
        return ", ".join(parts)

    def _of_bag(self, bag: int) -> str:
        """A bag in words, "2 × double O, single C"."""
        at = slice(*self._splits[bag : bag + 2])
        counts: Counter[str] = Counter()
        for row, weight in zip(self._rows[at].tolist(), self._weights[at].tolist(), strict=True):
            counts[self._short(row)] += weight
        found = [f"{n} × {text}" if n > 1 else text for text, n in sorted(counts.items()) if n]
        return ", ".join(found) or "none"

    def _short(self, row: int) -> str:
        """A row in words, without the names of categories."""
        inner = [f"({contents._of_bag(int(bags[row]))})" for contents, bags in self._inner]
        return " ".join([*self._values(row), *inner])

    def _values(self, row: int) -> Iterator[str]:
        """The values of a row in words."""
        for field, x in self._columns:
            value = x[row]
            if field.kind == "boolean":
                name = field.path.removeprefix(self.bag).lstrip(".")
                sign = "missing " if np.isnan(value) else "" if value > 0.5 else "not "
                yield f"{sign}{name}"
                continue
            value = value.decode(errors="replace") if isinstance(value, bytes) else int(value)
            is_plain = re.fullmatch(r"\w+", str(value))
            shown = str(value) if is_plain else repr(value)
            yield shown if value in field.values else "other"

"""What the clusters stand for: their sizes and true labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_mmil._support.files import finite
from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Config, Ints
from keras_mmil.interpretation.network.nesting import expand
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.rules.definition import Definition
from keras_mmil.interpretation.rules.level import (
    Clusters,
    Level,
    all_clusters,
    level_word,
    titles,
)

__all__ = ["Description", "LevelDescription", "describe"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelDescription:
    """The clusters of one level.

    Attributes:
        level: 0 for instances.
        word: what one of its rows is called.
        words: what several are called.
        title: "instance", "sub-bag", ..., or the path of the rows: no other level has it.
        names: names of the clusters.
        sizes: fraction of the rows in each cluster, [k].
        needed: whether the class of any top-bag can depend on it, [k].
        table: rows of each cluster (first axis) and true label, [k, labels]; None if not known.
        label_names: names of the true labels.
        definition: of the clusters, in the names of fields; None where there is none.
    """

    level: int
    word: str
    words: str
    title: str
    names: tuple[str, ...]
    sizes: Array
    needed: tuple[bool, ...]
    table: Array | None = None
    label_names: tuple[str, ...] = ()
    definition: Definition | None = None

    @property
    def majority(self) -> Ints:
        """Most frequent true label of each cluster, int [k]; -1 where a cluster has no rows."""
        table = self.known_table
        return np.where(table.any(axis=1), table.argmax(axis=1), -1)

    @property
    def share(self) -> Array:
        """Fraction of each cluster's rows that have its majority label, [k]; 0 without rows."""
        table = self.known_table
        totals = table.sum(axis=1)
        return np.divide(table.max(axis=1), totals, out=np.zeros(len(totals)), where=totals > 0)

    @property
    def known_table(self) -> Array:
        """The table.

        Raises:
            ValueError: if the true labels are not known.
        """
        if self.table is None:
            raise ValueError(
                "Expected the description of a level whose true labels were given. "
                f"Received: description of {self.words} without a table"
            )
        return self.table

    def records(self) -> Iterator[Config]:
        """One dict for each cluster."""
        for cluster, name in enumerate(self.names):
            record = {
                "level": self.level,
                "rows": self.word,
                "cluster": name,
                "size": float(self.sizes[cluster]),
                "needed": bool(self.needed[cluster]),
            }
            if self.table is not None:
                known = self.majority[cluster] >= 0
                record["majority"] = self.label_names[self.majority[cluster]] if known else None
                record["share"] = float(self.share[cluster])
                counts = zip(self.label_names, self.table[cluster].tolist(), strict=True)
                record["table"] = dict(counts)
            if self.definition is not None:
                record["definition"] = self.definition.text(cluster)
                record["definition_precision"] = self.definition.precision(cluster)
                record["definition_recall"] = self.definition.recall(cluster)
            yield record

    def __str__(self) -> str:
        defined = "" if self.definition is None else f"; definitions: {self.definition.figures}"
        lines = [f"clusters of {self.words}{defined}"]
        width = max(map(len, self.names))
        for cluster, record in enumerate(self.records()):
            line = f"  {record['cluster']:<{width}}  {percent(record['size'], width=5)}"
            if self.table is not None and record["majority"] is not None:
                line += f", of which {percent(record['share'], width=5)} are {record['majority']}"
            if self.definition is not None:
                line += f": {self.definition.summary(cluster)}"
            lines.append(line if record["needed"] else line + "  (not used)")
        return "\n".join(lines)


@dataclass(frozen=True)
class Description:
    """The clusters of all levels, from the instances upwards."""

    levels: tuple[LevelDescription, ...]

    def __iter__(self) -> Iterator[LevelDescription]:
        return iter(self.levels)

    def __getitem__(self, level: int) -> LevelDescription:
        return self.levels[level]

    def to_dict(self) -> Config:
        """As JSON knows it: a list of clusters for each level; None for what is not finite."""
        found: Config = finite({level.title: list(level.records()) for level in self.levels})
        return found

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.levels))


def describe(
    levels: Sequence[Level],
    reading: Reading | None,
    truths: Mapping[int, Any],
    label_names: Mapping[str, Sequence[str]],
) -> Description:
    """Describe the clusters of all levels.

    Args:
        levels: from the instances upwards.
        reading: of some top-bags; None for the sizes of the clusters on the training data.
        truths: dict from level to the true labels of its rows, or None.
        label_names: dict from words ("instance", "sub-bag") to names of those labels.

    Raises:
        ValueError: if labels are not as many as rows, or not integers ≥ 0, or of nothing.
    """
    clusters = all_clusters(levels)
    _check_truths(levels, clusters, truths)
    needed = {
        bag.level: here
        for level in levels
        for bag, here in zip(level.clusters, level.needed, strict=True)
    }
    if reading is None:
        if any(truth is not None for truth in truths.values()):
            raise ValueError("Expected x, the top-bags that the labels are of. Received: x=None")
        return Description(
            tuple(
                LevelDescription(
                    level=bag.level,
                    word=bag.word,
                    words=bag.words,
                    title=title,
                    names=bag.names,
                    sizes=bag.sizes,
                    needed=needed[bag.level],
                    definition=bag.definition,
                )
                for title, bag in zip(titles(clusters), clusters, strict=True)
            )
        )
    described = []
    occurrences = expand(reading.nestings, reading.parents)
    for title, bag, here in zip(titles(clusters), clusters, occurrences, strict=True):
        labels = reading.nearest[bag.level][here.rows]
        truth, names = truths.get(bag.level), label_names.get(bag.word)
        table = None
        if truth is not None:
            truth = _flat_labels(truth, len(labels), bag.words)
            names = names or tuple(map(str, range(truth.max(initial=0) + 1)))
            table = _table(labels, truth, here.total_weights, shape=(bag.n_clusters, len(names)))
        sizes = np.bincount(labels, here.total_weights, minlength=bag.n_clusters)
        described.append(
            LevelDescription(
                level=bag.level,
                word=bag.word,
                words=bag.words,
                title=title,
                names=bag.names,
                sizes=sizes / (sizes.sum() or 1.0),
                needed=needed[bag.level],
                table=table,
                label_names=tuple(names or ()),
                definition=bag.definition,
            )
        )
    return Description(tuple(described))


def _check_truths(
    levels: Sequence[Level], clusters: Sequence[Clusters], truths: Mapping[int, Any]
) -> None:
    """Raise ValueError where labels are given of levels that there are not."""
    given = [level for level, truth in truths.items() if truth is not None]
    parents = {bag.level: level.record for level in levels for bag in level.clusters}
    is_row = all(parent == level + 1 for level, parent in parents.items())
    if given and not (is_row and max(given) < len(clusters)):
        wanted = " and ".join(f"{level_word(level, len(truths))}s" for level in given)
        raise ValueError(
            f"Expected labels of {wanted} only where bag-layers are one above the other, down to "
            f"these. Received: labels, for bag-layers on {', '.join(titles(clusters))}"
        )


def _flat_labels(labels: Any, n_rows: int, words: str) -> Ints:
    flat = np.asarray(getattr(labels, "flat_values", labels))
    if flat.shape != (n_rows,) or flat.dtype.kind not in "iu" or flat.min(initial=0) < 0:
        raise ValueError(
            f"Expected an integer label ≥ 0 for each of {n_rows} {words}, nested like x. "
            f"Received: labels of {words}, shape {flat.shape}, dtype {flat.dtype}"
        )
    return flat


def _table(clusters: Ints, truth: Ints, weights: Array, shape: tuple[int, int]) -> Array:
    """Summed weights of the rows of each cluster and true label: [k, labels]."""
    n_clusters, n_labels = shape
    if truth.max(initial=0) >= n_labels:
        raise ValueError(
            f"Expected labels below {n_labels}, the number of their names. "
            f"Received: label {truth.max()}"
        )
    cells = clusters * n_labels + truth
    return np.bincount(cells, weights, minlength=n_clusters * n_labels).reshape(shape)

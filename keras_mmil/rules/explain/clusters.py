"""Descriptions of clusters: their sizes, their true labels, and the rows that represent them."""

import html
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import pairwise_distances

from keras_mmil._support.files import finite
from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Config, Ints
from keras_mmil.rules.explain.explanation import Shows, show_of
from keras_mmil.rules.explain.reading import Reading, position_of
from keras_mmil.rules.fitting.cluster import nearest
from keras_mmil.rules.fitting.search import GridPoint
from keras_mmil.rules.network.capture import Observation
from keras_mmil.rules.network.nesting import expand
from keras_mmil.rules.trees.level import (
    Clusters,
    Level,
    all_clusters,
    level_word,
    titled,
    titles,
)
from keras_mmil.rules.trees.rule_set import Definition

__all__ = [
    "ClusterTable",
    "ClusterView",
    "Description",
    "FidelityGrid",
    "LevelDescription",
    "Representative",
    "cluster_table",
    "cluster_views",
    "describe",
    "fidelity_grids",
    "representatives",
]

_DIM = "color:#9a9a9a"
_MAJORITY = 0.5  # least share of a true label that names a cluster


# Descriptions -----------------------------------------------------------------------------------


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
        table: rows of each cluster (first axis) and true label, [k, labels]; None if unknown.
        label_names: names of the true labels.
        definition: of the clusters, by fields; None where there is none.
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
    def majority_names(self) -> dict[int, str]:
        """Names for `Explainer.rename`, by cluster: the true label of at least half of its rows.

        Where several clusters have one label, all but the largest are numbered: "7", "7 (2)".
        """
        names: dict[int, str] = {}
        seen = Counter[str]()
        for cluster in np.argsort(-self.known_table.sum(axis=1), kind="stable").tolist():
            if self.share[cluster] >= _MAJORITY:
                name = self.label_names[self.majority[cluster]]
                seen[name] += 1
                names[cluster] = name if seen[name] == 1 else f"{name} ({seen[name]})"
        return names

    @property
    def known_table(self) -> Array:
        """The table.

        Raises:
            ValueError: if the true labels are unknown.
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
            if record.get("majority") is not None:
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
        """For JSON: a list of clusters for each level; None for numbers that are not finite."""
        result: Config = finite({level.title: list(level.records()) for level in self.levels})
        return result

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.levels))


def describe(
    levels: Sequence[Level],
    reading: Reading | None,
    truths: Mapping[int, Any],
    label_names: Mapping[str, Sequence[str]],
) -> Description:
    """Describe the clusters of all levels.

    Without a reading of some top-bags, sizes are those on the training data. `truths` are the true
    labels of the rows of some levels, `label_names` their names by "instance" and "sub-bag".

    Raises:
        ValueError: if there is no level or reading for some labels, if there is not one label for
            each row, or if labels are not integers ≥ 0.
    """
    _check_truths(levels, truths)
    if reading is None and any(truth is not None for truth in truths.values()):
        raise ValueError("Expected x, the top-bags that the labels are of. Received: x=None")
    occurrences = () if reading is None else expand(reading.nestings, reading.parents)
    described = []
    for title, bag, needed in titled(levels):
        sizes, table = bag.sizes, None
        words = bag.word, level_word(bag.level, len(titled(levels)))
        names = next((label_names[word] for word in words if label_names.get(word)), ())
        if reading is not None:
            here = occurrences[bag.level]
            labels = reading.nearest[bag.level][here.rows]
            truth = truths.get(bag.level)
            if truth is not None:
                truth = _flat_labels(truth, len(labels), bag.words)
                names = names or tuple(map(str, range(truth.max(initial=0) + 1)))
                shape = bag.n_clusters, len(names)
                table = _table(labels, truth, here.total_weights, shape)
            sizes = np.bincount(labels, here.total_weights, minlength=bag.n_clusters)
            sizes = sizes / (sizes.sum() or 1.0)
        described.append(
            LevelDescription(
                level=bag.level,
                word=bag.word,
                words=bag.words,
                title=title,
                names=bag.names,
                sizes=sizes,
                needed=needed,
                table=table,
                label_names=() if reading is None else tuple(names),
                definition=bag.definition,
            )
        )
    return Description(tuple(described))


def _check_truths(levels: Sequence[Level], truths: Mapping[int, Any]) -> None:
    """Raise ValueError if there are labels for levels that do not exist."""
    labelled = [level for level, truth in truths.items() if truth is not None]
    parents = {bag.level: level.record for level in levels for bag in level.clusters}
    is_chain = all(parent == level + 1 for level, parent in parents.items())
    if labelled and not (is_chain and max(labelled) < len(parents)):
        wanted = " and ".join(f"{level_word(level, len(truths))}s" for level in labelled)
        raise ValueError(
            f"Expected labels of {wanted} only where bag-layers are one above the other, down to "
            f"these. Received: labels, for bag-layers on {', '.join(titles(all_clusters(levels)))}"
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


# Representatives --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Representative:
    """A row that represents its cluster.

    Attributes:
        position: index of the top-bag it is in, then of the sub-bag, and so on.
        separation: distance to the nearest centroid of another cluster, the paper's score.
        distance: distance to the centroid of its own cluster.
    """

    position: tuple[int, ...]
    separation: float
    distance: float


class _Best(NamedTuple):
    """The best rows of a cluster so far; the lowest scores come first."""

    scores: Array
    rows: Array
    result: list[Representative]


def representatives(
    levels: Sequence[Level],
    chosen: Collection[tuple[int, int]],
    observations: Iterable[Observation],
    *,
    n: int,
    by: str,
) -> dict[tuple[int, int], list[Representative]]:
    """The rows that represent clusters best, at most n each, the best first, without duplicates.

    Args:
        levels: from the instances upwards.
        chosen: pairs (bag-layer, cluster), both indices, which are the keys of the result.
        observations: what the network computed; only the best rows of it are kept.
        n: maximal number for each cluster.
        by: "separation" from other clusters, decreasing, or "closeness" to the own centroid.

    Raises:
        ValueError: if `by` is neither.
    """
    if by not in ("separation", "closeness"):
        raise ValueError(f"Expected 'separation' or 'closeness'. Received: by={by!r}")
    clusters = all_clusters(levels)
    parent_of = {bag.level: level.record for level in levels for bag in level.clusters}
    parents = [parent_of[bag.level] for bag in clusters]
    best: dict[tuple[int, int], _Best] = {}
    n_top_bags = 0
    for batch in observations:
        occurrences = expand(batch.nestings, parents)
        for level in sorted({level for level, _ in chosen}):
            rows, centroids = batch.representations[level], clusters[level].centroids
            present, first = np.unique(occurrences[level].rows, return_index=True)
            labels = nearest(rows[present], centroids)
            for key in (key for key in chosen if key[0] == level):
                is_in = labels == key[1]
                if not is_in.any():
                    continue
                here, index = rows[present[is_in]], first[is_in]
                distances = pairwise_distances(here, centroids)
                others = np.delete(distances, key[1], axis=1).min(axis=1, initial=np.inf)
                own = distances[:, key[1]]
                scores = own if by == "closeness" else -others
                kept = _lowest(scores, here, n)
                result = []
                for i in kept:
                    top_bag, *inner = position_of(level, index[i], occurrences, parents)
                    position = (top_bag + n_top_bags, *inner)
                    result.append(Representative(position, float(others[i]), float(own[i])))
                new = _Best(scores[kept], here[kept], result)
                best[key] = _merged(best[key], new, n) if key in best else new
        n_top_bags += batch.n_top_bags
    return {key: best[key].result if key in best else [] for key in chosen}


def _merged(held: _Best, new: _Best, n: int) -> _Best:
    scores = np.concatenate([held.scores, new.scores])
    rows = np.concatenate([held.rows, new.rows])
    result = held.result + new.result
    kept = _lowest(scores, rows, n)
    return _Best(scores[kept], rows[kept], [result[i] for i in kept])


def _lowest(scores: Array, rows: Array, n: int) -> Ints:
    """Indices of the n rows of the lowest scores, of rows equal up to rounding only the first."""
    order = np.argsort(scores, kind="stable")
    rows = rows[order]
    scale = np.abs(rows).max(initial=0.0) or 1.0
    for some in (5 * n, 100 * n, len(rows)):  # few are enough, unless most equal others
        _, first = np.unique(np.round(rows[:some] / scale, 5), axis=0, return_index=True)
        if len(first) >= n:
            break
    return order[np.sort(first)[:n]]


# Views of clusters ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterView:
    """A cluster and what represents it.

    Attributes:
        name: of the cluster.
        words: what several of its rows are called.
        size: fraction of the training rows in it.
        needed: whether the class of any top-bag can depend on it.
        entries: what represents it, the best first; in a report, pieces of HTML.
        definition: in words, with its precision and recall; empty where rows have no named fields,
            or rules decide.
        key: index of its bag-layer and its own, such as "0.2".
    """

    name: str
    words: str
    size: float
    needed: bool
    entries: tuple[str, ...]
    definition: str = ""
    key: str = ""

    @property
    def head(self) -> str:
        """Its name and size."""
        return f"{self.name} ({percent(self.size)})"


def cluster_views(
    levels: Sequence[Level],
    entries: Callable[[Clusters, int], Iterable[str]],
    definition: Callable[[Clusters, int], str],
) -> dict[str, tuple[ClusterView, ...]]:
    """The clusters of each bag-layer, by the title of its rows.

    The functions give what represents a cluster and what it is in words, for the clusters of its
    bag-layer and its index.
    """
    return {
        title: tuple(
            ClusterView(
                name=name,
                words=bag.words,
                size=float(bag.sizes[i]),
                needed=needed[i],
                entries=tuple(entries(bag, i)),
                definition=definition(bag, i),
                key=f"{bag.level}.{i}",
            )
            for i, name in enumerate(bag.names)
        )
        for title, bag, needed in titled(levels)
    }


@dataclass(frozen=True)
class ClusterTable:
    """The clusters of all levels, each with what represents it best.

    Attributes:
        levels: dict from what the rows of a level are called ("instance", "sub-bag", or their path)
            to their clusters.
    """

    levels: dict[str, tuple[ClusterView, ...]]

    def to_markdown(self) -> str:
        """One table for each level; clusters that no class of top-bags depends on are small."""

        def cell(text: str, needed: bool) -> str:
            text = text.replace("|", "\\|").replace("<", "\\<")  # "<unknown>" is no tag
            return text if needed or not text else f"<sub>{text}</sub>"

        return "\n\n".join(
            "\n".join(
                [
                    f"Clusters of {views[0].words}:\n",
                    "| " + " | ".join(cell(view.head, view.needed) for view in views) + " |",
                    "| " + " | ".join("---" for _ in views) + " |",
                    *(
                        "| " + " | ".join(cell(*each) for each in row) + " |"
                        for row in _rows(views)
                    ),
                ]
            )
            for views in self.levels.values()
        )

    def to_html(self) -> str:
        """The same as HTML; clusters that no class of top-bags depends on are dimmed."""

        def row(tag: str, cells: Iterable[tuple[str, bool]]) -> str:
            return "".join(
                f'<{tag} style="{"" if needed else _DIM}">{html.escape(text)}</{tag}>'
                for text, needed in cells
            )

        return "".join(
            f"<h3>Clusters of {html.escape(views[0].words)}</h3><table><tr>"
            + row("th", [(view.head, view.needed) for view in views])
            + "</tr>"
            + "".join(f"<tr>{row('td', cells)}</tr>" for cells in _rows(views))
            + "</table>"
            for views in self.levels.values()
        )

    def __str__(self) -> str:
        return "\n".join(
            f"{view.name} ({percent(view.size)} of {view.words}"
            + ("" if view.needed else ", not used")
            + (f"; {view.definition}" if view.definition else "")
            + f"): {'; '.join(view.entries)}"
            for views in self.levels.values()
            for view in views
        )

    def _repr_html_(self) -> str:
        return self.to_html()


def _rows(views: Sequence[ClusterView]) -> list[list[tuple[str, bool]]]:
    """The cells of each row below the heads: their texts, and whether they are needed."""
    n = max(len(view.entries) for view in views)
    filled = [(*view.entries, *[""] * (n - len(view.entries))) for view in views]
    if any(view.definition for view in views):
        n, filled = n + 1, [(v.definition, *x) for v, x in zip(views, filled, strict=True)]
    return [
        [(cells[i], view.needed) for view, cells in zip(views, filled, strict=True)]
        for i in range(n)
    ]


def cluster_table(
    levels: Sequence[Level], observations: Iterable[Observation], *, n: int, by: str, show: Shows
) -> ClusterTable:
    """Make a table: `show` turns the positions of rows to texts, see `show_of`."""
    keys = [(bag.level, i) for bag in all_clusters(levels) for i in range(bag.n_clusters)]
    best = representatives(levels, keys, observations, n=n, by=by)

    def entries(bag: Clusters, i: int) -> list[str]:
        shown = show_of(show, bag.path)
        return [shown(each.position) for each in best[bag.level, i]]

    def definition(bag: Clusters, i: int) -> str:
        return "" if bag.definition is None else bag.definition.summary(i)

    return ClusterTable(cluster_views(levels, entries, definition))


# Numbers of clusters ----------------------------------------------------------------------------


class FidelityGrid(NamedTuple):
    """The best fidelity for each combination of numbers of clusters of two levels.

    Attributes:
        levels: indices of both.
        columns, rows: numbers of clusters of the first and of the second level.
        values: fidelities [rows, columns]; NaN where none was tried.
        chosen: row and column of the numbers of the rules.
    """

    levels: tuple[int, int]
    columns: list[int]
    rows: list[int]
    values: Array
    chosen: tuple[int, int]


def fidelity_grids(grid: Sequence[GridPoint], chosen: Sequence[int]) -> list[FidelityGrid]:
    """A grid for each pair of neighbouring levels, of combinations that were tried."""
    grids = []
    for pair in pairwise(range(len(chosen))):
        columns, rows = (sorted({point.n_clusters[level] for point in grid}) for level in pair)
        values = np.full((len(rows), len(columns)), np.nan)
        for point in grid:
            column, row = (point.n_clusters[level] for level in pair)
            at = rows.index(row), columns.index(column)
            values[at] = np.fmax(values[at], point.fidelity)
        at = rows.index(chosen[pair[1]]), columns.index(chosen[pair[0]])
        grids.append(FidelityGrid(pair, columns, rows, values, at))
    return grids

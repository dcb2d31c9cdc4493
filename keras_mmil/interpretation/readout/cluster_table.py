"""A table of what stands for each cluster."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from keras_mmil._support.formatting import percent
from keras_mmil.interpretation.network.capture import Observation
from keras_mmil.interpretation.readout.part import Shows, show_of
from keras_mmil.interpretation.readout.representatives import representatives
from keras_mmil.interpretation.rules.level import Level, all_clusters, titles

__all__ = ["ClusterColumn", "ClusterTable", "cluster_table"]

_DIM = "color:#9a9a9a"


@dataclass(frozen=True)
class ClusterColumn:
    """A cluster and what stands for it.

    Attributes:
        name: of the cluster.
        words: what several of its rows are called.
        size: fraction of the training rows in it.
        needed: whether the class of any top-bag can depend on it.
        entries: what stands for it, the best first.
        definition: what it is in the names of fields, and how often that is right; empty where
            rows have no named fields, or rules decide.
    """

    name: str
    words: str
    size: float
    needed: bool
    entries: tuple[str, ...]
    definition: str = ""


@dataclass(frozen=True)
class ClusterTable:
    """The clusters of all levels, each with what stands for it best.

    Attributes:
        levels: dict from what the rows of a level are called ("instance", "sub-bag", or their path)
            to their clusters.
    """

    levels: dict[str, tuple[ClusterColumn, ...]]

    def to_markdown(self) -> str:
        """One table for each level; clusters that no class of top-bags depends on are small."""

        def cell(text: str, needed: bool) -> str:
            text = text.replace("|", "\\|").replace("<", "\\<")  # "<unknown>" is no tag
            return text if needed or not text else f"<sub>{text}</sub>"

        return "\n\n".join(
            "\n".join(
                [
                    f"Clusters of {columns[0].words}:\n",
                    "| " + " | ".join(cell(_head(c), c.needed) for c in columns) + " |",
                    "| " + " | ".join("---" for _ in columns) + " |",
                    *(
                        "| " + " | ".join(cell(*each) for each in row) + " |"
                        for row in _rows(columns)
                    ),
                ]
            )
            for columns in self.levels.values()
        )

    def to_html(self) -> str:
        """The same as a piece of HTML; clusters that no class of top-bags depends on are dimmed."""

        def row(tag: str, cells: Iterable[tuple[str, bool]]) -> str:
            return "".join(
                f'<{tag} style="{"" if needed else _DIM}">{html.escape(text)}</{tag}>'
                for text, needed in cells
            )

        return "".join(
            f"<h3>Clusters of {html.escape(columns[0].words)}</h3><table><tr>"
            + row("th", [(_head(c), c.needed) for c in columns])
            + "</tr>"
            + "".join(f"<tr>{row('td', cells)}</tr>" for cells in _rows(columns))
            + "</table>"
            for columns in self.levels.values()
        )

    def __str__(self) -> str:
        return "\n".join(
            f"{column.name} ({percent(column.size)} of {column.words}"
            + ("" if column.needed else ", not used")
            + (f"; {column.definition}" if column.definition else "")
            + f"): {'; '.join(column.entries)}"
            for columns in self.levels.values()
            for column in columns
        )

    def _repr_html_(self) -> str:
        return self.to_html()


def cluster_table(
    levels: Sequence[Level],
    observations: Iterable[Observation],
    *,
    n: int,
    by: str,
    show: Shows,
) -> ClusterTable:
    """Make a table.

    Args:
        levels, observations, n, by: as for `representatives`.
        show: function from the position of a row to its text, or a dict of them by path.
    """
    clusters = all_clusters(levels)
    needed = {
        bag.level: here
        for level in levels
        for bag, here in zip(level.clusters, level.needed, strict=True)
    }
    keys = [(bag.level, cluster) for bag in clusters for cluster in range(bag.n_clusters)]
    best = representatives(levels, keys, observations, n=n, by=by)
    positions = {key: [row.position for row in rows] for key, rows in best.items()}
    return ClusterTable(
        {
            title: tuple(
                ClusterColumn(
                    name=bag.names[cluster],
                    words=bag.words,
                    size=float(bag.sizes[cluster]),
                    needed=needed[bag.level][cluster],
                    entries=tuple(map(show_of(show, bag.path), positions[bag.level, cluster])),
                    definition="" if bag.definition is None else bag.definition.summary(cluster),
                )
                for cluster in range(bag.n_clusters)
            )
            for title, bag in zip(titles(clusters), clusters, strict=True)
        }
    )


def _head(column: ClusterColumn) -> str:
    return f"{column.name} ({percent(column.size)})"


def _rows(columns: Sequence[ClusterColumn]) -> list[list[tuple[str, bool]]]:
    """The cells of each row below the heads: their texts, and whether they are needed."""
    n = max(len(column.entries) for column in columns)
    filled = [(*c.entries, *[""] * (n - len(c.entries))) for c in columns]
    if any(column.definition for column in columns):
        n, filled = n + 1, [(c.definition, *x) for c, x in zip(columns, filled, strict=True)]
    return [
        [(cells[i], c.needed) for c, cells in zip(columns, filled, strict=True)] for i in range(n)
    ]

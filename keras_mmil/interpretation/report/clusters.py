"""Clusters as cards, and the grid of fidelities as a picture."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from keras_mmil.interpretation.export.program import program
from keras_mmil.interpretation.export.sentences import definitions
from keras_mmil.interpretation.fitting.search import GridPoint
from keras_mmil.interpretation.network.nesting import Occurrences, above, expand
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.readout.representatives import Representative
from keras_mmil.interpretation.report.renderers import Renderer
from keras_mmil.interpretation.report.shown import markup
from keras_mmil.interpretation.report.svg import heat_map, line
from keras_mmil.interpretation.rules.level import Clusters, Level, all_clusters, titles

__all__ = ["Card", "Deck", "decks", "grids"]

_N_ROWS = 300  # members of a cluster in one picture


@dataclass(frozen=True)
class Card:
    """A cluster.

    Attributes:
        key: by which the page renames it.
        name: its name.
        size: share of the training rows.
        needed: whether the class of any top-bag can depend on it.
        definition: what it is, in words; empty where only examples say it.
        pictures: examples, or one picture of many.
    """

    key: str
    name: str
    size: float
    needed: bool
    definition: str
    pictures: tuple[Markup, ...]


@dataclass(frozen=True)
class Deck:
    """The clusters of one kind of records.

    Attributes:
        words: what several of these are called.
        cards: one a cluster, those that are needed first.
    """

    words: str
    cards: tuple[Card, ...]


def decks(
    levels: Sequence[Level],
    plain: Sequence[Level],
    reading: Reading,
    best: dict[tuple[int, int], list[Representative]],
    renderer: Renderer | None,
) -> list[Deck]:
    """The cards of all clusters.

    Args:
        levels: whose texts hold marked names.
        plain: the same without marks.
        reading: top-bags.
        best: what stands for each cluster, by level and index.
        renderer: what shows records; None to show none.
    """
    texts = definitions(program(levels))
    needed = {
        bag.level: here
        for level in levels
        for bag, here in zip(level.clusters, level.needed, strict=True)
    }
    clusters, names = all_clusters(levels), all_clusters(plain)
    around = expand(reading.nestings, reading.parents)
    found = []
    for title, bag, given in zip(titles(names), clusters, names, strict=True):
        cards = [
            Card(
                key=f"{bag.level}.{index}",
                name=given.names[index],
                size=float(bag.sizes[index]),
                needed=needed[bag.level][index],
                definition=texts.get((bag.level, index), ""),
                pictures=tuple(
                    _pictures(
                        bag, index, reading, around, best[bag.level, index], renderer.of(bag.path)
                    )
                    if renderer is not None
                    else ()
                ),
            )
            for index in range(bag.n_clusters)
        ]
        words = given.words if title == given.word else title
        found.append(Deck(words, tuple(sorted(cards, key=lambda card: not card.needed))))
    return found


def _pictures(
    bag: Clusters,
    index: int,
    reading: Reading,
    around: Sequence[Occurrences],
    best: Iterable[Representative],
    renderer: Renderer,
) -> list[Markup]:
    if bag.level == 0:
        positions = _positions(bag.level, index, reading, around)
        if positions and (whole := renderer.cluster(positions)) is not None:
            return [markup(whole)]
    pairs = ((renderer.row(row.position), str(row.position[-1])) for row in best)
    # A number in its bag says nothing.
    return [markup(row) for row, number in pairs if not (isinstance(row, str) and row == number)]


def _positions(
    layer: int, cluster: int, reading: Reading, around: Sequence[Occurrences]
) -> list[tuple[int, ...]]:
    """Where some members of a cluster are."""
    members = np.flatnonzero(reading.labels[layer][around[layer].rows] == cluster)
    members = members[:: max(1, len(members) // _N_ROWS)]
    found = []
    for member in members.tolist():
        path: list[int] = []
        for level in above(layer, reading.parents):
            splits = around[level].row_splits
            bag = int(np.searchsorted(splits, member, side="right")) - 1
            path.insert(0, int(member - splits[bag]))
            member = bag
        found.append((member, *path))
    return found


def grids(grid: Sequence[GridPoint], chosen: Sequence[int], names: Sequence[str]) -> list[Markup]:
    """The fidelity of all combinations of numbers of clusters that were tried.

    Args:
        grid: the combinations.
        chosen: the one of the rules.
        names: what the members of each level are called.
    """
    if len(chosen) == 1:
        ks = [point.n_clusters[0] for point in grid]
        shares = [point.fidelity for point in grid]
        return [line(ks, shares, ks.index(chosen[0]), f"clusters of {names[0]}")]
    found = []
    for pair in itertools.pairwise(range(len(chosen))):
        across, up = (sorted({point.n_clusters[level] for point in grid}) for level in pair)
        values = np.full((len(up), len(across)), np.nan)
        for point in grid:
            column, row = (point.n_clusters[level] for level in pair)
            at = up.index(row), across.index(column)
            values[at] = np.fmax(values[at], point.fidelity)
        at = up.index(chosen[pair[1]]), across.index(chosen[pair[0]])
        words = [f"clusters of {names[level]}" for level in pair]
        found.append(heat_map(values, up, across, at, (words[1], words[0])))
    return found

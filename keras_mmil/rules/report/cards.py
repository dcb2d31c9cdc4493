"""Clusters as cards, names that the page can change, and the fidelity grids as pictures."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from keras_mmil.rules.explain.clusters import (
    ClusterView,
    Representative,
    cluster_views,
    fidelity_grids,
)
from keras_mmil.rules.explain.reading import Reading, position_of
from keras_mmil.rules.export.program import program
from keras_mmil.rules.export.sentences import definitions
from keras_mmil.rules.fitting.search import GridPoint
from keras_mmil.rules.network.nesting import expand
from keras_mmil.rules.report.renderers import Renderer, markup
from keras_mmil.rules.report.svg import heat_map, line
from keras_mmil.rules.trees.level import Clusters, Level, all_clusters, rename

__all__ = ["cards", "grids", "linked", "marked", "plain"]

_N_ROWS = 300  # members of a cluster in one picture
_START, _END = "\ue000", "\ue001"  # for private use, so that no font or language needs them
_CODE = re.compile(f"{_START}[0-9.]+{_END}")


def cards(
    levels: Sequence[Level],
    unmarked: Sequence[Level],
    reading: Reading,
    best: Mapping[tuple[int, int], Sequence[Representative]],
    renderer: Renderer | None,
) -> list[tuple[str, list[ClusterView]]]:
    """The clusters of each kind of records, with their plural; those that are needed come first.

    `levels` have marked names, which get into definitions. Without a renderer nothing is shown.
    """
    texts = definitions(program(levels))
    occurrences = expand(reading.nestings, reading.parents)

    def positions(layer: int, cluster: int) -> list[tuple[int, ...]]:
        """Where some members of a cluster are."""
        members = np.flatnonzero(reading.labels[layer][occurrences[layer].rows] == cluster)
        members = members[:: max(1, len(members) // _N_ROWS)]
        return [position_of(layer, i, occurrences, reading.parents) for i in members.tolist()]

    def pictures(bag: Clusters, index: int) -> Iterator[Markup]:
        if renderer is None:
            return
        own = renderer.of(bag.path)
        some = positions(0, index) if bag.level == 0 else []
        if some and (all_in_one := own.cluster(some)) is not None:
            yield markup(all_in_one)
            return
        for each in best[bag.level, index]:
            row = own.row(each.position)
            # The index of a row says nothing.
            if not isinstance(row, str) or row != str(each.position[-1]):
                yield markup(row)

    views = cluster_views(unmarked, pictures, lambda bag, i: texts.get((bag.level, i), ""))
    pairs = zip(views.items(), all_clusters(unmarked), strict=True)
    return [
        (
            bag.words if title == bag.word else title,
            sorted(result, key=lambda card: not card.needed),
        )
        for (title, result), bag in pairs
    ]


def grids(grid: Sequence[GridPoint], chosen: Sequence[int], names: Sequence[str]) -> list[Markup]:
    """Pictures of the fidelities of all combinations of numbers of clusters that were tried.

    `names` are what the members of each level are called.
    """
    words = [f"clusters of {name}" for name in names]
    if len(chosen) == 1:
        ks = [point.n_clusters[0] for point in grid]
        return [line(ks, [point.fidelity for point in grid], ks.index(chosen[0]), words[0])]
    return [
        heat_map(x.values, x.rows, x.columns, x.chosen, (words[x.levels[1]], words[x.levels[0]]))
        for x in fidelity_grids(grid, chosen)
    ]


def marked(levels: Sequence[Level]) -> tuple[Level, ...]:
    """The levels with a code after the name of each cluster, which gets into all texts."""
    result = tuple(levels)
    for clusters in all_clusters(levels):
        codes = {
            index: f"{name}{_START}{clusters.level}.{index}{_END}"
            for index, name in enumerate(clusters.names)
        }
        result = rename(result, clusters.level, codes)
    return result


def plain(content: Any) -> Any:
    """What is for JSON without the codes of `marked`."""
    if isinstance(content, dict):
        return {plain(key): plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(each) for each in content]
    return _CODE.sub("", content) if isinstance(content, str) else content


def linked(levels: Sequence[Level]) -> Callable[[object], Markup]:
    """A function that escapes a text and turns marked names into elements that can be renamed.

    `levels` are those without marks.
    """
    names = {str(escape(name)) for clusters in all_clusters(levels) for name in clusters.names}
    alternatives = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    pattern = re.compile(f"({alternatives}){_START}([0-9]+\\.[0-9]+){_END}")

    def link(text: object) -> Markup:
        html = pattern.sub(r'<span class="name" data-cluster="\2">\1</span>', str(escape(text)))
        return Markup(_CODE.sub("", html))  # already escaped

    return link

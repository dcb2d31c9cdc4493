"""Maps of places: where what grows, what clusters they are in, and which rules hold there."""

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.types import Array, Ints, PathLike, Tensors
from keras_mmil.bags import instances_of
from keras_mmil.rules.network.sources import TopBags
from keras_mmil.rules.plots.figures import (
    GREEN,
    add_legend,
    finish,
    new_figure,
    rows_and_columns,
)
from keras_mmil.rules.trees.level import find_clusters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_mmil.rules.explainer import Explainer

__all__ = ["Maps", "plot_maps"]

_ELSEWHERE = "#dfe4e8"
_WIDTH = 3.0  # of a map, inches
_LETTERS, _LINE = 42, 0.15  # how many letters of a title are as wide as a map; a line, inches


def plot_maps(
    coordinates: npt.ArrayLike,
    maps: Mapping[str, npt.ArrayLike],
    path: PathLike | None = None,
    columns: int = 4,
) -> "Figure":
    """Maps side by side, a square for each place.

    Args:
        coordinates: latitude and longitude of each place, degrees [places, 2].
        maps: dict from title to values [places]: bool, where true is green; or numbers, with a
            colour bar for each map.
        path: where to save the picture, if at all.
        columns: maximal number of maps in a row.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: without matplotlib.
        ValueError: if there are no maps, or a map does not have a value for each place.
    """
    places = np.asarray(coordinates, float)
    if not maps:
        raise ValueError("Expected at least one map. Received: maps={}")
    for title, values in maps.items():
        if np.shape(values) != places.shape[:1]:
            raise ValueError(
                f"Expected a value for each of {len(places)} places. "
                f"Received: {title!r} with values of shape {np.shape(values)}"
            )
    latitude, longitude = places.T
    squeezed = np.cos(np.radians(latitude.mean()))  # length of a degree of longitude
    across = max(np.ptp(longitude) * squeezed, 1e-9)
    height = _WIDTH * np.clip(np.ptp(latitude) / across, 0.3, 3)
    # Squares of this size fill the map.
    size = 72**2 * _WIDTH * height / len(places)
    rows, columns = rows_and_columns(len(maps), columns)
    titles = [textwrap.fill(title, _LETTERS) for title in maps]
    lines = 1 + max(title.count("\n") for title in titles)
    figure = new_figure(_WIDTH * columns, (height + 0.3 + _LINE * lines) * rows)
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for ax in axes[len(maps) :]:
        ax.set_axis_off()
    for ax, title, values in zip(axes, titles, maps.values(), strict=False):
        array = np.asarray(values)
        is_mask = array.dtype == bool
        style: dict[str, Any] = {"c": array, "cmap": "YlGn"}
        if is_mask:
            style = {"c": np.where(array, GREEN, _ELSEWHERE)}
        drawn = ax.scatter(longitude, latitude, s=size, marker="s", linewidths=0, **style)
        if not is_mask:
            bar = figure.colorbar(drawn, ax=ax, shrink=0.6, aspect=14)
            bar.ax.tick_params(labelsize=7)
            bar.outline.set_visible(False)
        ax.set_aspect(1 / squeezed)
        ax.set_title(title, fontsize=8)
        ax.set_axis_off()
    if any(np.asarray(values).dtype == bool for values in maps.values()):
        add_legend(figure, {"yes": ("s", GREEN), "no": ("s", _ELSEWHERE)})
    return finish(figure, path)


class Maps:
    """What an explainer says about top-bags that are places. The network runs on them once.

    Args:
        explainer: a fitted `Explainer`.
        x: top-bags, as for `Explainer.fit`.
    """

    def __init__(self, explainer: "Explainer", x: TopBags) -> None:
        self._levels, self._clusters = explainer.levels_, explainer.clusters_
        self._data = explainer.top_bags(x)
        self._reading = explainer.read(self._data)
        self._labels = self._reading.nested_labels()

    def instances(self, n_places: int) -> dict[str, Array]:
        """Which places are in which cluster, where instances are numbers of places.

        Instances are the rows of the first bag-layer.

        Args:
            n_places: number of places; those in no bag are in no cluster.

        Returns:
            Dict from the name of each cluster to bool [places].

        Raises:
            ValueError: if instances are records with fields.
        """
        path = self._clusters[0].path
        places = ragged.concat([_numbers(batch, path) for batch in self._data.batches()])
        cluster_of = np.full(n_places, -1)
        cluster_of[places.flat_values.numpy()] = self._labels[0].flat_values.numpy()
        names = self._clusters[0].names
        return {name: cluster_of == cluster for cluster, name in enumerate(names)}

    def members(self, level: int | str | None = None) -> dict[str, Ints]:
        """How many members of each top-bag are in which cluster; equal ones in `Bags` count once.

        Args:
            level: bag-layer that the members are rows of: its index, its symbol, or the path of its
                bags. None for the only one whose bags are in the top-bags themselves.

        Returns:
            Dict from the name of each cluster to int [top-bags].

        Raises:
            ValueError: if there is no such level, its bags are not in the top-bags themselves, or
                `level` is None and top-bags hold several bags.
        """
        there = self._levels[-1].clusters
        if level is None and len(there) == 1:
            level = there[0].level
        clusters = None if level is None else find_clusters(self._levels, level)
        if clusters is None or clusters not in there:
            known = {each.level: each.path or each.words for each in there}
            raise ValueError(
                "Expected the level of one of the bags that top-bags hold, by level: "
                f"{known}. Received: {level=}"
            )
        members, names = self._labels[clusters.level], clusters.names
        counts = np.zeros((int(members.nrows()), len(names)), int)
        np.add.at(counts, (members.value_rowids().numpy(), members.values.numpy()), 1)
        return dict(zip(names, counts.T, strict=True))

    def rules(self, conclusion: str) -> tuple[dict[str, Array], dict[str, Ints]]:
        """Where the rules of one class of top-bags hold, and how nearly they do elsewhere.

        Args:
            conclusion: name of the class.

        Returns:
            A dict from the clause of each rule to whether it matches, bool [top-bags]; and one to
            the number of its conditions that hold minus those that do not, int [top-bags].

        Raises:
            ValueError: if there is no such class.
        """
        level = self._levels[-1]
        if conclusion not in level.rules.names:
            raise ValueError(f"Expected one of {level.rules.names}. Received: {conclusion=}")
        bags = self._reading.of_record(level)
        matches, balances = {}, {}
        for rule in level.rules:
            if level.rules.names[rule.conclusion] == conclusion:
                clause = level.rules.clause(rule)
                holds = np.array([condition.holds(bags) for condition in rule.conditions], bool)
                holds = holds.reshape(-1, len(bags))  # also where there are no conditions
                matches[clause] = np.all(holds, axis=0)
                balances[clause] = holds.sum(axis=0) - (~holds).sum(axis=0)
        return matches, balances


def _numbers(batch: Tensors, path: str) -> tf.RaggedTensor:
    """The instances of a batch, which are numbers: those of the bags, or of this path."""
    if not isinstance(batch, dict) or "bags" in batch:
        return instances_of(batch)
    result = batch.get(path)
    if not isinstance(result, tf.RaggedTensor) or not result.dtype.is_integer:
        raise ValueError(
            "Expected top-bags whose instances are numbers of places. "
            f"Received: records with fields {', '.join(batch)}"
        )
    return result

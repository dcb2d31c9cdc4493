"""Pictures of clusters: their true labels, and the search for their numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, PathLike
from keras_mmil.rules.explain.clusters import (
    FidelityGrid,
    LevelDescription,
    fidelity_grids,
)
from keras_mmil.rules.plots.figures import (
    BLUE,
    GREY,
    RED,
    finish,
    new_figure,
    rows_and_columns,
    write_numbers,
)
from keras_mmil.rules.trees.level import level_symbol, level_word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from keras_mmil.rules.explainer import Explainer

__all__ = ["plot_correspondence", "plot_grid"]

_N_BARS = 400  # in histograms that can still be looked at together
_SHARE_WITH_NUMBER = 10  # in % of a cluster, in a heat map
_N_TICKS = 17  # with a name, on an axis


def plot_correspondence(description: LevelDescription, path: PathLike | None = None) -> "Figure":
    """The true labels of the rows in each cluster.

    Histograms, with vertical bars if the labels' names are short enough to fit below them, else
    with horizontal bars. For many clusters and labels, a heat map, in which clusters are sorted by
    their most frequent label.

    Args:
        description: of a level with true labels, such as
            `explainer.describe(x, instance_labels=labels)[0]`.
        path: where to save the picture, if at all.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: without matplotlib.
        ValueError: if the description has no true labels.
    """
    table = description.known_table
    shares = 100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1e-12)
    draw = _histograms if shares.size <= _N_BARS else _correspondence_map
    pairs = zip(description.names, description.sizes, strict=True)
    figure = draw(description, shares, [f"{name} ({percent(size)})" for name, size in pairs])
    figure.suptitle(f"True labels in the clusters of {description.word}s", fontsize=11)
    return finish(figure, path)


def _histograms(description: LevelDescription, shares: Array, titles: Sequence[str]) -> "Figure":
    n_clusters, n_labels = shares.shape
    rows, columns = rows_and_columns(n_clusters, 5)
    lying = max(map(len, map(str, description.label_names))) > 2
    height = max(2.1, 0.2 * n_labels + 0.7) if lying else 2.1
    figure = new_figure(2.4 * columns, height * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for cluster, ax in enumerate(axes.flat):
        if cluster >= n_clusters:
            ax.set_visible(False)
            continue
        needed = description.needed[cluster]
        draw = ax.barh if lying else ax.bar
        draw(range(n_labels), shares[cluster], color=BLUE if needed else GREY)
        ax.set_title(titles[cluster] + ("" if needed else "\nnot used"), fontsize=9)
        name_ticks = ax.set_yticks if lying else ax.set_xticks
        name_ticks(range(n_labels), description.label_names, fontsize=8)
        if lying:
            ax.set(xlim=(0, 100), ylim=(n_labels - 0.4, -0.6))  # the first label on top
        else:
            ax.set_ylim(0, 100)
        ax.spines[["top", "right"]].set_visible(False)
    axes_labels = f"true label of the {description.word}", "% of the cluster"
    across, up = reversed(axes_labels) if lying else axes_labels
    figure.supxlabel(across, fontsize=10)
    figure.supylabel(up, fontsize=10)
    return figure


def _correspondence_map(
    description: LevelDescription, shares: Array, titles: Sequence[str]
) -> "Figure":
    n_clusters, n_labels = shares.shape
    order = np.lexsort([-shares.max(axis=1), shares.argmax(axis=1)])
    shares = shares[order]
    figure = new_figure(0.24 * n_labels + 2.5, 0.18 * n_clusters + 1.8)
    ax = figure.subplots()
    image = ax.imshow(shares, cmap="Blues", aspect="auto", vmin=0, vmax=100)
    large = shares >= _SHARE_WITH_NUMBER
    write_numbers(ax, shares, chosen=large, middle=50, form=".0f", fontsize=6)
    ax.set_xticks(range(n_labels), description.label_names, rotation=90, fontsize=8)
    ax.set_yticks(range(n_clusters), [titles[i] for i in order], fontsize=7)
    for tick, i in zip(ax.get_yticklabels(), order, strict=True):
        tick.set_color("black" if description.needed[i] else GREY)
    ax.set_xlabel(f"true label of the {description.word}")
    ax.set_ylabel("cluster (grey: not used)")
    figure.colorbar(image, ax=ax, label="% of the cluster")
    return figure


def plot_grid(explainer: "Explainer", path: PathLike | None = None) -> "Figure":
    """Fidelity on validation data for each combination of numbers of clusters.

    A line for one level, a heat map for two; for more, a heat map for each pair of neighbouring
    levels, of the best fidelity over the others. The chosen combination is marked.

    Args:
        explainer: a fitted `Explainer`.
        path: where to save the picture, if at all.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: without matplotlib.
        ValueError: for records without bags, which have no clusters.
    """
    chosen = explainer.n_clusters_
    if not chosen:
        raise ValueError("Expected rules about clusters. Received: explainer of fields alone")
    if len(chosen) == 1:
        figure = new_figure(5, 3.2)
        _line(figure.subplots(), explainer)
    else:
        grids = fidelity_grids(explainer.grid_, chosen)
        figure = new_figure(5.2 * len(grids), 4.4)
        axes = figure.subplots(1, len(grids), squeeze=False)
        for ax, grid in zip(axes[0], grids, strict=True):
            _heat_map(figure, ax, grid, len(chosen))
    fidelity, share = percent(explainer.fidelity_, 2), percent(explainer.majority_, 2)
    figure.suptitle(
        f"Fidelity on validation data\n(chosen: {fidelity}; most frequent class: {share})",
        fontsize=11,
    )
    return finish(figure, path)


def _line(ax: "Axes", explainer: "Explainer") -> None:
    ks = [point.n_clusters[0] for point in explainer.grid_]
    fidelities = [100 * point.fidelity for point in explainer.grid_]
    ax.plot(ks, fidelities, marker="o", color=BLUE)
    best = ks.index(explainer.n_clusters_[0])
    (ring,) = ax.plot(ks[best], fidelities[best], marker="o", markersize=13)
    ring.set(markerfacecolor="none", markeredgecolor=RED, markeredgewidth=2)
    ax.set_xticks(ks[:: _tick_step(ks)])
    ax.set_xlabel(_axis_label(0, 1))
    ax.set_ylabel("fidelity in %")
    ax.spines[["top", "right"]].set_visible(False)


def _heat_map(figure: "Figure", ax: "Axes", grid: FidelityGrid, n_levels: int) -> None:
    values = 100 * grid.values
    # Colours tell the better half apart, because few clusters can be far worse than all others.
    low, high = np.nanmedian(values), np.nanmax(values)
    image = ax.imshow(values, origin="lower", cmap="Blues", aspect="auto", vmin=low, vmax=high)
    middle = (low + high) / 2
    fontsize = 8 if max(values.shape) <= 12 else 5
    tried = np.isfinite(values)
    write_numbers(ax, values, chosen=tried, middle=middle, form=".1f", fontsize=fontsize)
    row, column = grid.chosen
    x, y = np.array([0, 1, 1, 0, 0]) + column - 0.5, np.array([0, 0, 1, 1, 0]) + row - 0.5
    ax.plot(x, y, color=RED, linewidth=2.5, clip_on=False)
    for axis, numbers in ((ax.xaxis, grid.columns), (ax.yaxis, grid.rows)):
        shown = range(0, len(numbers), _tick_step(numbers))
        axis.set_ticks(shown, [str(numbers[i]) for i in shown])
    ax.set_xlabel(_axis_label(grid.levels[0], n_levels))
    ax.set_ylabel(_axis_label(grid.levels[1], n_levels))
    label = "fidelity in %" if n_levels == 2 else "best fidelity in %"
    figure.colorbar(
        image, ax=ax, label=label, extend="min" if np.nanmin(values) < low else "neither"
    )


def _tick_step(values: Sequence[int]) -> int:
    """Which ticks to name, so that their names do not overlap."""
    return -(-len(values) // _N_TICKS)


def _axis_label(level: int, n_levels: int) -> str:
    return f"clusters of {level_word(level, n_levels)}s ({level_symbol(level)})"

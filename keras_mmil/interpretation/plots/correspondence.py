"""Pictures of the true labels of what is in the clusters."""

from typing import TYPE_CHECKING

import numpy as np

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, PathLike
from keras_mmil.interpretation.plots.figures import (
    BLUE,
    GREY,
    finish,
    new_figure,
    rows_and_columns,
    write_numbers,
)
from keras_mmil.interpretation.readout.description import LevelDescription

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_correspondence"]

_N_BARS = 400  # in histograms that can still be looked at together
_SHARE_WITH_NUMBER = 10  # in % of a cluster, in a heat-map


def plot_correspondence(description: LevelDescription, path: PathLike | None = None) -> "Figure":
    """The true labels of the rows in each cluster.

    Histograms, whose bars stand upright where the labels' names are short enough to stand below
    them, else lie. Of many clusters and labels, a heat-map, in which clusters are sorted by their
    most frequent label.

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
    figure = draw(description, shares)
    figure.suptitle(f"True labels in the clusters of {description.word}s", fontsize=11)
    return finish(figure, path)


def _histograms(description: LevelDescription, shares: Array) -> "Figure":
    n_clusters, n_labels = shares.shape
    rows, columns = rows_and_columns(n_clusters, 5)
    lying = max(map(len, map(str, description.label_names))) > 2
    height = max(2.1, 0.2 * n_labels + 0.7) if lying else 2.1
    figure = new_figure(2.4 * columns, height * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    titles = _cluster_titles(description)
    for cluster, ax in enumerate(axes.flat):
        if cluster >= n_clusters:
            ax.set_visible(False)
            continue
        needed = description.needed[cluster]
        draw = ax.barh if lying else ax.bar
        draw(range(n_labels), shares[cluster], color=BLUE if needed else GREY)
        title = titles[cluster]
        ax.set_title(title if needed else f"{title}\nnot used", fontsize=9)
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


def _correspondence_map(description: LevelDescription, shares: Array) -> "Figure":
    n_clusters, n_labels = shares.shape
    order = np.lexsort([-shares.max(axis=1), shares.argmax(axis=1)])
    shares, titles = shares[order], _cluster_titles(description)
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


def _cluster_titles(description: LevelDescription) -> list[str]:
    pairs = zip(description.names, description.sizes, strict=True)
    return [f"{name} ({percent(size)})" for name, size in pairs]

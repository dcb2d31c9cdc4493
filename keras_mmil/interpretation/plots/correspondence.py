"""Pictures of how rules were found, and of what their clusters stand for."""

import itertools
import re
import textwrap

import numpy as np

from keras_mmil._support.percent import percent
from keras_mmil.interpretation.readout.explanation import CHECKED, DECIDES, LIMITED
from keras_mmil.interpretation.rules.level import level_symbol, level_word

__all__ = [
    "finish",
    "new_figure",
    "plot_clouds",
    "plot_correspondence",
    "plot_grid",
    "rows_and_columns",
    "wrap_clause",
]

_COLOUR = "#3b6ea5"
_DIMMED = "#b9c4cf"
_CHOSEN = "#c0392b"
GREEN = "#2a9134"
_N_TICKS = 17  # with a name, on an axis
_N_BARS = 400  # in histograms that can still be looked at together
_SHARE_WITH_NUMBER = 10  # in % of a cluster, in a heat-map
_CLOUD_WIDTH, _CLOUD_LETTERS = 3.6, 50  # of a cloud, inches, and letters of its title as wide as it
_N_PLACES = 60  # of points that would have to be absent, in a picture


def plot_grid(explainer, path=None):
    """Fidelity on validation data for each combination of numbers of clusters.

    A line for one level, a heat-map for two; for more, a heat-map for each pair of neighbouring
    levels, of the best fidelity over the others. The chosen combination is marked.

    Args:
        explainer: a fitted `Explainer`.
        path: where to save the picture, if at all.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: without matplotlib.
    """
    chosen, grid = explainer.n_clusters_, explainer.grid_
    if len(chosen) == 1:
        figure = new_figure(5, 3.2)
        _line(figure.subplots(), grid, chosen)
    else:
        pairs = list(itertools.pairwise(range(len(chosen))))
        figure = new_figure(5.2 * len(pairs), 4.4)
        axes = figure.subplots(1, len(pairs), squeeze=False)
        for ax, pair in zip(axes[0], pairs, strict=True):
            _heat_map(figure, ax, grid, chosen, pair)
    fidelity, share = percent(explainer.fidelity_, 2), percent(explainer.majority_, 2)
    figure.suptitle(
        f"Fidelity on validation data\n(chosen: {fidelity}; most frequent class: {share})",
        fontsize=11,
    )
    return finish(figure, path)


def plot_correspondence(description, path=None):
    """The true labels of the rows in each cluster.

    Histograms, whose bars stand upright where the labels' names are short enough to stand below
    them, else lie. Of many clusters and labels, a heat-map, in which clusters are sorted by their
    most frequent label.

    Args:
        description: a `LevelDescription` with true labels, such as
            `explainer.describe(x, instance_labels=labels)[0]`.
        path: where to save the picture, if at all.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: without matplotlib.
        ValueError: if the description has no true labels.
    """
    if description.table is None:
        raise ValueError(
            "Expected the description of a level whose true labels were given. "
            f"Received: description of {description.word}s without a table"
        )
    totals = np.maximum(description.table.sum(axis=1, keepdims=True), 1e-12)
    shares = 100 * description.table / totals
    draw = _histograms if shares.size <= _N_BARS else _correspondence_map
    return finish(draw(description, shares), path)


def plot_clouds(explainer, x, around, titles=None, path=None):
    """Clouds of points, and the rules that fired: on each top-bag, and on the cloud of it shown.

    Points whose cluster the rule on the cloud requires are green. Red crosses are of clusters of
    which it allows no points, or few, and the cloud has none: they are where the clouds in `around`
    have such points. Of several clouds in a top-bag, the first is shown whose cluster the rule on
    the top-bag requires; where it requires none, the first that it limits, or else checked.

    Args:
        explainer: a fitted `Explainer` of a network for clouds of points in space.
        x: some top-bags, a picture each: RaggedTensor [top-bags, (points), 3], or
            [top-bags, (clouds), (points), 3].
        around: more top-bags.
        titles: what to call the top-bags, list of str.
        path: where to save the picture, if at all.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: without matplotlib.
        ValueError: if there are no points in space.
    """
    if x.shape[-1] != 3:
        raise ValueError(f"Expected points in space. Received: x.shape={tuple(x.shape)}")
    places = around.flat_values.numpy()
    cluster_of = explainer.labels(around)[0].flat_values.numpy()
    names = explainer.levels_[0].rules.member_names
    paths = [_shown(explanation.top_bag) for explanation in explainer.explain(x)]
    titles = titles or list(map(str, range(len(paths))))
    texts = [_reasons(path, title) for path, title in zip(paths, titles, strict=True)]
    rows, columns = rows_and_columns(len(paths), 4)
    lines = 1 + max(text.count("\n") for text in texts)
    figure = new_figure(_CLOUD_WIDTH * columns, (_CLOUD_WIDTH + 0.17 * lines) * rows)
    # Figures of their own, as the layout makes no room for long titles of axes in space.
    panels = figure.subfigures(rows, columns, squeeze=False).flat
    for panel, (*_, cloud), text in zip(panels, paths, texts, strict=False):
        panel.suptitle(text, fontsize=9)
        ax = panel.add_subplot(projection="3d")
        ax.set_axis_off()
        if cloud.level > 1:
            continue  # an empty bag, in which no cloud is
        points = x[cloud.position].numpy()
        decides = np.array([child.deciding for child in cloud.children], bool)
        absent = np.isin(cluster_of, [names.index(name) for name in cloud.absent])
        step = max(1, absent.sum() // _N_PLACES)
        ax.scatter(*places[absent][::step].T, color=_CHOSEN, marker="x", s=12, alpha=0.5)
        ax.scatter(*points[~decides].T, color=_COLOUR, s=6)
        ax.scatter(*points[decides].T, color=GREEN, s=30, depthshade=False)
        drawn = np.concatenate([points, places[absent][::step]]).astype(float)
        if len(drawn):
            low, high = drawn.min(axis=0), drawn.max(axis=0)
            high = np.maximum(high, low + 1e-6)  # a cloud may be flat
            ax.set(**{f"{axis}lim": pair for axis, *pair in zip("xyz", low, high, strict=True)})
            ax.set_box_aspect(high - low, zoom=1.05)
    return finish(figure, path)


def _histograms(description, shares):
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
        draw(range(n_labels), shares[cluster], color=_COLOUR if needed else _DIMMED)
        title = titles[cluster]
        ax.set_title(title if needed else f"{title}\nnot needed", fontsize=9)
        name_ticks = ax.set_yticks if lying else ax.set_xticks
        name_ticks(range(n_labels), description.label_names, fontsize=8)
        if lying:
            ax.set(xlim=(0, 100), ylim=(n_labels - 0.4, -0.6))  # the first label on top
        else:
            ax.set_ylim(0, 100)
        ax.spines[["top", "right"]].set_visible(False)
    labels = f"true label of the {description.word}", "% of the cluster"
    figure.supxlabel(labels[lying], fontsize=10)
    figure.supylabel(labels[not lying], fontsize=10)
    return figure


def _correspondence_map(description, shares):
    n_clusters, n_labels = shares.shape
    order = np.lexsort([-shares.max(axis=1), shares.argmax(axis=1)])
    shares, titles = shares[order], _cluster_titles(description)
    figure = new_figure(0.24 * n_labels + 2.5, 0.18 * n_clusters + 1.8)
    ax = figure.subplots()
    image = ax.imshow(shares, cmap="Blues", aspect="auto", vmin=0, vmax=100)
    _write_numbers(ax, shares, shares >= _SHARE_WITH_NUMBER, 50, ".0f", fontsize=6)
    ax.set_xticks(range(n_labels), description.label_names, rotation=90, fontsize=8)
    ax.set_yticks(range(n_clusters), [titles[i] for i in order], fontsize=7)
    for tick, i in zip(ax.get_yticklabels(), order, strict=True):
        tick.set_color("black" if description.needed[i] else _DIMMED)
    ax.set_xlabel(f"true label of the {description.word}")
    ax.set_ylabel("cluster (grey: not needed)")
    figure.colorbar(image, ax=ax, label="% of the cluster")
    return figure


def _cluster_titles(description):
    pairs = zip(description.names, description.sizes, strict=True)
    return [f"{name} ({percent(size)})" for name, size in pairs]


def _shown(top_bag):
    """A top-bag, and in it the bag of instances that says most about why its rule fired.

    Returns:
        List of `Part`, from the top-bag downwards; it ends early where a bag is empty.
    """
    path = [top_bag]
    while path[-1].level > 1 and path[-1].children:
        children = path[-1].children
        first = {child.role: child for child in reversed(children)}
        path.append(
            next((first[r] for r in (DECIDES, LIMITED, CHECKED) if r in first), children[0])
        )
    return path


def _reasons(path, title):
    """What stands above a picture: its title, and the rule that fired on each of the bags."""
    top_bag, *inner = path
    reasons = [f"{part.word} {part.title} ({part.role}): {part.clause}" for part in inner]
    lines = [wrap_clause(reason, _CLOUD_LETTERS) for reason in (top_bag.clause, *reasons)]
    return "\n".join([title, *lines])


def wrap_clause(clause, width):
    """A clause in lines of at most so many characters, broken between conditions only."""
    kept_together = re.sub(r"(?<![,←:]) | (?=\d)", "\N{NO-BREAK SPACE}", clause)
    return textwrap.fill(kept_together, width, break_long_words=False, break_on_hyphens=False)


def _line(ax, grid, chosen):
    ks, fidelities = zip(*((p.n_clusters[0], 100 * p.fidelity) for p in grid), strict=True)
    ax.plot(ks, fidelities, marker="o", color=_COLOUR)
    ax.plot(
        *next((k, f) for k, f in zip(ks, fidelities, strict=True) if k == chosen[0]),
        marker="o", markersize=13, markerfacecolor="none", markeredgecolor=_CHOSEN,
        markeredgewidth=2,
    )  # fmt: skip
    ax.set_xticks(ks[:: _tick_step(ks)])
    ax.set_xlabel(_axis_label(0, 1))
    ax.set_ylabel("fidelity in %")
    ax.spines[["top", "right"]].set_visible(False)


def _heat_map(figure, ax, grid, chosen, pair):
    ks = [sorted({point.n_clusters[level] for point in grid}) for level in pair]
    values = np.full((len(ks[1]), len(ks[0])), np.nan)
    for point in grid:
        column, row = (ks[i].index(point.n_clusters[level]) for i, level in enumerate(pair))
        values[row, column] = np.fmax(values[row, column], 100 * point.fidelity)
    image = ax.imshow(values, origin="lower", cmap="Blues", aspect="auto")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    fontsize = 8 if max(values.shape) <= 12 else 5
    _write_numbers(ax, values, np.isfinite(values), middle, ".1f", fontsize)  # some are not tried
    column, row = (ks[i].index(chosen[level]) for i, level in enumerate(pair))
    x, y = np.array([0, 1, 1, 0, 0]) + column - 0.5, np.array([0, 0, 1, 1, 0]) + row - 0.5
    ax.plot(x, y, color=_CHOSEN, linewidth=2.5, clip_on=False)
    for axis, values in zip((ax.xaxis, ax.yaxis), ks, strict=True):
        shown = range(0, len(values), _tick_step(values))
        axis.set_ticks(shown, [values[i] for i in shown])
    ax.set_xlabel(_axis_label(pair[0], len(chosen)))
    ax.set_ylabel(_axis_label(pair[1], len(chosen)))
    label = "fidelity in %" if len(chosen) == 2 else "best fidelity in %"
    figure.colorbar(image, ax=ax, label=label)


def _write_numbers(ax, values, chosen, middle, form, fontsize):
    """Write the chosen values into the cells of a heat-map, in white on those above the middle."""
    for row, column in np.argwhere(chosen):
        value = values[row, column]
        colour = "white" if value > middle else "black"
        style = {"color": colour, "ha": "center", "va": "center", "fontsize": fontsize}
        ax.text(column, row, f"{value:{form}}", **style)


def _tick_step(values):
    """Which ticks to name, so that their names do not overlap."""
    return -(-len(values) // _N_TICKS)


def _axis_label(level, n_levels):
    return f"clusters of {level_word(level, n_levels)}s ({level_symbol(level)})"


def rows_and_columns(n_panels, most_columns):
    """How many rows and columns of panels a figure has."""
    columns = min(n_panels, most_columns)
    return -(-n_panels // columns), columns


def new_figure(width, height):
    """A figure of so many inches, without pyplot, which would keep it and look for a display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Expected matplotlib to draw: pip install 'keras-mmil[report]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def finish(figure, path):
    """Save a figure, if there is a path, and return it."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure

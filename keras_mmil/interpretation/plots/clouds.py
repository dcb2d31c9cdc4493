"""Pictures of clouds of points, and of why rules fired on them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import PathLike
from keras_mmil.interpretation.plots.figures import (
    BLUE,
    GREEN,
    RED,
    add_legend,
    finish,
    new_figure,
    rows_and_columns,
    wrap_clause,
)
from keras_mmil.interpretation.plots.protocols import FittedExplainer
from keras_mmil.interpretation.readout.part import CHECKED, DECIDES, LIMITED, Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_clouds"]

_WIDTH, _LETTERS = 3.6, 50  # of a cloud, inches, and letters of its title as wide as it
_N_PLACES = 60  # of points that would have to be absent, in a picture


def plot_clouds(
    explainer: FittedExplainer,
    x: tf.RaggedTensor,
    around: tf.RaggedTensor,
    titles: Sequence[str] | None = None,
    path: PathLike | None = None,
) -> "Figure":
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
        titles: what to call the top-bags.
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
    names = explainer.clusters_[0].names
    paths = [_shown(explanation.top_bag) for explanation in explainer.explain(x)]
    titles = titles or list(map(str, range(len(paths))))
    texts = [_reasons(path, title) for path, title in zip(paths, titles, strict=True)]
    rows, columns = rows_and_columns(len(paths), 4)
    lines = 1 + max(text.count("\n") for text in texts)
    figure = new_figure(_WIDTH * columns, (_WIDTH + 0.17 * lines) * rows)
    # Figures of their own, as the layout makes no room for long titles of axes in space.
    panels = figure.subfigures(rows, columns, squeeze=False).flat
    for panel, parts, text in zip(panels, paths, texts, strict=False):
        panel.suptitle(text, fontsize=9)
        cloud = parts[-1]
        ax = panel.add_subplot(projection="3d")
        ax.set_axis_off()
        if cloud.level > 1:
            continue  # an empty bag, in which no cloud is
        points = x[cloud.position].numpy()
        decides = np.array([child.deciding for child in cloud.children], bool)
        absent = np.isin(cluster_of, [names.index(name) for name in cloud.absent])
        step = max(1, absent.sum() // _N_PLACES)
        ax.scatter(*places[absent][::step].T, color=RED, marker="x", s=12, alpha=0.5)
        ax.scatter(*points[~decides].T, color=BLUE, s=6)
        ax.scatter(*points[decides].T, color=GREEN, s=30, depthshade=False)
        drawn = np.concatenate([points, places[absent][::step]]).astype(float)
        if len(drawn):
            low, high = drawn.min(axis=0), drawn.max(axis=0)
            high = np.maximum(high, low + 1e-6)  # a cloud may be flat
            ax.set(**{f"{axis}lim": pair for axis, *pair in zip("xyz", low, high, strict=True)})
            ax.set_box_aspect(high - low, zoom=1.05)
    marks = {
        "points that the rule requires": ("o", GREEN),
        "other points": ("o", BLUE),
        "where the rule allows none, or few": ("x", RED),
    }
    add_legend(figure, marks)
    return finish(figure, path)


def _shown(top_bag: Part) -> list[Part]:
    """A top-bag, and in it the bag of instances that says most about why its rule fired.

    Returns:
        The bags, from the top-bag downwards; it ends early where a bag is empty.
    """
    path = [top_bag]
    while path[-1].level > 1 and path[-1].children:
        children = path[-1].children
        first = {child.role: child for child in reversed(children)}
        roles = (role for role in (DECIDES, LIMITED, CHECKED) if role in first)
        path.append(first[next(roles, children[0].role)])
    return path


def _reasons(path: Sequence[Part], title: str) -> str:
    """The heading of a picture: its title, and the rule that fired on each of the bags."""
    top_bag, *inner = path
    reasons = [f"{part.word} {part.title} ({part.role}): {part.clause}" for part in inner]
    lines = [wrap_clause(reason, _LETTERS) for reason in (f"{top_bag.clause}", *reasons)]
    return "\n".join([title, *lines])

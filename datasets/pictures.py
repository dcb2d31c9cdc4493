"""Pictures of bags of images, as in the paper's figure of top-bags of digits."""

import numpy as np
import tensorflow as tf

from keras_mmil.datasets import mnist

__all__ = ["plot_top_bag"]

# By label; None where it is not known.
_STYLES = {
    1: {"edgecolor": "#2a9134", "linestyle": "-"},
    0: {"edgecolor": "#c8313a", "linestyle": "--"},
    None: {"edgecolor": "#808080", "linestyle": "-"},
}
# In units of the size of an image.
_PAD = 0.12  # between a frame and what is in it
_GAP = 0.2  # between frames


def plot_top_bag(x, z=None, y=None, ax=None):
    """Draws a top-bag of digits: a frame for each sub-bag, and one around them all.

    Frames of positive bags are solid and green, those of negative bags dashed and red, and grey
    where the label is not known.

    Args:
        x: a top-bag, RaggedTensor `[(n), (m), height, width]` of images, such as `x_test[0]`.
        z: its digits, RaggedTensor `[(n), (m)]`, which tell the labels of the sub-bags.
        y: label of the top-bag, 0 or 1; by default that which `z` tells.
        ax: matplotlib axes to draw in; by default those of a new figure of fitting size.

    Returns:
        The matplotlib axes.

    Raises:
        ImportError: if matplotlib is not installed.
        TypeError: if `x` or `z` is not a RaggedTensor.
        ValueError: if `x` is not a single top-bag, or `z` is of other sizes.
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Expected matplotlib, which draws pictures: pip install 'keras-mmil[report]'"
        ) from error
    _check_top_bag("x", x)
    sub_bag_labels = [None] * x.shape[0]
    if z is not None:
        _check_top_bag("z", z)
        if not np.array_equal(x.row_splits, z.row_splits):
            raise ValueError(
                f"Expected digits for bags of sizes {x.row_lengths().numpy()}. "
                f"Received: z with sizes {z.row_lengths().numpy()}"
            )
        sub_bag_labels = mnist.sub_bag_labels(z[None]).flat_values.numpy().tolist()
        y = max(sub_bag_labels, default=0) if y is None else y
    if y not in _STYLES:
        raise ValueError(f"Expected a label 0 or 1, or None. Received: y={y!r}")

    sizes = x.row_lengths().numpy()
    step = 1 + 2 * _PAD + _GAP  # from a sub-bag to the next one below it
    width = sizes.max(initial=1) + 2 * _PAD + 2 * _GAP
    height = len(sizes) * step + _GAP
    if ax is None:
        _, ax = plt.subplots(figsize=(0.6 * width, 0.6 * height), layout="constrained")
    ax.add_patch(_frame(0, 0, width, height, y, linewidth=2.5))
    brightest = x.flat_values.numpy().max(initial=1)
    for row, (images, label) in enumerate(zip(x, sub_bag_labels, strict=True)):
        left, top = _GAP, _GAP + row * step
        ax.add_patch(_frame(left, top, len(images) + 2 * _PAD, 1 + 2 * _PAD, label, linewidth=1.5))
        for column, image in enumerate(images.numpy()):
            x0, y0 = left + _PAD + column, top + _PAD
            ax.imshow(image, "gray_r", extent=(x0, x0 + 1, y0 + 1, y0), vmin=0, vmax=brightest)
    ax.set(xlim=(-_PAD, width + _PAD), ylim=(height + _PAD, -_PAD), aspect="equal")
    ax.set_axis_off()
    return ax


def _frame(left, top, width, height, label, linewidth):
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (left, top),
        width,
        height,
        boxstyle=f"round,pad=0,rounding_size={_PAD}",
        facecolor="none",
        linewidth=linewidth,
        **_STYLES[label],
    )


def _check_top_bag(name, part):
    if not isinstance(part, tf.RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor. Received: {name} of type {type(part).__name__}")
    rank = {"x": 3, "z": 1}[name]
    if part.ragged_rank != 1 or part.flat_values.shape.rank != rank:
        raise ValueError(
            f"Expected one top-bag, a bag of bags such as {name}[0]. "
            f"Received: {name}.shape={part.shape}"
        )

"""Pictures of top-bags: what is drawn, and in which style."""

import sys

import numpy as np
import pytest

plt = pytest.importorskip("matplotlib.pyplot")

from keras_mmil import ragged  # noqa: E402
from keras_mmil.datasets import mnist  # noqa: E402
from keras_mmil.interpretation import plot_top_bag  # noqa: E402

Z = ragged.from_nested_lists([[[7, 1], [3, 7, 2]]])
LABELS = mnist.sub_bag_labels(Z)[0]  # 1, 0
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
X = Z.with_flat_values(IMAGES)
GREEN, RED, GREY = "#2a9134", "#c8313a", "#808080"


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def styles(ax):
    from matplotlib.colors import to_hex

    return [(to_hex(patch.get_edgecolor()), patch.get_linestyle()) for patch in ax.patches]


def test_frames_tell_the_labels():
    ax = plot_top_bag(X[0], LABELS)
    assert styles(ax) == [(GREEN, "-"), (GREEN, "-"), (RED, "--")]
    negative = plot_top_bag(X[0][1:], LABELS[1:])
    assert styles(negative) == [(RED, "--")] * 2
    assert styles(plot_top_bag(X[0], label=0)) == [(RED, "--"), (GREY, "-"), (GREY, "-")]
    assert styles(plot_top_bag(X[0])) == [(GREY, "-")] * 3


def test_all_images_are_drawn_within_the_frame():
    _, ax = plt.subplots()
    assert plot_top_bag(X[0], ax=ax) is ax
    assert [image.get_array().tolist() for image in ax.images] == IMAGES.tolist()
    ax.figure.canvas.draw()
    outer = ax.patches[0].get_window_extent()
    for image in ax.images:
        box = image.get_window_extent()
        assert outer.x0 < box.x0 < box.x1 < outer.x1
        assert outer.y0 < box.y0 < box.y1 < outer.y1


def test_an_empty_top_bag_is_an_empty_frame():
    ax = plot_top_bag(X[0][:0], LABELS[:0])
    assert styles(ax) == [(RED, "--")]
    assert not ax.images


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((IMAGES,), TypeError, "x of type ndarray"),
        ((X,), ValueError, r"such as x\[0\]. Received: x.shape=\(1, None, None, 28, 28\)"),
        ((X[0], [LABELS]), ValueError, r"sub_bag_labels of shape \(1, 2\)"),
        ((X[0], LABELS[:1]), ValueError, r"each of 2 sub-bags. Received: .* shape \(1,\)"),
        ((X[0], [0, 2]), ValueError, "Received: sub_bag_labels=2"),
        ((X[0], None, 2), ValueError, "Received: label=2"),
    ],
)
def test_bad_top_bags(arguments, error, match):
    with pytest.raises(error, match=match):
        plot_top_bag(*arguments)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"keras-mmil\[plots\]"):
        plot_top_bag(X[0])

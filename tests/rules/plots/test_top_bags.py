"""Pictures of top-bags: what is drawn, and in which style."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import pyplot as plt

from keras_mmil import ragged, zoo
from keras_mmil.builders import clouds
from keras_mmil.datasets import mnist, synthetic
from keras_mmil.rules import Explainer, plot_clouds, plot_top_bag
from keras_mmil.rules.explain.explanation import Explanation, Part
from keras_mmil.rules.trees.columns import Column
from keras_mmil.rules.trees.rule_set import Condition, Rule

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


@pytest.mark.slow
@pytest.mark.parametrize("form", ["bags", pytest.param("clouds", marks=pytest.mark.nightly)])
def test_pictures_of_clouds(form, tmp_path):
    """Green are the points that decide; and what has to be absent is where others have it."""
    x, y = synthetic.load_clouds(60, 20, seed=1)
    model = (zoo.pointcloud_mmil if form == "bags" else zoo.pointcloud_mil)(
        4, equivariant_units=(8, 8), dense_units=8
    )
    bags = tf.RaggedTensor.from_tensor(x)
    if form == "bags":
        bags = tf.RaggedTensor.from_tensor(clouds.rotations(x, 2), ragged_rank=2)
    model.fit(bags, y, epochs=4, batch_size=20, verbose=0)
    median = np.median(model.predict(bags, verbose=0)[:, 0])
    fit = Explainer(n_clusters=6, features="frequency", target=(0, median), verbose=0)
    fit.fit(model, bags)
    figure = plot_clouds(fit, bags[:5], bags, titles=list("abcde"), path=tmp_path / "clouds.png")
    assert (tmp_path / "clouds.png").stat().st_size > 1000
    labels = fit.labels(bags)[0]
    for i, explanation in enumerate(fit.explain(bags[:5])):
        part, reasons = explanation.top_bag, [explanation.top_bag.clause]
        if form == "bags":
            for role in ("decides", "limited", "checked"):
                of_role = [child for child in part.children if child.role == role]
                if of_role:
                    part = of_role[0]
                    reasons.append(f"sub-bag {part.position[-1]} ({role}): {part.clause}")
                    break
        title = figure.subfigs[i].get_suptitle()
        assert title.split() == " ".join(["abcde"[i], *reasons]).split()
        assert max(map(len, title.splitlines())) <= 50
        absent, idle, deciding = (
            np.stack(dots._offsets3d, axis=1) for dots in figure.axes[i].collections
        )
        points, wanted = bags[part.position].numpy(), [child.deciding for child in part.children]
        np.testing.assert_array_equal(deciding, points[wanted])
        np.testing.assert_array_equal(idle, points[np.logical_not(wanted)])
        unwanted = np.isin(labels.flat_values, [int(name[1:]) - 1 for name in part.absent])
        places = bags.flat_values.numpy()[unwanted].tolist()
        assert all(place in places for place in absent.tolist())
        assert len(absent) == 0 if not part.absent else len(absent) >= min(60, len(places))
    with pytest.raises(ValueError, match="points in space"):
        plot_clouds(fit, tf.ragged.constant([[[1.0, 2.0]]], inner_shape=(2,)), bags)


def test_reason_in_a_picture_of_clouds_is_the_rule_and_not_what_is_there():
    """A rule that only wants kinds of clouds to be absent; and a top-bag without clouds."""
    clouds_of = [[[0.0, 0, 0], [1, 1, 1]], [[2.0, 0, 0]]], []
    x = tf.ragged.constant(clouds_of, ragged_rank=2, inner_shape=(3,), dtype=tf.float32)
    figures = {"support": 1.0, "precision": 1.0, "coverage": 1.0}
    absent = Condition(1, high=0.5), Condition(2, high=1.5)
    few = Rule(1, 1, absent, **figures)
    some = Rule(0, 0, (Condition(0, low=0.5),), **figures)
    names = ("u1", "u2"), ("v1", "v2", "v3"), ("chair", "table")
    columns = [[Column("occurrence", u) for u in names[0]], [Column("count", v) for v in names[1]]]

    def part(level, position, label, role, rule=None, children=()):
        return Part(
            level=level,
            word=("instance", "sub-bag", "top-bag")[level],
            position=position,
            label=label,
            name=names[level][label],
            nearest=None,
            weight=1.0,
            role=role,
            rule=rule,
            clause=rule and rule.clause(columns[level - 1], names[level]),
            children=children,
            title=str(position[-1]),
        )

    clouds_ = (
        part(1, (0, 0), 0, "checked", some, (part(0, (0, 0, 0), 0, "decides"),) * 2),
        part(1, (0, 1), 2, "limited", some, (part(0, (0, 1, 0), 0, "decides"),)),
    )
    explanations = [
        Explanation(part(2, (i,), 1, None, few, children), 1, "table")
        for i, children in enumerate((clouds_, ()))
    ]
    fit = SimpleNamespace(
        explain=lambda _: explanations,
        labels=lambda _: [tf.ragged.constant([[[0, 0], [0]], []], ragged_rank=2)],
        clusters_=[SimpleNamespace(names=names[0])],
    )
    figure = plot_clouds(fit, x, x)
    of_clouds, of_nothing = (panel.get_suptitle().replace("\xa0", " ") for panel in figure.subfigs)
    assert of_clouds == "0\ntable ← c_v2 ≤ 0, c_v3 ≤ 1.\nsub-bag 1 (limited): v1 ← o_u1=1."
    assert of_nothing == "1\ntable ← c_v2 ≤ 0, c_v3 ≤ 1."
    drawn = [np.stack(dots._offsets3d, axis=1).tolist() for dots in figure.axes[0].collections]
    assert drawn == [[], [], [[2, 0, 0]]]
    assert not figure.axes[1].collections

"""Pictures of clouds of points."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import zoo
from keras_mmil.builders import clouds
from keras_mmil.datasets import synthetic
from keras_mmil.interpretation import Explainer, plot_clouds
from keras_mmil.interpretation.readout.explanation import Explanation
from keras_mmil.interpretation.readout.part import Part
from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.interpretation.rules.rule import Condition, Rule


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

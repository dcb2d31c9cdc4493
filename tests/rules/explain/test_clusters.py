"""Clusters: what represents them, their sizes and true labels, and tables of them."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from digit_networks import N_DIGITS, vectors
from record_networks import read

import keras_mmil
from keras_mmil import Explainer, ragged
from keras_mmil.layers import BagLayer
from keras_mmil.rules.explain.clusters import (
    ClusterTable,
    ClusterView,
    LevelDescription,
    describe,
)

N_CLUSTERS = (3, 2)


@pytest.fixture(scope="module")
def fitted():
    """An explainer of bags of bags, its data, and ρ of each of its two bag-layers."""
    keras.utils.set_random_seed(4)
    inputs = keras.Input((None, None, 3), ragged=True)
    first, second = BagLayer(6), BagLayer(4)
    outputs = keras.layers.Dense(1, activation="sigmoid")(second(first(inputs)))
    model = keras_mmil.Model(inputs, outputs)
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 4, 30)]
    sizes.append(rng.integers(1, 5, sizes[0].sum()))
    x = ragged.from_flat(rng.normal(size=(sizes[1].sum(), 3)).astype("float32"), sizes)
    target = (0, float(np.median(model(x))))
    explainer = Explainer(n_clusters=N_CLUSTERS, target=target, verbose=0).fit(model, x, x)
    return explainer, x, (first.represent(x), second.represent(first(x)))


def ranked(explainer, rho, level, cluster, by):
    """(position, the paper's score) of all rows in a cluster, the best first, by plain loops."""
    found = []
    centroids = explainer.clusters_[level].centroids.astype("float64")

    def visit(part, position):
        if position and len(position) == 3 - level:
            distances = np.sqrt(np.square(centroids - np.array(part)).sum(axis=1))
            if distances.argmin() == cluster:
                others = np.delete(distances, cluster).min()
                key = -others if by == "separation" else distances[cluster]
                found.append((key, position, others))
            return
        for i, member in enumerate(part):
            visit(member, (*position, i))

    visit(rho[level].to_list(), ())
    return [(position, others) for _, position, others in sorted(found)]


@pytest.mark.parametrize(
    ("batch_size", "by"),
    [(4, "separation"), (4, "closeness"), pytest.param(1000, "separation", marks=pytest.mark.slow)],
)
def test_entries_are_the_best_of_all_batches(fitted, batch_size, by):
    explainer, x, rho = fitted
    explainer.set_params(batch_size=batch_size)
    table = explainer.cluster_table(x, n=6, by=by)
    assert list(table.levels) == ["instance", "sub-bag"]
    for level, columns in enumerate(table.levels.values()):
        here, (needed,) = explainer.clusters_[level], explainer.levels_[level].needed
        assert [column.name for column in columns] == list(here.names)
        np.testing.assert_allclose([column.size for column in columns], here.sizes)
        assert [column.needed for column in columns] == list(needed)
        for cluster, column in enumerate(columns):
            expected = ranked(explainer, rho, level, cluster, by)
            assert list(column.entries) == [str(position) for position, _ in expected[:6]]
            found = explainer.representatives(x, level, cluster, n=6, by=by)
            assert [each.position for each in found] == [p for p, _ in expected[:6]]
            scores = [others for _, others in expected[:6]]
            np.testing.assert_allclose([each.separation for each in found], scores, rtol=1e-4)


def test_equal_rows_of_several_batches_count_once(fitted):
    explainer, x, rho = fitted
    explainer.set_params(batch_size=8)
    twice = tf.concat([x, x[::-1]], axis=0)
    for cluster in range(3):
        expected = ranked(explainer, rho, 0, cluster, "separation")
        found = explainer.representatives(twice, 0, cluster, n=1000)
        scores = [others for _, others in expected]
        np.testing.assert_allclose([each.separation for each in found], scores, rtol=1e-4)
        for each, (position, _) in zip(found, expected, strict=True):
            assert each.position in (position, (59 - position[0], *position[1:]))


def test_show_is_called_with_positions(fitted):
    explainer, x, _ = fitted
    table = explainer.cluster_table(x, n=2, show=lambda position: f"{len(position)} indices")
    for word, depth in {"instance": 3, "sub-bag": 2}.items():
        assert {e for c in table.levels[word] for e in c.entries} == {f"{depth} indices"}


def test_bad_arguments(fitted):
    explainer, x, _ = fitted
    for match, arguments in {
        "by='best'": (0, 0, 3, "best"),
        "level='w'": ("w", 0),
        "level=2": (2, 0),
        "cluster=3": (0, 3),
        "cluster='u9'": (0, "u9"),
        "n=0": (0, 0, 0),
    }.items():
        with pytest.raises(ValueError, match=match):
            explainer.representatives(x, *arguments)
    for arguments in ({"n": 0}, {"by": "best"}):
        with pytest.raises(ValueError, match=r"n=0|by='best'"):
            explainer.cluster_table(x, **arguments)


TABLE = ClusterTable(
    {
        "instance": (
            ClusterView("u1", "instances", 0.7512, True, ("a | b", "<unknown> c")),
            ClusterView("u2", "instances", 0.2488, False, ("d", "e", "f & g")),
        ),
        "sub-bag": (ClusterView("<v>", "sub-bags", 1.0, True, ()),),
    }
)


def test_markdown():
    assert TABLE.to_markdown().splitlines() == [
        "Clusters of instances:",
        "",
        "| u1 (75.1 %) | <sub>u2 (24.9 %)</sub> |",
        "| --- | --- |",
        r"| a \| b | <sub>d</sub> |",
        r"| \<unknown> c | <sub>e</sub> |",
        "|  | <sub>f & g</sub> |",
        "",
        "Clusters of sub-bags:",
        "",
        r"| \<v> (100.0 %) |",
        "| --- |",
    ]


def test_html():
    markup = TABLE.to_html()
    assert markup == TABLE._repr_html_()
    dim = 'style="color:#9a9a9a"'
    for shown in (
        "<h3>Clusters of instances</h3>",
        '<th style="">u1 (75.1 %)</th>',
        f"<th {dim}>u2 (24.9 %)</th>",
        f'<tr><td style="">a | b</td><td {dim}>d</td></tr>',
        f'<tr><td style="">&lt;unknown&gt; c</td><td {dim}>e</td></tr>',
        f'<tr><td style=""></td><td {dim}>f &amp; g</td></tr></table>',
        '<th style="">&lt;v&gt; (100.0 %)</th></tr></table>',
    ):
        assert shown in markup


def test_str():
    assert str(TABLE).splitlines() == [
        "u1 (75.1 % of instances): a | b; <unknown> c",
        "u2 (24.9 % of instances, not used): d; e; f & g",
        "<v> (100.0 % of sub-bags): ",
    ]


@pytest.mark.slow
def test_description(digit_ids, digit_explainer):
    x = vectors(digit_ids)
    sizes = [level.sizes for level in digit_explainer.describe()]
    np.testing.assert_allclose([s.sum() for s in sizes], 1)
    positive = digit_ids.with_values(
        ragged.from_flat(
            [int(3 in s and 2 not in s) for top in digit_ids.to_list() for s in top],
            [digit_ids.row_lengths()],
        ).values
    )
    description = digit_explainer.describe(
        x,
        instance_labels=digit_ids,
        sub_bag_labels=positive,
        label_names={"sub-bag": ("no", "yes")},
    )
    table = description[0].table
    clusters = digit_explainer.labels(x)[0].flat_values.numpy()
    expected = np.zeros((3, N_DIGITS))
    for cluster, digit in zip(clusters, digit_ids.flat_values.numpy(), strict=True):
        expected[cluster, digit] += 1
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_allclose(description[0].sizes, expected.sum(axis=1) / expected.sum())
    np.testing.assert_allclose(description[1].share, 1)
    assert "of which 100.0 % are yes" in str(description)
    records = description.to_dict()
    assert [r["majority"] for r in records["sub-bag"]] in (["no", "yes"], ["yes", "no"])
    assert json.loads(json.dumps(records)) == records
    assert not all(description[0].needed)
    assert "(not used)" in str(description)
    with pytest.raises(ValueError, match=r"one for|integer label ≥ 0 for each of \d+ instances"):
        digit_explainer.describe(x, instance_labels=digit_ids[:3])
    with pytest.raises(ValueError, match="Received: x=None"):
        digit_explainer.describe(instance_labels=digit_ids)
    with pytest.raises(ValueError, match="labels below 1"):
        digit_explainer.describe(x, sub_bag_labels=positive, label_names={"sub-bag": ("no",)})


@pytest.mark.slow
def test_labels_of_levels_that_there_are_not(churn_explainer, customers):
    """In a tree, no bag-layer is that of the sub-bags."""
    x = read(customers[:5])
    paths = r"orders\.items\.product\.tags, orders\.items, orders, visits"
    with pytest.raises(ValueError, match=f"labels of instances only.*bag-layers on {paths}"):
        churn_explainer.describe(x, instance_labels=np.zeros(3, int))
    with pytest.raises(ValueError, match=f"labels of sub-bags only.*bag-layers on {paths}"):
        churn_explainer.describe(x, sub_bag_labels=np.zeros(3, int))


def test_names_of_the_majority():
    """The largest cluster of a label has its name; clusters without a majority keep theirs."""
    described = LevelDescription(
        level=0,
        word="image",
        words="images",
        title="image",
        names=("u1", "u2", "u3", "u4"),
        sizes=np.full(4, 0.25),
        needed=(True,) * 4,
        table=np.array([[5, 0, 0], [4, 5, 4], [0, 0, 0], [9, 8, 1]]),
        label_names=("three", "five", "seven"),
    )
    assert described.majority_names == {0: "three (2)", 3: "three"}


def test_labels_of_sub_bags_where_there_are_none():
    levels = [
        SimpleNamespace(record=1, clusters=(bag,), needed=((True, True),))
        for bag in (SimpleNamespace(level=0, path="", word="instance"),)
    ]
    with pytest.raises(ValueError, match=r"labels of sub-bags only.*bag-layers on instance$"):
        describe(levels, None, {0: None, 1: np.zeros(3, int)}, {})

"""The precision at which what was overlooked is ranked: as a function and as a metric."""

import keras
import numpy as np
import pytest

from keras_mmil.losses import seen_crossentropy
from keras_mmil.metrics import HeldOutPrecision, held_out_labels, held_out_precision


def example(seed, n=40, things=12):
    """Labels, scores, and the precision of each example."""
    rng = np.random.default_rng(seed)
    present = rng.random((n, things)) < rng.random((n, 1))
    seen = present & (rng.random((n, things)) < 0.6)
    scores = rng.random((n, things)).round(1).astype("float32")  # with ties
    return held_out_labels(seen, present), scores, by_loop(scores, seen, present)


def by_loop(scores, seen, present):
    """The paper's equation, word by word."""
    out = []
    for a_hat, a_p, a in zip(scores, seen, present, strict=True):
        unseen = [j for j in range(len(a)) if not a_p[j]]
        n_hidden = sum(a[j] for j in unseen)
        ranked = sorted(unseen, key=lambda j: (-a_hat[j], j))
        shares = [sum(a[ranked[r]] for r in range(i)) / i for i in range(1, n_hidden + 1)]
        out.append(sum(shares) / n_hidden if n_hidden else float("nan"))
    return np.array(out)


# The function -------------------------------------------------------------------------------------


def test_labels():
    labels = held_out_labels([[True, True, False, False]], [[True, False, True, False]])
    assert labels.tolist() == [[1, 1, 2, 0]]
    assert labels.dtype == np.int8


@pytest.mark.parametrize("seed", range(4))
def test_precision_is_the_papers(seed):
    labels, scores, expected = example(seed)
    found = held_out_precision(labels, scores)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected)
    assert np.isnan(found).any() or not seed


def test_best_worst_and_no_ranking():
    for scores, expected in (
        ([0, 9, 8, 1, 2], 1),
        ([9, 1, 2, 3, 4], 0),
        ([9, 7, 2, 8, 1], 0.25),
        ([0, 0, 0, 0, 0], 1),
    ):
        np.testing.assert_allclose(held_out_precision([[1, 2, 2, 0, 0]], [scores]), [expected])
    assert np.isnan(held_out_precision([[1, 1, 1, 0, 0]], [[1, 2, 3, 4, 5]])).all()
    assert held_out_precision(np.zeros((0, 5)), np.zeros((0, 5))).shape == (0,)


@pytest.mark.parametrize(
    ("labels", "scores", "match"),
    [
        (np.zeros((1, 5)), np.zeros((2, 3)), r"labels.shape=\(1, 5\), scores.shape=\(2, 3\)"),
        (np.zeros(5), np.zeros(5), r"labels.shape=\(5,\)"),
        (np.zeros((1, 5)), np.full((1, 5), np.nan), "5 of them NaN"),
        ([[0, 3]], [[0.1, 0.2]], r"labels=\[0 3\]"),
    ],
)
def test_wrong_labels_and_scores(labels, scores, match):
    with pytest.raises(ValueError, match=match):
        held_out_precision(labels, scores)


# The metric ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_metric_is_the_mean_over_batches(seed, dtype):
    labels, scores, each = example(seed)
    metric = HeldOutPrecision()
    for part in np.array_split(np.arange(len(labels)), 3):
        metric.update_state(labels[part].astype(dtype), scores[part])
    np.testing.assert_allclose(float(metric.result()), np.nanmean(each), rtol=1e-6)
    metric.reset_state()
    assert np.isnan(metric.result())


def test_weights():
    labels, scores, each = example(5)
    weights = np.arange(len(labels)) % 3
    metric = HeldOutPrecision()
    metric.update_state(labels, scores, sample_weight=weights)
    there = ~np.isnan(each)
    expected = np.average(each[there], weights=weights[there])
    np.testing.assert_allclose(float(metric.result()), expected, rtol=1e-6)


@pytest.mark.slow
def test_with_a_model(tmp_path):
    labels, scores, _ = example(2)
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(12, activation="sigmoid")])
    model.compile("adam", seen_crossentropy, metrics=[HeldOutPrecision()])
    model.fit(scores, (labels == 1).astype("int8"), epochs=1, verbose=0)
    found = model.evaluate(scores, labels, verbose=0, return_dict=True)
    each = by_loop(model.predict(scores, verbose=0), labels == 1, labels > 0)
    np.testing.assert_allclose(found["map"], np.nanmean(each), rtol=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.evaluate(scores, labels, verbose=0, return_dict=True) == pytest.approx(found)

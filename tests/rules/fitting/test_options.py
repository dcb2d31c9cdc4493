"""The arguments of an explainer."""

import keras
import numpy as np
import pytest
from digit_networks import explainer, plain_model, vectors
from random_networks import make_data, make_model, quick_explainer

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"max_clusters": 1}, "max_clusters=1"),
        ({"max_clusters": (3, 3)}, r"each of 1 bag-layers.*max_clusters=\(3, 3\)"),
        ({"max_clusters": 2.5}, "max_clusters=2.5"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": ("3",)}, r"n_clusters=\('3',\)"),
        ({"features": "presence"}, "features='presence'"),
        ({"features": ("count", "count")}, r"features=\('count', 'count'\)"),
        ({"features": 3}, "features=3"),
        ({"class_names": ("one",)}, r"2 classes. Received: class_names=\('one',\)"),
        ({"class_names": ("same", "same")}, "class_names="),
        ({"class_names": "ab"}, "class_names='ab'"),
        ({"tolerance": -0.1}, "tolerance=-0.1"),
        ({"tolerance": "none"}, "tolerance='none'"),
        ({"validation_fraction": 2}, "validation_fraction=2"),
        ({"ccp_alpha": -1}, "ccp_alpha=-1"),
        ({"n_init": 0}, "n_init=0"),
        ({"n_init": 10**9}, "n_init=1000000000"),
        ({"n_clusters": 200, "max_rows": 100}, "from 1 to 100. Received: n_clusters=200"),
        ({"max_depth": 2**40}, "max_depth=1099511627776"),
        ({"metric": "cosine"}, "metric='cosine'"),
        ({"max_rows": 0}, "max_rows=0"),
        ({"batch_size": 0.5}, "batch_size=0.5"),
        ({"batch_size": True}, "batch_size=True"),
        ({"max_depth": 0}, "max_depth=0"),
        ({"max_depth": 1.5}, "max_depth=1.5"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"random_state": "seed"}, "random_state='seed'"),
    ],
)
def test_arguments_out_of_range(arguments, match):
    with pytest.raises(ValueError, match=f"Received: .*{match}|{match}"):
        quick_explainer(**arguments).fit(make_model(), make_data())


def test_arguments_may_be_numbers_of_numpy():
    x, model = make_data(), make_model()
    median = np.float32(np.median(model(x)))
    ours = {"max_clusters": 4, "n_init": 2, "batch_size": 7, "max_depth": 3, "n_jobs": 2}
    ours |= {"max_rows": 50, "random_state": 3}
    numpys = {name: np.int64(value) for name, value in ours.items()}
    first = quick_explainer(**ours, target=(0, float(median))).fit(model, x)
    second = quick_explainer(**numpys, target=(np.int32(0), median)).fit(model, x)
    assert first.rules_.text() == second.rules_.text()
    fixed = quick_explainer(n_clusters=(np.uint8(3),), target=(0, median)).fit(model, x)
    assert fixed.n_clusters_ == (3,)


@pytest.mark.slow
def test_features_follow_the_aggregation(digit_ids):
    for aggregation, feature in (
        ("max", "occurrence"),
        ("mean", "frequency"),
        ("max|mean", "frequency"),
        ("sum", "count"),
        ("max|sum", "count"),
        ("attention", "frequency"),
    ):
        model = plain_model(aggregation)
        middle = float(np.median(model(vectors(digit_ids))))
        fit = explainer(n_clusters=(3, 4), target=(0, middle)).fit(model, vectors(digit_ids))
        assert [clusters.feature.value for clusters in fit.clusters_] == [feature, "occurrence"]
        assert fit.fidelity_ > 0.6


def test_features_as_asked_for(digit_model, digit_ids):
    fit = explainer(n_clusters=(3, 2), features=("frequency", "count")).fit(
        digit_model, vectors(digit_ids)
    )
    assert [clusters.feature.value for clusters in fit.clusters_] == ["frequency", "count"]


def test_fractional_weights_are_no_counts():
    inputs = {
        "bags": keras.Input((None, 2), ragged=True, name="bags"),
        "weights": keras.Input((None,), ragged=True, optional=True, name="weights"),
    }
    x = BagLayer(2, aggregation="sum")(inputs["bags"], weights=inputs["weights"])
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 5, 40)
    values = rng.normal(size=(sizes.sum(), 2)).astype(np.float32)
    x = {
        "bags": ragged.from_flat(values, [sizes]),
        "weights": ragged.from_flat(rng.random(sizes.sum()).astype(np.float32), [sizes]),
    }
    target = (0, float(np.median(model(x))))
    for data, name in ((x, "weight"), (x["bags"], "count")):
        assert explainer(target=target).fit(model, data).clusters_[0].feature.value == name

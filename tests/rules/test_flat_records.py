"""Rules of networks for records without bags: trees on their fields."""

import keras
import numpy as np
import pytest
from executed_rules import by_python, by_sql, single

import keras_mmil
from keras_mmil import Explainer
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels, records_model
from keras_mmil.rules import plot_grid


def rows(n, seed):
    rng = np.random.default_rng(seed)
    plans = rng.choice(["basic", "gold", "team"], n)
    return [
        {"age": int(rng.integers(18, 90)), "plan": str(plan), "vip": bool(rng.integers(2))}
        for plan in plans
    ]


@pytest.mark.slow
def test_rules_of_flat_records(tmp_path):
    train, valid, test = rows(200, 0), rows(100, 1), rows(60, 2)
    schema = Schema.infer(train)
    model = records_model(schema, Labels("classes", 3), units=8, seed=1)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(0, 0.7, w.shape).astype("float32") for w in model.weights])
    x = schema.read(test)
    explainer = Explainer(verbose=0, class_names=["a", "b", "c"])
    explainer.check(model, schema.read(train), schema.read(valid))
    explainer.fit(model, schema.read(train), schema.read(valid))
    assert (explainer.clusters_, explainer.n_clusters_, len(explainer.levels_)) == ((), (), 1)

    network = model.predict(x, verbose=0).argmax(axis=1)
    found = explainer.predict(x)
    assert len(set(found.tolist())) > 1
    agreement = float(np.mean(found == network))
    assert agreement > 0.85 > np.bincount(network).max() / len(network)
    assert str(explainer.certify(x, network).fidelity.estimate) == str(agreement)
    assert explainer.evaluate(x, network)["accuracy"] == agreement
    classes = [explainer.classes_[i] for i in found]
    assert by_sql(explainer, x) == by_python(explainer, x) == classes

    text = explainer.rules_.text()
    assert text.startswith("records, by their fields")
    assert "age" in text
    for each, label in zip(explainer.explain(x), network, strict=True):
        assert each.network == label
        assert not each.top_bag.children
        assert set(each.top_bag.fields) == {"age", "plan", "vip"}
    assert all(explainer.rules_.in_words())
    page = explainer.report(x, network, n_cases=3).html
    assert "rule accuracy" in page
    assert str(explainer.stability(n=2))
    assert explainer.deletion(x).n_undecided == len(test)
    assert not explainer.counterfactual(next(iter(single(x, 1)))).found
    assert len(list(explainer.describe(x))) == 0
    assert str(explainer.cluster_table(x)) == ""
    with pytest.raises(ValueError, match="Expected rules about clusters"):
        plot_grid(explainer)
    explainer.save(tmp_path / "rules")
    loaded = Explainer.load(tmp_path / "rules", model)
    assert loaded.rules_.text() == text
    np.testing.assert_array_equal(loaded.predict(x), found)
    other = Explainer(verbose=0, n_clusters=2, instances="centroids").fit(model, x)
    assert other.predict(x).shape == (len(test),)


def test_vectors_without_bags_are_refused():
    inputs = keras.Input((3,))
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(inputs))
    with pytest.raises(ValueError, match="Expected a model with bag-layers"):
        Explainer().fit(model, np.zeros((9, 3), "float32"))

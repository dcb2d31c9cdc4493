"""Definitions of clusters, learned from fields and from features with names."""

import copy
import pickle

import keras
import numpy as np
import pytest
from random_networks import Concatenated, make_data, make_model, quick_explainer
from record_networks import churn_model, fit_and_name, random_customers, read
from sklearn.base import clone
from sklearn.metrics import accuracy_score, precision_score, recall_score

import keras_mmil
from keras_mmil import batches, ragged
from keras_mmil.layers import BagLayer, NumberEncoder
from keras_mmil.rules import Explainer
from keras_mmil.rules.fitting.levels import define
from keras_mmil.rules.trees.fields import field_of

NAMES = ("width", "height", "depth")


def things(n, seed):
    """Values of a number and of a category, missing ones among them, and how often they occur."""
    rng = np.random.default_rng(seed)
    price = np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 10, n))
    kind = rng.choice(np.array([b"book", b"toy", b"tool"], object), n)
    return (price, kind), rng.integers(1, 5, n).astype(float)


def decided(values):
    """By hand: 0 for toys, else 1 if the price is above 6, else 2."""
    price, kind = values
    return np.where(kind == b"toy", 0, np.where(np.nan_to_num(price) > 6, 1, 2))


def holds(definition, cluster, matrix):
    """Whether a definition holds for rows, one by one."""
    return np.array(
        [
            any(
                all(c.low < row[c.column] <= c.high for c in case)
                for case in definition.cases[cluster]
            )
            for row in matrix
        ]
    )


def fields_of(values, weights):
    price, kind = values
    return field_of("price", "number", price, weights), field_of("kind", "category", kind, weights)


def test_a_decision_made_by_hand_is_found():
    (values, weights), (others, n_others) = things(400, 0), things(200, 1)
    definition = define(
        fields_of(values, weights),
        (values, decided(values), weights),
        (others, decided(others), n_others),
        n_clusters=3,
    )
    assert definition.text(0) == "kind = 'toy'"
    assert definition.text(1) == "price > 6 and kind ≠ 'toy'"
    assert definition.text(2) == "price ≤ 6 or missing and kind ≠ 'toy'"
    assert definition.accuracy > 0.99
    majority = np.bincount(decided(others), n_others).max() / n_others.sum()
    assert definition.majority == pytest.approx(majority)


def test_figures_are_those_of_scikit_learn():
    """Of clusters that fields hardly tell apart; each row counts as often as it occurs."""
    (values, weights), (others, n_others) = things(400, 0), things(300, 1)
    rng = np.random.default_rng(2)

    def noisy(labels):
        return np.where(rng.random(len(labels)) < 0.3, rng.integers(3, size=len(labels)), labels)

    fields, truth = fields_of(values, weights), noisy(decided(others))
    definition = define(
        fields,
        (values, noisy(decided(values)), weights),
        (others, truth, n_others),
        n_clusters=3,
    )
    matrix = np.hstack([field.matrix(raw) for field, raw in zip(fields, others, strict=True)])
    each = np.stack([holds(definition, cluster, matrix) for cluster in range(3)])
    assert (each.sum(axis=0) == 1).all()
    said, counts = each.argmax(axis=0), {"sample_weight": n_others}
    assert definition.accuracy == pytest.approx(accuracy_score(truth, said, **counts))
    assert 0.5 < definition.accuracy < 0.95
    for cluster in range(3):
        only = {"labels": [cluster], "average": "micro", **counts}
        precision, recall = (f(truth, said, **only) for f in (precision_score, recall_score))
        assert definition.precision(cluster) == pytest.approx(precision)
        assert definition.recall(cluster) == pytest.approx(recall)
    n_conditions = [len(case) for cases in definition.cases for case in cases]
    assert len(n_conditions) <= 8
    assert max(n_conditions) <= 3


def test_what_fields_do_not_tell_has_no_definition():
    (values, weights), (others, n_others) = things(300, 0), things(100, 1)
    labels, other_labels = (
        np.random.default_rng(i).random(n) < 0.1 for i, n in ((7, 300), (8, 100))
    )
    definition = define(
        fields_of(values, weights),
        (values, labels.astype(int), weights),
        (others, other_labels.astype(int), n_others),
        n_clusters=2,
        ccp_alpha=0.01,
    )
    assert [definition.text(i) for i in range(2)] == ["anything", None]
    assert definition.summary(1) == "no short definition"
    assert definition.accuracy == definition.majority


def boxes(n=60, seed=0, depth=2):
    """Bags of things with three features."""
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(1, 4, n)]
    for _ in range(depth - 1):
        sizes.append(rng.integers(1, 4, sizes[-1].sum()))
    return ragged.from_flat(rng.uniform(-1, 1, (sizes[-1].sum(), 3)).astype(np.float32), sizes)


@pytest.fixture(scope="module")
def model():
    """A thing counts if its width is above 0.3; a sub-bag with one, and a top-bag with such one."""
    inputs = keras.Input((None, None, 3), ragged=True)
    layers = BagLayer(1, "sigmoid"), BagLayer(1, "sigmoid")
    x = layers[1](layers[0](inputs))
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, "sigmoid")(x))
    layers[0].set_weights([np.array([[500.0], [0], [0]]), np.array([-150.0]), np.zeros(1)])
    layers[1].set_weights([np.array([[100.0]]), np.array([-50.0]), np.zeros(1)])
    model.layers[-1].set_weights([np.array([[100.0]]), np.array([-50.0])])
    return model


@pytest.fixture(scope="module")
def fitted(model):
    explainer = Explainer(n_clusters=2, verbose=0, feature_names=NAMES)
    return explainer.fit(model, boxes(200), boxes(100, seed=1))


def test_features_with_names_define_clusters(fitted):
    (definition, of_sub_bags) = (clusters.definition for clusters in fitted.clusters_)
    assert of_sub_bags is None  # which rules label
    small, large = definition.text(0), definition.text(1)
    assert small.startswith("width ≤ 0.3")
    assert large == small.replace("≤", ">")
    widths = boxes(100, seed=1).flat_values.numpy()[:, 0]
    assert definition.accuracy > 0.99
    assert definition.majority == pytest.approx(max((widths > 0.3).mean(), (widths < 0.3).mean()))
    text = fitted.rules_.text()
    (heading, *lines) = text.splitlines()
    assert heading.startswith("sub-bags, by their instances")
    assert lines[0] == f"     definitions of instances: {definition.figures}"
    assert f"     u2: {definition.summary(1)}" in lines
    assert text.count("definitions") == 1


def test_rules_do_not_depend_on_names(fitted, model):
    """Definitions decide nothing."""
    plain = clone(fitted).set_params(feature_names=None)
    plain.fit(model, boxes(200), boxes(100, seed=1))
    assert plain.grid_ == fitted.grid_
    assert all(clusters.definition is None for clusters in plain.clusters_)
    without = [line for line in fitted.rules_.text().splitlines() if not line.startswith("     ")]
    assert plain.rules_.text().splitlines() == without
    x = boxes(50, seed=2)
    np.testing.assert_array_equal(plain.predict(x), fitted.predict(x))
    formal = [[each.formal() for each in one.explain(x)] for one in (plain, fitted)]
    assert formal[0] == formal[1]


def test_definitions_go_with_their_clusters(fitted):
    large = fitted.clusters_[0].definition.text(1)
    renamed = copy.copy(fitted).rename("u", {"u2": "large"})
    assert f"     large: {large}" in renamed.rules_.text()
    data = renamed.rules_.to_dict()["levels"][0]["members"][0]
    found = {each["cluster"]: each["text"] for each in data["definition"]["clusters"]}
    assert found["large"] == large
    assert renamed.rules_.to_dict()["levels"][1]["members"][0]["definition"] is None
    description = renamed.describe()
    assert f"large   {100 * description[0].sizes[1]:.1f} %: {large} (" in str(description)
    record = description.to_dict()["instance"][1]
    assert (record["cluster"], record["definition"]) == ("large", large)
    assert "definition" not in description.to_dict()["sub-bag"][0]
    table = renamed.cluster_table(boxes(20, seed=3), n=2)
    assert f"; {large} (precision" in str(table)
    assert f"{large.replace('≤', '&le;')} (precision" in table.to_html().replace("&gt;", ">")
    assert f"| {renamed.clusters_[0].definition.summary(0)} |" in table.to_markdown().replace(
        "<sub>", ""
    ).replace("</sub>", "")


def test_definitions_are_saved_and_pickled(fitted, model, tmp_path):
    fitted.save(tmp_path)
    loaded, copied = Explainer.load(tmp_path, model), pickle.loads(pickle.dumps(fitted))
    for other in (loaded, copied):
        assert other.rules_.to_dict() == fitted.rules_.to_dict()
        assert other.rules_.text(all=True) == fitted.rules_.text(all=True)
        table = other.clusters_[0].definition.table
        np.testing.assert_array_equal(table, fitted.clusters_[0].definition.table)
        assert other.feature_names == NAMES
    names = np.array(NAMES, object)  # as data frames have them
    assert clone(Explainer(feature_names=names)).feature_names.tolist() == list(NAMES)


def test_a_stream_is_sampled(model):
    """At most `max_rows` rows define clusters."""
    x = batches.to_dataset(boxes(200), batch_size=40, shuffle=False)
    explainer = Explainer(n_clusters=2, verbose=0, feature_names=NAMES, max_rows=150)
    definition = explainer.fit(model, x, boxes(100, seed=1)).clusters_[0].definition
    assert definition.table.sum() == 150
    assert definition.text(0).startswith("width ≤ 0.")
    assert definition.accuracy > 0.97


@pytest.mark.parametrize("metric", ["euclidean", "sensitivity"])
def test_bags_in_one_level_and_of_equal_sizes(metric):
    """Dense data, and whatever the metric: a row is the cluster of its nearest centroid."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4, 2)).astype(np.float32)
    inputs = keras.Input((4, 2))
    hidden = keras.layers.Dense(3, "tanh")(inputs)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1)(BagLayer(3)(hidden)))
    target = (0, float(np.median(model(x))))
    explainer = quick_explainer(feature_names=["x", "y"], metric=metric, target=target)
    explainer.fit(model, x, x)
    definition, labels = explainer.clusters_[0].definition, explainer.labels(x)[0]
    assert definition.table.sum(axis=0) == pytest.approx(np.bincount(labels.flat_values))
    matrix, truth = x.reshape(-1, 2), labels.flat_values.numpy()
    said = np.stack([holds(definition, i, matrix) for i in range(len(definition.cases))])
    assert definition.accuracy == pytest.approx(accuracy_score(truth, said.argmax(axis=0)))


@pytest.mark.slow
def test_records_that_are_labelled_by_centroids_are_defined_by_their_fields(
    churn_explainer, customers
):
    fit = fit_and_name(churn_model(), customers, instances="centroids")
    definitions = {each.path: each.definition for each in fit.clusters_}
    assert definitions["orders"] is definitions["orders.items"] is None  # which rules label
    visits = fit.clusters_[3]
    phone = visits.names.index("by phone")
    assert visits.definition.text(phone) == "channel = 'phone'"
    assert visits.definition.text(1 - phone) == "channel ≠ 'phone'"
    assert visits.definition.accuracy == 1
    assert (
        "     by phone: channel = 'phone' (precision 100.0 %, recall 100.0 %)" in fit.rules_.text()
    )
    n = sum(len(customer["visits"]) for customer in random_customers(100, seed=1))
    assert visits.definition.table.sum() == n
    assert all(each.definition is None for each in churn_explainer.clusters_)


def test_rows_with_fields_and_other_inputs_are_defined_by_their_fields():
    """The price decides, whatever the two numbers beside it."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 4, 80)
    prices, beside = rng.uniform(0, 10, sizes.sum()), rng.normal(size=(sizes.sum(), 2))
    x = {
        "price": ragged.from_flat(prices.astype(np.float32), [sizes]),
        "beside": ragged.from_flat(beside.astype(np.float32), [sizes]),
    }
    inputs = {
        "price": keras.Input((None,), ragged=True, name="price"),
        "beside": keras.Input((None, 2), ragged=True, name="beside"),
    }
    encoded = NumberEncoder(edges=[4.9, 5.1], field="price")(inputs["price"])
    layer = BagLayer(1)
    bags = layer(Concatenated()([encoded, inputs["beside"]]))
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, "sigmoid")(bags))
    kernel = np.zeros((encoded.shape[-1] + 2, 1))
    kernel[1] = 1  # whether the price is above 5
    layer.set_weights([kernel, np.zeros(1), np.zeros(1)])
    model.layers[-1].set_weights([np.ones((1, 1)), np.array([-0.5])])
    explainer = quick_explainer(n_clusters=2).fit(model, x, x)
    (clusters,) = explainer.clusters_
    texts = {clusters.definition.text(i) for i in range(2)}
    assert texts == {"price > 5", "price ≤ 5"}
    assert clusters.definition.table.sum() == sizes.sum()
    with pytest.raises(ValueError, match="fields of records have names of their own"):
        quick_explainer(feature_names=["a", "b"]).check(model, x, x)


@pytest.mark.parametrize("names", [[], "width", ["a", "a"], ["a", ""], [1, 2], 3])
def test_names_that_are_none(names):
    with pytest.raises(ValueError, match=r"a name of its own for each feature.*feature_names="):
        quick_explainer(feature_names=names).fit(make_model(), make_data())


def test_names_of_what_has_none(model):
    with pytest.raises(ValueError, match=r"one input of 2 numbers.*'bag_layer.*3\), 'float32'"):
        quick_explainer(feature_names=["width", "height"]).fit(model, boxes())
    with pytest.raises(ValueError, match=r"names of their own. Received: \[\]"):
        quick_explainer(feature_names=["plan"]).check(churn_model(), read(random_customers(5)))

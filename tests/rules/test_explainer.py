"""The explainer as a whole, mostly on networks that compute known rules."""

import keras
import numpy as np
import pytest
from digit_networks import (
    N_DIGITS,
    compressed_model,
    explainer,
    plain_model,
    random_ids,
    set_rule_weights,
    truth,
    vectors,
)
from random_networks import make_data, make_model, quick_explainer
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, Distinct, bag_inputs
from keras_mmil.rules import Explainer


def test_rules_are_those_of_the_network(digit_model, digit_ids, digit_explainer):
    x = vectors(random_ids(80, seed=2))
    assert digit_explainer.fidelity_ == 1.0
    assert digit_explainer.fidelity(x) == 1.0
    assert digit_explainer.score(x, truth(random_ids(80, seed=2))) == 1.0
    assert digit_explainer.n_clusters_ == (3, 2)
    described = digit_explainer.describe(vectors(digit_ids), instance_labels=digit_ids)[0]
    u = dict(zip(described.majority, described.names, strict=True))
    assert u.keys() >= {2, 3}
    np.testing.assert_allclose(described.share[[list(u).index(2), list(u).index(3)]], 1)
    clauses = [
        digit_explainer.levels_[0].rules.clause(rule) for rule in digit_explainer.levels_[0].rules
    ]
    v = digit_explainer.levels_[1].rules
    positive = next(c.column for r in v for c in r.conditions if r.conclusion == 1)
    on, off = f"v{positive + 1}", f"v{2 - positive}"
    present, absent = f"o_{u[3]}=1", f"o_{u[2]}=0"
    body = ", ".join(sorted([present, absent], key=lambda text: text[2:4]))
    assert set(clauses) == {f"{on} ← {body}.", f"{off} ← o_{u[3]}=0.", f"{off} ← o_{u[2]}=1."}
    assert [v.clause(rule) for rule in v] == [f"negative ← o_{on}=0.", f"positive ← o_{on}=1."]


@pytest.mark.parametrize("aggregation", ["max", "mean"])
def test_compressed_bags_give_the_rules_of_plain_ones(aggregation):
    model = compressed_model(aggregation)
    ids, ids_valid = random_ids(100), random_ids(50, seed=1)
    pack = keras_mmil.Bags.from_ragged
    plain = explainer(n_clusters=(4, 2), n_init=10).fit(model, ids, ids_valid)
    packed = explainer(n_clusters=(4, 2), n_init=10).fit(model, pack(ids), pack(ids_valid))
    assert packed.fidelity_ == plain.fidelity_
    for a, b in zip(packed.clusters_, plain.clusters_, strict=True):
        np.testing.assert_allclose(a.centroids, b.centroids, atol=1e-5)
        np.testing.assert_allclose(a.sizes, b.sizes, atol=1e-6)
    for a, b in zip(packed.levels_, plain.levels_, strict=True):
        assert [(r.conclusion, r.conditions) for r in a.rules] == [
            (r.conclusion, r.conditions) for r in b.rules
        ]
        for r, s in zip(a.rules, b.rules, strict=True):
            assert (r.support, r.precision) == pytest.approx((s.support, s.precision))


def test_instances_of_several_rows_give_the_rules_of_concatenations():
    """Of each pair of ids in an instance, the first decides."""
    ids, ids_valid = random_ids(100), random_ids(50, seed=1)

    def pairs(x):
        others = np.roll(x.flat_values, 1)
        return x.with_flat_values(np.stack([x.flat_values, others], axis=1).astype("int32"))

    def concatenated(x):
        return x.with_flat_values(np.eye(N_DIGITS, dtype="f")[pairs(x).flat_values].reshape(-1, 8))

    inputs, bags = bag_inputs(2, window_size=2), keras.Input((None, None, 8), ragged=True)
    rows, sub_bags, top_bags = Distinct()(inputs)
    one_hot = keras.layers.CategoryEncoding(N_DIGITS, output_mode="one_hot")(rows)
    models = []
    for inputs_, arguments, first_inputs, second_inputs in (
        (inputs, {"window_size": 2}, (one_hot, *sub_bags), top_bags),
        (bags, {}, (bags,), ()),
    ):
        first, second = BagLayer(N_DIGITS, **arguments), BagLayer(N_DIGITS)
        output = keras.layers.Dense(1, activation="sigmoid")
        x = second(first(*first_inputs), *second_inputs)
        models.append(keras_mmil.Model(inputs_, output(x)))
        set_rule_weights(first, second, output)
        first.kernel.assign(np.eye(8)[:, :N_DIGITS] + 0.1 * np.eye(8)[:, N_DIGITS:])
    ours, theirs = (
        explainer(n_clusters=(4, 2), n_init=10).fit(model, form(ids), form(ids_valid))
        for model, form in zip(models, (pairs, concatenated), strict=True)
    )
    assert ours.fidelity_ == theirs.fidelity_
    assert ours.rules_.text() == theirs.rules_.text()
    for a, b in zip(ours.labels(pairs(ids)), theirs.labels(concatenated(ids)), strict=True):
        np.testing.assert_array_equal(a.flat_values, b.flat_values)


def test_empty_bags_have_labels_but_no_clusters_of_their_own(digit_model):
    ids = random_ids(120, smallest=0)
    x = vectors(ids)
    layer = next(layer for layer in digit_model.layers if isinstance(layer, BagLayer))
    kernel, bias, _ = layer.get_weights()
    far = plain_model()
    next(each for each in far.layers if isinstance(each, BagLayer)).set_weights(
        [kernel, bias, np.full(N_DIGITS, 0.1)]
    )
    fit = explainer(n_clusters=(4, 2)).fit(far, x)
    assert fit.fidelity(x) == 1.0
    np.testing.assert_allclose(sum(clusters.sizes.sum() for clusters in fit.clusters_), 2)
    assert fit.clusters_[1].centroids.min() >= 0
    empty = ragged.from_flat(np.zeros((0, N_DIGITS), np.float32), [[2, 0], [0, 0]])
    assert fit.predict(empty).tolist() == [0, 0]
    (explanation,) = fit.explain(empty)[:1]
    assert "sub-bags 0, 1 do not match: each is empty: it holds no " in str(explanation)
    assert "because the bag is empty:" in explanation.formal()


@pytest.mark.slow
def test_three_levels_are_read_as_three_levels_of_rules():
    inputs = keras.Input((None, None, None, N_DIGITS), ragged=True)
    layers = [BagLayer(N_DIGITS) for _ in range(3)]
    output = keras.layers.Dense(1, activation="sigmoid")
    x = inputs
    for layer in layers:
        x = layer(x)
    model = keras_mmil.Model(inputs, output(x))
    set_rule_weights(layers[0], layers[1], output)
    layers[2].set_weights([np.eye(N_DIGITS), np.zeros(N_DIGITS), np.zeros(N_DIGITS)])
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 3, 150)]
    for _ in range(2):
        sizes.append(rng.integers(1, 4, sizes[-1].sum()))
    ids = ragged.from_flat(rng.integers(0, N_DIGITS, sizes[-1].sum()), sizes)
    fit = explainer(max_clusters=3).fit(model, vectors(ids))
    y = [any(3 in s and 2 not in s for sub in top for s in sub) for top in ids.to_list()]
    assert fit.fidelity_ == 1.0
    assert fit.score(vectors(ids), np.array(y, float)[:, None]) == 1.0
    assert len(fit.levels_) == 3
    assert len(fit.grid_) == 8
    text = fit.rules_.text(all=True)
    assert all(word in text for word in ("sub-bags, by their instances", "level-2 bags", "w1"))
    explanation = fit.explain(vectors(ids)[:1])[0]
    assert explanation.top_bag.children[0].children[0].children[0].level == 0
    instances, sub_bags, bags = fit.labels(vectors(ids))
    assert instances.shape.rank == 4
    np.testing.assert_array_equal(instances.values.row_splits, ids.values.row_splits)
    assert sub_bags.shape.rank == 3
    assert bags.shape.rank == 2


def test_one_level_of_dense_bags_of_three_classes():
    inputs = keras.Input((5, 3))
    layer, output = BagLayer(3), keras.layers.Dense(3, activation="softmax")
    model = keras.Model(inputs, output(layer(inputs)))
    layer.set_weights([np.eye(3), np.zeros(3), np.zeros(3)])
    output.set_weights([5 * np.diag([1.0, 2.0, 4.0]), np.zeros(3)])
    classes = np.random.default_rng(0).integers(0, 3, (90, 5)) * (np.arange(90) % 2)[:, None]
    x = np.eye(3, dtype=np.float32)[classes]
    y = classes.max(axis=1)
    fit = explainer(max_clusters=3, class_names=("low", "middle", "high")).fit(model, x)
    assert fit.fidelity(x) == fit.score(x, y) == fit.score(x, np.eye(3)[y]) == 1.0
    assert {rule.conclusion for rule in fit.rules_} == {0, 1, 2}
    assert "high ← o_" in fit.rules_.text()
    assert explainer(n_clusters=3).fit(model, x).classes_ == ("class_0", "class_1", "class_2")


def test_sequential_model(digit_ids):
    reference = plain_model()
    model = keras.Sequential([keras.Input((None, None, N_DIGITS), ragged=True)])
    for layer in reference.layers[1:]:
        model.add(type(layer).from_config(layer.get_config()))
    model.set_weights(reference.get_weights())
    assert explainer().fit(model, vectors(digit_ids)).fidelity_ == 1.0


def test_held_out_fraction_is_of_the_seed(digit_model, digit_ids):
    fits = [
        explainer(random_state=s, n_clusters=(3, 2)).fit(digit_model, vectors(digit_ids))
        for s in (1, 1)
    ]
    assert fits[0].fidelity_ == fits[1].fidelity_
    with pytest.raises(ValueError, match=r"1 top-bags, validation_fraction=0\.2"):
        explainer().fit(digit_model, vectors(digit_ids)[:1])


def test_random_state_none_works(digit_model, digit_ids):
    assert (
        explainer(random_state=None, n_clusters=(3, 2))
        .fit(digit_model, vectors(digit_ids))
        .fidelity_
        > 0.5
    )


def test_names_appear_everywhere(digit_model, digit_ids, tmp_path):
    x = vectors(digit_ids)
    fit = explainer(n_clusters=(3, 2)).fit(digit_model, x)
    needed = [
        name for name, n in zip(fit.clusters_[0].names, *fit.levels_[0].needed, strict=True) if n
    ]
    fit.rename("u", {needed[0]: "first", fit.clusters_[0].names.index(needed[1]): "second"})
    yes = next(c.column for r in fit.levels_[1].rules for c in r.conditions)
    fit.rename(1, {yes: "yes"})
    for text in (fit.rules_, fit.describe(x), "\n".join(map(str, fit.explain(x)))):
        assert all(name in str(text) for name in ("first", "second", "yes"))
    assert "yes ← " in fit.rules_.text()
    assert "positive ← o_yes=1." in fit.rules_.text()
    assert "o_first=" in fit.rules_.to_json()
    fit.save(tmp_path / "rules")
    assert Explainer.load(tmp_path / "rules", digit_model).rules_.text() == fit.rules_.text()
    for names in ({"first": "second"}, {0: ""}, {0: 5}):
        with pytest.raises(ValueError, match="a name of its own"):
            fit.rename(0, names)
    with pytest.raises(ValueError, match="cluster='u9'"):
        fit.rename(0, {"u9": "nine"})


def test_estimator_conventions():
    made = explainer(n_clusters=(3, 2), tolerance=0.1)
    assert clone(made).get_params() == made.get_params()
    assert made.set_params(tolerance=0.2).tolerance == 0.2
    for call in (
        lambda: made.predict(None),
        lambda: made.score(None, None),
        lambda: made.fidelity(None),
        lambda: made.evaluate(None),
        lambda: made.explain(None),
        lambda: made.labels(None),
        lambda: made.describe(),
        lambda: made.representatives(None, 0, 0),
        lambda: made.rename(0, {}),
        lambda: made.to_dataframe(),
        lambda: made.rules_,
        lambda: made.save("nowhere"),
    ):
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.slow
def test_model_is_left_as_it_was(digit_ids):
    model = plain_model()
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(vectors(digit_ids), truth(digit_ids), verbose=0)
    before = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    trainable = [layer.trainable for layer in model.layers]
    explainer(n_clusters=(3, 2)).fit(model, vectors(digit_ids))
    after = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert [layer.trainable for layer in model.layers] == trainable
    assert [len(layer._inbound_nodes) for layer in model.layers] == [1] * len(model.layers)
    model.fit(vectors(digit_ids), truth(digit_ids), verbose=0)


@pytest.mark.slow
def test_fidelity_and_accuracy_beside_the_most_frequent_class(digit_model, digit_ids):
    """Counted by hand; on data where rules, network and truth differ."""
    valid, x, labels = (random_ids(n, seed) for n, seed in ((60, 1), (90, 2), (90, 3)))
    fit = explainer(n_clusters=(2, 2)).fit(digit_model, vectors(digit_ids), vectors(valid))

    def by_network(data):
        return (digit_model.predict(vectors(data), verbose=0)[:, 0] > 0.5).astype(int).tolist()

    def share_of_most_frequent(classes):
        return max(map(classes.count, classes)) / len(classes)

    assert fit.majority_ == share_of_most_frequent(by_network(valid))
    by_rules, y = fit.predict(vectors(x)).tolist(), truth(labels)
    found = fit.evaluate(vectors(x), y)
    assert found == {
        "fidelity": np.mean([a == b for a, b in zip(by_rules, by_network(x), strict=True)]),
        "fidelity_majority": share_of_most_frequent(by_network(x)),
        "accuracy": accuracy_score(y, by_rules),
        "accuracy_majority": share_of_most_frequent(y.tolist()),
    }
    assert len({round(figure, 6) for figure in found.values()}) > 2
    assert found["fidelity"] == fit.fidelity(vectors(x))
    assert found["accuracy"] == fit.score(vectors(x), y)
    without_labels = {name: found[name] for name in ("fidelity", "fidelity_majority")}
    assert fit.evaluate(vectors(x)) == without_labels
    with pytest.raises(ValueError, match=r"Expected labels.*Received: y=None"):
        fit.score(vectors(x), None)


def test_labels_are_nested_like_the_data(digit_ids, digit_explainer):
    instances, sub_bags = digit_explainer.labels(vectors(digit_ids))
    np.testing.assert_array_equal(instances.row_splits, digit_ids.row_splits)
    np.testing.assert_array_equal(instances.values.row_splits, digit_ids.values.row_splits)
    np.testing.assert_array_equal(sub_bags.row_splits, digit_ids.row_splits)
    assert len({(d, c) for d, c in zip(digit_ids.flat_values.numpy(), instances.flat_values.numpy(),
                                       strict=True)}) == N_DIGITS  # fmt: skip


def test_labels_of_the_wrong_length():
    x = make_data()
    model = make_model()
    fit = quick_explainer(target=(0, float(np.median(model(x))))).fit(model, x)
    with pytest.raises(ValueError, match=r"each of 30 top-bags\. Received: y with 3 labels"):
        fit.score(x, [0, 1, 0])


def test_weights_that_changed():
    x = make_data()
    model = make_model()
    fit = quick_explainer(target=(0, float(np.median(model(x))))).fit(model, x)
    model.set_weights([w + 1 for w in model.get_weights()])
    with pytest.raises(ValueError, match=r"fit again\. Received: model=.* with other weights"):
        fit.predict(x)

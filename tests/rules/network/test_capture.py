"""What a network shows, and networks that cannot be read."""

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from digit_networks import N_DIGITS, compressed_model
from random_networks import Concatenated, make_data, quick_explainer
from record_networks import (
    FIELDS,
    Columns,
    as_raw,
    churn_model,
    flattened,
    is_bad,
    is_hot,
    random_customers,
    values_at,
)
from record_networks import read as read_records

import keras_mmil
from keras_mmil import Explainer, ragged
from keras_mmil.layers import (
    BagLayer,
    Distinct,
    DistinctBags,
    DistinctRows,
    EquivariantBagLayer,
    Gather,
    InstanceWise,
    NumberEncoder,
    bag_inputs,
)
from keras_mmil.model.tree import bag_tree
from keras_mmil.rules import RuleExtractor
from keras_mmil.rules.network.capture import Network, Observation, bag_paths
from keras_mmil.rules.network.nesting import above, concatenate, expand, multiplicities
from keras_mmil.rules.network.sources import top_bags

Dense = keras.layers.Dense


def join(observations):
    """The observations of several batches as one."""
    nestings, representations, outputs = zip(
        *((o.nestings, o.representations, o.outputs) for o in observations), strict=True
    )
    return Observation(
        tuple(map(concatenate, zip(*nestings, strict=True))),
        tuple(map(np.concatenate, zip(*representations, strict=True))),
        np.concatenate(outputs),
        values=observations[0].values,  # there are no fields
    )


def test_captured_multiplicities_are_the_occurrences(digit_ids):
    network = Network(compressed_model())
    packed = top_bags(keras_mmil.Bags.from_ragged(digit_ids), network, batch_size=50)
    seen = join(list(network.batches(packed.batches())))
    rows, sub_bags, tops = multiplicities(seen.nestings)
    assert len(rows) < digit_ids.flat_values.shape[0]
    assert rows.sum() == digit_ids.flat_values.shape[0]
    assert sub_bags.sum() == digit_ids.values.nrows()
    assert len(tops) == len(seen.outputs) == 120
    digits = seen.representations[0].argmax(axis=1)
    np.testing.assert_array_equal(
        np.bincount(digits, rows), np.bincount(digit_ids.flat_values, minlength=N_DIGITS)
    )


def refused(model, match, error=ValueError):
    with pytest.raises(error, match=match):
        quick_explainer().fit(model, make_data())


def test_not_a_model():
    refused("mnist", "Received: model of type str", TypeError)


def test_not_functional():
    class Subclassed(keras.Model):
        def call(self, x):
            return x

    refused(Subclassed(name="sub"), "functional model.*Received: model='sub' of type Subclassed")
    refused(keras.Sequential([Dense(1)], name="unbuilt"), "Received: model='unbuilt'")


def test_no_bag_layers():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, Dense(1)(inputs), name="flat")
    refused(model, "with bag-layers. Received: model='flat'")


def test_bag_layer_used_twice():
    layer = BagLayer(2, name="shared")
    inputs = keras.Input((None, None, 2), ragged=True)
    refused(keras.Model(inputs, Dense(1)(layer(layer(inputs)))), "Received: layer='shared'")


def test_bag_layer_of_another_model_is_used_once_in_this_one():
    layer = BagLayer(2)
    first, second = (keras.Input((None, 2), ragged=True) for _ in range(2))
    keras.Model(first, Dense(1)(layer(first)))
    model = keras.Model(second, Dense(1)(layer(second)))
    x = make_data()
    target = (0, float(np.median(model(x))))
    assert quick_explainer(target=target).fit(model, x).fidelity_ >= 0


def test_parallel_bag_layers_are_read():
    """Two on the same bags: each has its own clusters, and the rules are about both."""
    inputs = keras.Input((None, 2), ragged=True)
    parts = [BagLayer(2, name="a")(inputs), BagLayer(3, aggregation="sum", name="b")(inputs)]
    model = keras.Model(inputs, Dense(1)(keras.layers.Concatenate()(parts)))
    x, x_test = make_data(80), make_data(60, seed=1)
    target = (0, float(np.median(model(x))))
    fit = quick_explainer(n_clusters=3, target=target).fit(model, x, x)
    (level,) = fit.levels_
    assert [bag.level for bag in level.clusters] == [0, 1]
    assert [bag.feature.value for bag in level.clusters] == ["occurrence", "count"]
    assert [column.name for column in level.rules.columns] == ["u1", "u2", "u3", "v1", "v2", "v3"]
    layers = [model.get_layer(name) for name in "ab"]
    predicted, labels = [], [[], []]
    for bag in x_test.to_list():
        known = []
        for i, (layer, clusters) in enumerate(zip(layers, level.clusters, strict=True)):
            kernel, bias, _ = layer.get_weights()
            rows = np.maximum(np.array(bag) @ kernel + bias, 0)
            distances = np.square(rows[:, None] - clusters.centroids).sum(axis=2)
            nearest = distances.argmin(axis=1)
            labels[i].append(nearest.tolist())
            counts = [int((nearest == cluster).sum()) for cluster in range(3)]
            known += [min(count, 1) for count in counts] if i == 0 else counts
        fired = {
            rule.conclusion
            for rule in level.rules
            if all(c.low < known[c.column] <= c.high for c in rule.conditions)
        }
        (conclusion,) = fired
        predicted.append(conclusion)
    assert fit.predict(x_test).tolist() == predicted
    assert [each.to_list() for each in fit.labels(x_test)] == labels
    by_network = (model(x_test).numpy()[:, 0] > target[1]).astype(int)
    assert fit.fidelity(x_test) == np.mean(by_network == predicted)
    assert fit.fidelity_ > fit.majority_


def test_bag_layers_with_two_readers():
    """In a tree, each bag is in one record."""
    bags = keras.Input((None, None, 2), ragged=True)
    lower = BagLayer(3, name="lower")(bags)
    x = keras.layers.Add()([BagLayer(3, name=name)(lower) for name in ("left", "right")])
    match = "each bag-layer to be read by one.*'lower', read by bag-layer '(left|right)' and anot"
    unreadable(bags, Dense(1)(x), match)


def test_hidden_bag_layers():
    inputs = keras.Input((None, 2), ragged=True)
    inner = keras.Model(inputs, BagLayer(2, name="deep")(inputs), name="inner")
    outer = keras.Input((None, 2), ragged=True)
    refused(keras.Model(outer, Dense(1)(inner(outer))), "layer='deep' in 'inner'")


def test_bags_that_are_not_the_rows_above():
    inputs = keras.Input((None, 2), ragged=True)
    lower = BagLayer(2, name="lower")(inputs)
    pairs = keras.layers.Reshape((1, 2))(lower)
    doubled = keras.layers.Concatenate(axis=1)([pairs, pairs])
    model = keras.Model(inputs, Dense(1, activation="sigmoid")(BagLayer(2)(doubled)))
    refused(model, "layer='lower' with 24 bags, 48 above")


def unreadable(inputs, outputs, match):
    """Nothing reads such a model, not even without any data."""
    model = keras.Model(inputs, outputs)
    with pytest.raises(ValueError, match=match):
        quick_explainer().fit(model, None)
    with pytest.raises(ValueError, match=match):
        Explainer.load("nowhere", model)
    extractor = RuleExtractor(make_data())
    extractor.set_model(model)
    with pytest.raises(ValueError, match=match):
        extractor.on_train_begin()


def test_fields_of_top_bags():
    bags, extra = keras.Input((None, 2), ragged=True), keras.Input((3,), name="fields")
    x = keras.layers.Concatenate(name="join")([BagLayer(3, name="members")(bags), extra])
    unreadable([bags, extra], Dense(1)(x), "bag-layer 'members' alone.*'join' reads input 'fields'")
    x = keras.layers.Concatenate(name="join")([BagLayer(3)(bags), Dense(2, name="side")(extra)])
    match = r"Received: layer 'join' reads 'side', computed from \['fields'\]$"
    unreadable([bags, extra], Dense(1)(Dense(4)(x)), match)


def test_fields_of_sub_bags():
    bags = keras.Input((None, None, 2), ragged=True)
    fields = keras.Input((None, 3), ragged=True, name="fields")
    x = Concatenated(name="join")([BagLayer(3, name="lower")(bags), fields])
    x = BagLayer(3, name="upper")(x)
    match = "bag-layer 'upper' to be computed from bag-layer 'lower' alone.*input 'fields'"
    unreadable([bags, fields], Dense(1)(x), match)


def test_side_branches_of_compressed_bags():
    inputs = {**bag_inputs(2), "prices": keras.Input((), name="prices")}
    rows, sub_bags, top_bags = Distinct()({name: inputs[name] for name in bag_inputs(2)})
    x = BagLayer(3, vocabulary_size=5)(rows, *sub_bags)
    x = BagLayer(3, name="upper")(x, *top_bags)
    x = keras.layers.Multiply(name="scaled")([x, keras.layers.Reshape((1,))(inputs["prices"])])
    unreadable(inputs, Dense(1)(x), r"'scaled' reads 'reshape.*', computed from \['prices'\]")


def test_bag_layers_that_are_skipped():
    """What goes around a bag-layer is not in the labels of the bags."""
    bags = keras.Input((None, 4, 2), ragged=True, name="bags")
    lower = BagLayer(3, name="lower")(bags)
    means = keras.layers.Lambda(
        lambda x: tf.reduce_mean(tf.reduce_mean(x, axis=2), axis=1), output_shape=(2,), name="means"
    )(bags)
    x = keras.layers.Concatenate(name="join")([BagLayer(3)(lower), means])
    unreadable(bags, Dense(1)(x), r"'join' reads 'means', computed from \['bags'\]")
    sums = keras.layers.Lambda(
        lambda x: tf.reduce_sum(x, axis=1), output_shape=(3,), name="of_sub_bags"
    )(lower)
    x = keras.layers.Add(name="join")([BagLayer(3, name="upper")(lower), sums])
    match = r"each bag-layer to be read by one.*'lower', read by the model's output and another"
    unreadable(bags, Dense(1)(x), match)


def test_outputs_that_are_of_another_input():
    bags, other = keras.Input((None, 2), ragged=True), keras.Input((3,), name="other")
    outputs = [Dense(1)(BagLayer(3)(bags)), Dense(2, name="aside")(other)]
    unreadable([bags, other], outputs, r"the model's output reads 'aside', computed from \['other'")


def test_bag_layers_that_only_weigh():
    """The lower bag-layer says how much the rows above count, which are of another input."""
    bags = keras.Input((None, None, 2), ragged=True)
    fields = keras.Input((None, 3), ragged=True, name="fields")
    weigh = keras.layers.Lambda(lambda x: x[..., 0], output_shape=(None,))
    weights = weigh(BagLayer(1, name="lower")(bags))
    x = BagLayer(3, name="upper")(fields, weights=weights)
    unreadable(
        [bags, fields], Dense(1)(x), r"Received: \['lower'\], which only say .* how much it counts"
    )


@pytest.mark.slow
def test_bags_that_are_mixed():
    """Rules cannot say that a sub-bag is what it is because of those beside it."""
    data = make_data(depth=2)
    for mix in (
        EquivariantBagLayer(3, name="mixed"),
        keras.layers.Lambda(
            lambda x: x - tf.reduce_mean(x, axis=1, keepdims=True),
            output_shape=(None, 3),
            name="mixed",
        ),
    ):
        inputs = keras.Input((None, None, 2), ragged=True)
        x = BagLayer(3, name="upper")(mix(BagLayer(3, "tanh", name="lower")(inputs)))
        model = keras.Model(inputs, Dense(1, activation="sigmoid")(x))
        match = r"Received: \['mixed'\] above bag-layer 'lower', by which bags change with others"
        with pytest.raises(ValueError, match=match):
            quick_explainer().fit(model, data)
        with pytest.raises(ValueError, match=match):
            quick_explainer().check(model, data)


def test_what_stands_between_bag_layers():
    """Layers that take one row at a time, on any path that comes from the bag-layer below."""
    inputs, extra = (
        keras.Input((None, None, 2), ragged=True),
        keras.Input((None, None, 1), ragged=True),
    )
    x = Concatenated()([inputs, extra])  # instances may be of several inputs
    lower = BagLayer(4, "tanh", aggregation="mean")(InstanceWise(Dense(4))(x))
    x = InstanceWise(keras.Sequential([Dense(4), keras.layers.BatchNormalization()]))(lower)
    x = InstanceWise(keras.layers.LayerNormalization())(Concatenated()([x, lower]))
    x = BagLayer(3, "tanh", aggregation="mean")(x)
    x = keras.layers.Concatenate()([Dense(2)(keras.layers.Dropout(0.5)(x)), x])
    model = keras.Model([inputs, extra], Dense(1)(x))
    data = make_data(depth=2)
    data = [data, data.with_flat_values(data.flat_values[:, :1])]
    target = (0, float(np.median(model(data))))
    assert quick_explainer(target=target).fit(model, data).predict(data).shape == (30,)


def test_weights_of_an_input_of_their_own_are_read():
    """How much a member counts is read as it is, whatever it comes from."""
    rng = np.random.default_rng(0)
    x = make_data(80)
    weights = x.with_flat_values(rng.uniform(0.1, 9, x.flat_values.shape[0]).astype(np.float32))
    inputs = keras.Input((None, 2), ragged=True), keras.Input((None,), ragged=True)
    sums = BagLayer(1, "sigmoid", "sum", name="sums")(inputs[0], weights=inputs[1])
    model = keras.Model(inputs, sums)
    model.get_layer("sums").set_weights([np.array([[100], [0]]), np.zeros(1), np.zeros(1)])
    # The sum of the weights of those whose first feature is positive, computed apart.
    positive = weights * tf.cast(x.with_flat_values(x.flat_values[:, 0]) > 0, tf.float32)
    expected = tf.reduce_sum(positive, axis=1).numpy()
    target = (0, float(np.median(expected)))
    fit = quick_explainer(target=target, n_clusters=2, ccp_alpha=0).fit(
        model, [x, weights], [x, weights]
    )
    assert fit.clusters_[0].feature.value == "weight"
    assert np.mean(fit.predict([x, weights]) == (expected > target[1])) > 0.95
    ones = weights * 0 + 1
    assert np.mean(fit.predict([x, ones]) == (expected > target[1])) < 0.8


# Records


def test_a_network_of_records_is_a_tree():
    network = Network(churn_model())
    assert [layer.name for layer in network.layers] == ["tags", "items", "orders", "visits"]
    assert network.parents == (1, 2, 4, 4)
    assert network.paths == ("orders.items.product.tags", "orders.items", "orders", "visits")
    assert [{read.path for read in each} for each in network.fields] == [
        {"orders.items.product.tags.name"},
        {"orders.items.returned", "orders.items.product.kind"},
        {"orders.days_late", "orders.note"},
        {"visits.channel"},
        {"plan", "since"},
    ]
    assert network.has_fields == (True,) * 5
    assert network.has_other == (False,) * 5
    assert not network.is_chain
    assert Network(compressed_model()).is_chain


@pytest.mark.slow
@pytest.mark.parametrize("compress", [True, False])
def test_records_are_captured_as_a_loop_reads_them(compress):
    """Of each customer, how often there is which record, by the values of its fields and by ρ."""
    customers = random_customers(50, seed=3)
    network = Network(churn_model(compress))
    batches = top_bags(read_records(customers), network, batch_size=16).batches()
    start, n_rows, rho_of = 0, 0, {"orders.items": is_hot, "orders": is_bad}
    for seen in network.batches(batches):
        expanded = expand(seen.nestings, network.parents)
        here = customers[start : start + 16]
        for i, path in enumerate(network.paths):
            names = [read.path for read in network.fields[i]]
            owner = np.arange(len(expanded[i].rows))  # of each occurrence, the top-bag
            for level in above(i, network.parents):
                owner = np.searchsorted(expanded[level].row_splits, owner, side="right") - 1
            found = [Counter() for _ in here]
            for row, top_bag, n in zip(
                expanded[i].rows, owner, expanded[i].total_weights, strict=True
            ):
                values = [plain(column[row]) for column in seen.values[i]]
                values += [seen.representations[i][row, 0]] if path in rho_of else []
                found[top_bag][tuple(values)] += n
            for customer, counts in zip(here, found, strict=True):
                expected = Counter()
                for part in flattened(values_at(customer, path.split("."))):
                    inner = [name.removeprefix(f"{path}.").split(".") for name in names]
                    kinds = [FIELDS[name] for name in names]
                    values = [
                        plain(as_raw(values_at(part, each), kind))
                        for each, kind in zip(inner, kinds, strict=True)
                    ]
                    values += [float(rho_of[path](part))] if path in rho_of else []
                    expected[tuple(values)] += 1
                assert counts == expected
        n_rows += sum(map(len, seen.representations))
        for read, column in zip(network.fields[-1], seen.values[-1], strict=True):
            raw = [as_raw(customer[read.path], FIELDS[read.path]) for customer in here]
            assert list(map(plain, column)) == list(map(plain, raw))
        start += 16
    n_records = sum(len(flattened(values_at(customers, p.split(".")))) for p in network.paths)
    assert n_rows < 0.7 * n_records if compress else n_rows == n_records


def plain(value):
    """A raw value that equals its like, also where that is NaN."""
    if isinstance(value, (bytes, str)):
        return value if isinstance(value, str) else value.decode()
    return "missing" if np.isnan(value) else float(value)


@pytest.mark.slow
def test_a_field_beside_what_is_no_field():
    """A record with bags holds nothing else but fields; an instance may, and has no rules then."""
    at = Columns(compress=True)
    price = at.field("price", 1, NumberEncoder())
    points = keras.Input((None,), ragged=True, name="points")
    *values, ids = DistinctRows()([price[0], points])
    x = keras.layers.Concatenate()([price[1](values[0]), keras.layers.Reshape((1,))(values[1])])
    members, weights, bags = DistinctBags(field="items")(ids)
    x = Gather()([BagLayer(3)(Dense(3)(x), members, weights), bags])
    model = keras.Model({**at.inputs, "points": points}, Dense(1)(x))
    assert Network(model).has_other == (True, False)
    data = {
        name: make_data(30).with_flat_values(make_data(30).flat_values[:, i])
        for i, name in enumerate(model.input)
    }
    target = (0, float(np.median(model(data))))
    fit = quick_explainer(target=target).fit(model, data)
    assert [level.word for level in fit.levels_] == ["record"]
    with pytest.raises(ValueError, match=r"instances='fields'.*which reads other inputs"):
        quick_explainer(target=target, instances="fields").fit(model, data)
    extra = keras.Input((2,), name="extra")
    joined = keras.layers.Concatenate(name="join")([x, extra])
    model = keras.Model({**model.input, "extra": extra}, Dense(1)(joined))
    with pytest.raises(ValueError, match="'join' reads input 'extra'"):
        Network(model)


def input_of(depth, name=None):
    return keras.Input((*[None] * depth, 2), ragged=True, name=name)


def pooled(x, depth):
    for _ in range(depth):
        x = BagLayer(3)(x)
    return x


def of_repairs():
    """Bags of ids of a field, and their input."""
    ids = keras.Input((None,), dtype="int32", ragged=True, name="repairs")
    rows, members = DistinctRows()([ids])
    members, weights, _ = DistinctBags(compress=False, field="repairs")(members)
    return ids, BagLayer(3)(keras.layers.Embedding(4, 3)(rows), members, weights)


def joined(inputs, branches):
    x = keras.layers.Concatenate()(branches)
    return keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


def test_bags_in_a_row_have_no_names():
    x = input_of(3, "patients")
    model = keras_mmil.Model(x, keras.layers.Dense(1)(pooled(x, 3)))
    assert bag_paths(bag_tree(model)) == ("", "", "")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("series", "visits"),
            ["series", "visits", "visits.sub-bags", "visits.sub-bags.instances"],
        ),
        # Keras's own names of inputs depend on how many it has made before.
        (
            (None, None),
            ["instances", "sub-bags", "sub-bags.sub-bags", "sub-bags.sub-bags.instances"],
        ),
    ],
)
def test_bags_side_by_side_are_called_as_their_inputs(names, expected):
    series, visits = input_of(1, names[0]), input_of(3, names[1])
    model = joined([series, visits], [pooled(series, 1), pooled(visits, 3)])
    assert sorted(bag_paths(bag_tree(model))) == expected


@pytest.mark.slow
def test_rules_about_bags_of_an_input_and_of_a_field():
    rng, n = np.random.default_rng(0), 80
    series, (ids, repaired) = input_of(1, "series"), of_repairs()
    model = joined({"series": series, "repairs": ids}, [pooled(series, 1), repaired])
    assert sorted(bag_paths(bag_tree(model))) == ["repairs", "series"]
    sizes = rng.integers(1, 5, n)
    x = {
        "series": ragged.from_flat(rng.normal(size=(sizes.sum(), 2)).astype("float32"), (sizes,)),
        "repairs": ragged.from_flat(rng.integers(0, 4, sizes.sum()).astype("int32"), (sizes,)),
    }
    explainer = Explainer(n_clusters=3, verbose=0).fit(model, x, x)
    words = [*explainer.rules_.in_words(), explainer.rules_.text()]
    assert not any("  is" in text or " s " in text or " s:" in text for text in words)
    assert "by their series: " in words[-1]
    (explanation,) = explainer.explain({name: bags[:1] for name, bags in x.items()})
    assert {part.path for part in explanation.top_bag.children} == {"series", "repairs"}
    deletion = explainer.deletion(x)
    assert all(row.index < n for row in deletion.rows)

"""Each distinct row and bag once, with the same results; and against loops."""

import math
from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from pairs import pairs

import keras_mmil
from keras_mmil import Bags, ragged
from keras_mmil.layers import (
    BagLayer,
    Distinct,
    DistinctBags,
    DistinctRows,
    Gather,
    aggregations,
    bag_inputs,
    distinct,
)
from keras_mmil.testing import run_layer_test

AGGREGATIONS = [*aggregations.NAMES, "max|mean"]


def plain_bags(depth, seed=0, vocabulary=4, top_bags=7):
    """Nested bags with many repeated ids and sub-bags, and empty ones at every level."""
    rng = np.random.default_rng(seed)
    lengths, count = [], top_bags
    for _ in range(depth):
        lengths.append(rng.integers(0, 4, count))
        count = lengths[-1].sum()
    return ragged.from_flat(rng.integers(0, vocabulary, count).astype("int32"), lengths)


def build(depth, aggregation="max", vocabulary=4):
    inputs = bag_inputs(depth)
    x, *levels = Distinct()(inputs)
    x = keras.layers.Embedding(vocabulary, 3)(x)
    x = keras.layers.Dense(4, activation="relu")(x)
    for members, weights in levels:
        x = BagLayer(4, aggregation=aggregation)(x, members, weights)
    return keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


def build_without_distinct(depth, aggregation, vocabulary=4):
    bags = keras.Input((None,) * depth, dtype="int32", ragged=True)
    x = keras_mmil.layers.InstanceWise(keras.layers.Embedding(vocabulary, 3))(bags)
    x = keras_mmil.layers.InstanceWise(keras.layers.Dense(4, activation="relu"))(x)
    for _ in range(depth):
        x = BagLayer(4, aggregation=aggregation)(x)
    return keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(x))


def outputs_and_gradients(model, x):
    with tf.GradientTape() as tape:
        outputs = model(x)
        loss = tf.reduce_sum(tf.sin(3.0 * outputs))
    gradients = tape.gradient(loss, [w.value for w in model.trainable_weights])
    return outputs, [tf.convert_to_tensor(g) for g in gradients]


def ids_in_bags(ids):
    """Ids in top-bags of usual bags."""
    return ragged.from_flat(np.asarray(ids, "int32"), [[2, 1, 3], [3, 1, 4, 2, 3, 5]])


# Bags of ids below 18, of which 4 to 7 have the features of 0 to 3.
CASES = {
    "duplicates": ids_in_bags([0, 1, 0, 2, 3, 3, 3, 1, 0, 2, 1, 1, 1, 0, 2, 3, 0, 2]),
    "ties": ids_in_bags([0, 4, 8, 2, 3, 7, 3, 1, 4, 0, 6, 2, 9, 5, 1, 4, 0, 5]),
    "empties": plain_bags(2),
    "one unique": ids_in_bags(np.full(18, 3)),
    "all unique": ids_in_bags(np.random.default_rng(0).permutation(18)),
}


def set_features(model):
    """A table of features in which ids share rows, so that distinct instances are equal."""
    table = np.random.default_rng(0).normal(size=(18, 3)).astype("float32")
    table[4:8] = table[:4]
    (embedding,) = (w for w in model.weights if "embeddings" in w.path)
    embedding.assign(table)


def assert_same_network(model, reference, inputs, x):
    reference.set_weights(model.get_weights())
    assert_close_to(outputs_and_gradients(reference, x), outputs_and_gradients(model, inputs))


def assert_close_to(expected, found):
    """Outputs equal within 1e-6, and gradients within 1e-5 of the largest."""
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-6)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=max(1e-5 * np.abs(b).max(), 1e-8))


@pytest.fixture(scope="module")
def networks(request, tmp_path_factory):
    """A network, the same from its file, and one without `Distinct` that has its weights."""
    model = build(2, request.param, vocabulary=18)
    set_features(model)
    path = tmp_path_factory.mktemp("distinct") / "model.keras"
    model.save(path)
    reference = build_without_distinct(2, request.param, vocabulary=18)
    reference.set_weights(model.get_weights())
    return model, keras.models.load_model(path), reference


@pytest.mark.slow
@pytest.mark.parametrize(
    ("networks", "case"), pairs(AGGREGATIONS, CASES, each=2), indirect=["networks"]
)
def test_each_distinct_row_once_is_the_same_network(networks, case):
    x, (model, loaded, reference) = CASES[case], networks
    expected = outputs_and_gradients(reference, x)
    forms = {merge: Bags.from_ragged(x, merge=merge) for merge in ("batch", "top_bag", None)}
    for inputs in (x, *forms.values(), forms["batch"].inputs):
        assert_close_to(expected, outputs_and_gradients(model, inputs))
    assert_close_to(expected, outputs_and_gradients(loaded, forms["batch"]))
    np.testing.assert_array_equal(loaded(forms["batch"]), model(forms["batch"]))


@pytest.mark.slow
@pytest.mark.parametrize(("aggregation", "case"), pairs(AGGREGATIONS, CASES))
def test_concatenations_once_are_the_same_network(aggregation, case):
    ids = CASES[case]
    shifted = [np.roll(ids.flat_values, -shift) for shift in range(3)]
    trigrams = ids.with_flat_values(np.stack(shifted, axis=1))
    inputs = bag_inputs(2, window_size=3)
    words, (members, _), top_bags = Distinct()(inputs)
    y = keras.layers.Embedding(18, 3)(words)
    y = BagLayer(4, aggregation=aggregation, window_size=3)(y, members)
    y = BagLayer(4, aggregation=aggregation)(y, *top_bags)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(y))
    set_features(model)
    bags = keras.Input((None, None, 3), dtype="int32", ragged=True)
    encoder = keras.Sequential([keras.layers.Embedding(18, 3), keras.layers.Reshape((9,))])
    z = keras_mmil.layers.InstanceWise(encoder)(bags)
    for _ in range(2):
        z = BagLayer(4, aggregation=aggregation)(z)
    reference = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(z))
    assert_same_network(model, reference, trigrams, trigrams)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_any_depth(depth):
    x = plain_bags(depth, seed=1)
    model, reference = build(depth, "mean"), build_without_distinct(depth, "mean")
    reference.set_weights(model.get_weights())
    expected = reference(x)
    np.testing.assert_allclose(model(x), expected, atol=1e-6)
    np.testing.assert_allclose(model(Bags.from_ragged(x)), expected, atol=1e-6)


def test_rows_and_sub_bags_are_distinct():
    x = ragged.from_nested_lists([[[5, 3, 5], [4], [4]], [[4], [3, 5, 5]]])
    rows, (sub_members, sub_weights), (top_members, top_weights) = Distinct()(
        Bags.from_ragged(x).inputs
    )
    assert sorted(rows.numpy()) == [3, 4, 5]
    assert sub_members.nrows() == 2
    multisets = [
        dict(zip(tf.gather(rows, m).numpy().tolist(), w.numpy().tolist(), strict=True))
        for m, w in zip(sub_members, sub_weights, strict=True)
    ]
    assert sorted(multisets, key=len) == [{4: 1.0}, {3: 1.0, 5: 2.0}]
    tops = [
        {len(multisets[i]): c for i, c in zip(m.numpy(), w.numpy().tolist(), strict=True)}
        for m, w in zip(top_members, top_weights, strict=True)
    ]
    assert tops == [{1: 2.0, 2: 1.0}, {1: 1.0, 2: 1.0}]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_is_a_keras_layer(depth):
    run_layer_test(Distinct, {}, {"inputs": Bags.from_ragged(plain_bags(depth)).inputs})


@pytest.mark.parametrize("depth", [1, 2])
def test_positions(depth):
    """Instances of three ids: each id is computed once, and not each instance."""
    single = plain_bags(depth)
    triples = np.random.default_rng(0).integers(0, 4, (len(single.flat_values), 3))
    x = single.with_flat_values(triples.astype("int32"))
    counts = {"counts": tf.ones_like(single, tf.float32)}
    if depth == 2:
        counts["sub_bag_counts"] = single.with_values(tf.ones(single.values.nrows()))
    run_layer_test(Distinct, {}, {"inputs": {"bags": x, **counts}}, fresh_process=False)
    rows, (members, weights), *_ = Distinct()({"bags": x})
    assert weights is None
    np.testing.assert_array_equal(tf.gather(rows, members.flat_values), triples)
    inputs = bag_inputs(depth, window_size=3)
    ids, *levels = Distinct()(inputs)
    y = keras.layers.Embedding(4, 3)(ids)
    bags = keras.Input((None,) * depth + (9,), ragged=True)
    z = bags
    for window_size, (members, weights) in zip((3, None), levels, strict=False):
        y = BagLayer(4, window_size=window_size)(y, members, weights)
        z = BagLayer(4)(z)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1)(y))
    reference = keras_mmil.Model(bags, keras.layers.Dense(1)(z))
    embedding, *others = model.get_weights()
    reference.set_weights(others)
    expected = reference(single.with_flat_values(embedding[triples].reshape(-1, 9)))
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)


def normalised(place, inside=None):
    """A model with a BatchNormalization at one of several places."""
    inputs = bag_inputs(2)
    ids, sub_bags, top_bags = Distinct()(inputs)

    def here(x, name):
        layer = keras.layers.BatchNormalization(name="normal")
        return (inside(layer) if inside else layer)(x) if name == place else x

    x = here(keras.layers.Embedding(4, 3)(ids), "instances")
    x = keras.layers.Dense(4, activation="relu")(x)
    x = here(BagLayer(4)(x, *sub_bags), "sub-bags")
    x = here(BagLayer(4)(x, members=top_bags[0], weights=top_bags[1]), "top-bags")
    return keras_mmil.Model(inputs, keras.layers.Dense(1)(x))


@pytest.mark.parametrize("inside", [None, lambda layer: keras.Sequential([layer])])
@pytest.mark.parametrize("place", ["instances", "sub-bags"])
def test_batch_normalisation_of_distinct_rows_is_refused(place, inside):
    with pytest.raises(ValueError, match="Received: layer='normal'"):
        normalised(place, inside)


def test_batch_normalisation_elsewhere_is_good(tmp_path):
    model = normalised("top-bags")
    x = plain_bags(2)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(x), model(x))
    bags = keras.Input((None, 3), ragged=True)
    encoder = keras_mmil.layers.InstanceWise(keras.layers.BatchNormalization())
    keras_mmil.Model(bags, BagLayer(4)(encoder(bags)))


@pytest.mark.slow
def test_fit_in_every_form():
    x, y = plain_bags(2, top_bags=20), np.arange(20) % 2
    bags = Bags.from_ragged(x)
    model = build(2)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    fit = {"verbose": 0, "batch_size": 8}
    model.fit(x, y, validation_split=0.25, sample_weight=np.ones(20), **fit)
    model.fit(bags, y, validation_data=(bags, y), **fit)
    model.fit(bags.inputs, y, validation_data=(x, y), **fit)
    model.fit({k: v for k, v in bags.inputs.items() if "counts" in k or k == "bags"}, y, **fit)
    model.fit(
        tf.data.Dataset.from_tensor_slices((bags.inputs, y)).shuffle(20).batch(8),
        shuffle=False,
        verbose=0,
    )
    np.testing.assert_allclose(
        model.predict(x, verbose=0), model.predict(bags, verbose=0, batch_size=3), atol=1e-6
    )
    losses = [model.evaluate(z, y, verbose=0)[0] for z in (x, bags)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.parametrize("merge", ["batch", "top_bag", None])
def test_batches_may_mix_several_bags(merge):
    """Two files that were compressed one by one: no sub-bag takes the place of another."""
    xs = [plain_bags(3, seed) for seed in (1, 2, 1)]
    model = build(3, "mean")
    parts = [Bags.from_ragged(x, merge=merge).inputs for x in xs]
    expected = np.concatenate([model(x) for x in xs])
    np.testing.assert_allclose(model(ragged.concat(parts)), expected, atol=1e-6)
    files = [tf.data.Dataset.from_tensor_slices(part) for part in parts]
    mixed = tf.data.Dataset.choose_from_datasets(files, tf.data.Dataset.range(3).repeat(7))
    (batch,) = mixed.batch(21)
    np.testing.assert_allclose(model(batch), expected.reshape(3, 7).T.reshape(21, 1), atol=1e-6)


def test_inputs_are_checked():
    with pytest.raises(ValueError, match="depth=0"):
        bag_inputs(0)
    with pytest.raises(ValueError, match="'sub_bags'"):
        build(1)({"sub_bags": plain_bags(1)})


NAN = math.nan
# Without subnormal numbers, which TensorFlow takes for 0.
VALUES = {
    "float32": [0.0, -0.0, 1.0, NAN, -NAN, 1.2e-38, math.inf, 2.5],
    "float64": [0.0, -0.0, NAN, 1.7e9, 1.7e9 + 1e-6],
    "int64": [0, 1, -1, 2**62, -(2**63)],
    "int32": [0, 1, 7],
    "string": ["", "\0", "a", "b", "a\0", "é", "long " * 20],
}


def key(value):
    return "nan" if value != value else value


def rows_by_loop(columns):
    """The distinct rows in the order in which they come, and the row at each place."""
    rows, ids = {}, []
    for row in zip(*columns, strict=True):
        ids.append(rows.setdefault(tuple(map(key, row)), len(rows)))
    return list(rows), ids


def assert_rows(columns, dtypes, layer=None):
    tensors = [tf.constant(x, dtype) for x, dtype in zip(columns, dtypes, strict=True)]
    *values, ids = (layer or DistinctRows())(tensors)
    expected, expected_ids = rows_by_loop([x.numpy().tolist() for x in tensors])
    assert ids.numpy().tolist() == expected_ids
    found = zip(*(x.numpy().tolist() for x in values), strict=True)
    assert [tuple(map(key, row)) for row in found] == expected


@st.composite
def draw_columns(draw):
    n = draw(st.integers(0, 12))
    dtypes = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    columns = [
        draw(st.lists(st.sampled_from(VALUES[dtype]), min_size=n, max_size=n)) for dtype in dtypes
    ]
    return columns, dtypes


@pytest.mark.slow
@given(draw_columns())
def test_rows_are_those_of_a_loop(drawn):
    assert_rows(*drawn)


def poor(x):
    return x % 2


@pytest.mark.parametrize("mix", [poor, tf.zeros_like])
def test_rows_of_equal_hashes_are_told_apart(mix, monkeypatch):
    monkeypatch.setattr(distinct, "mix", mix)
    columns = [tf.constant([1, 3, 1, 2]), tf.constant(["a", "a", "a", "a"])]
    *values, ids = DistinctRows()(columns)
    assert ids.numpy().tolist() == [0, 1, 2, 3]
    assert [x.numpy().tolist() for x in values] == [[1, 3, 1, 2], [b"a"] * 4]
    *values, ids = tf.function(DistinctRows())(columns)
    assert ids.numpy().tolist() == [0, 1, 2, 3]
    same = [tf.constant([5, 5, 5])]
    assert DistinctRows()(same)[1].numpy().tolist() == [0, 0, 0]  # these are equal


def test_hashes_of_many_rows_do_not_collide():
    """Rows of small numbers, as data have them, differ in few bits."""
    grid = np.stack(np.meshgrid(*[np.arange(20)] * 4, indexing="ij")).reshape(4, -1)
    for dtype in ("int32", "int64", "float32", "float64"):
        columns = [tf.constant(x.astype(dtype)) for x in grid]
        hashes = distinct.hash_rows([tf.stack(columns)]).numpy()
        assert len(np.unique(hashes)) == grid.shape[1]
        for shift in (0, 20, 48):  # no part of the bits is poor
            n = len(np.unique(hashes >> shift & 0xFFFF))
            assert n > 0.99 * 2**16 * (1 - np.exp(-(grid.shape[1] / 2**16)))
    assert len(np.unique(distinct.mix(tf.range(-(2**16), 2**16, dtype=tf.int64)))) == 2**17


@pytest.mark.parametrize("compress", [True, False])
def test_distinct_rows_is_a_layer(compress):
    a = tf.ragged.constant([[[1.0, NAN], [1.0]], [], [[NAN, 1.0, 2.0]]])
    b = a.with_flat_values(tf.constant([3, 4, 3, 4, 3, 3], tf.int64))
    *values, ids = run_layer_test(DistinctRows, {"compress": compress}, {"columns": (a, b)})
    if compress:
        assert ids.to_list() == [[[0, 1], [0]], [], [[1, 0, 2]]]
        np.testing.assert_array_equal(values, [[1.0, NAN, 2.0], [3, 4, 3]])
    else:
        assert ids.to_list() == [[[0, 1], [2]], [], [[3, 4, 5]]]
        np.testing.assert_array_equal(values[0], a.flat_values)


def test_bags_may_be_dense():
    *values, ids = DistinctRows()([tf.constant([[1, 2], [2, 1]])])
    assert ids.numpy().tolist() == [[0, 1], [1, 0]]
    assert values[0].numpy().tolist() == [1, 2]


def test_texts_in_a_model(tmp_path):
    texts = keras.Input((None,), dtype="string", ragged=True)
    value, ids = DistinctRows()([texts])
    lengths = keras.layers.Lambda(tf.strings.length, output_shape=(None,))(value)
    model = keras_mmil.Model(texts, [lengths, ids])
    found, ids = model(tf.ragged.constant([["ab", "c", "ab"], [], ["c"]]))
    assert found.numpy().tolist() == [2, 1]
    assert ids.to_list() == [[0, 1, 0], [], [1]]


def test_columns_are_nested_alike():
    a, b = tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[1], [2, 3]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="other sizes in column 1"):
        DistinctRows()([a, b])
    with pytest.raises(ValueError, match=r"nested alike.*\[\(2, None\), \(3,\)\]"):
        DistinctRows()([a, a.flat_values])
    with pytest.raises(ValueError, match="a list of columns"):
        DistinctRows()(a)
    with pytest.raises(ValueError, match="a list of columns"):
        DistinctRows()([])


def ragged_of(bags):
    return tf.RaggedTensor.from_row_lengths(
        tf.constant([i for bag in bags for i in bag], tf.int32), [*map(len, bags)]
    )


def bags_of(members, weights):
    """Multisets from what the layer returns."""
    found = []
    for ids, counts in zip(members.to_list(), weights.to_list(), strict=True):
        assert len(set(ids)) == len(ids) == len(counts)
        found.append(dict(zip(ids, counts, strict=True)))
    return found


def assert_distinct(bags, is_compressed=True):
    members, weights, places = DistinctBags()(ragged_of(bags))
    found = bags_of(members, weights)
    assert [found[i] for i in places.numpy()] == [Counter(bag) for bag in bags]
    n_distinct = len({frozenset(Counter(bag).items()) for bag in bags})
    assert len(found) == (n_distinct if is_compressed else len(bags))


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=12))
def test_bags_are_those_of_a_loop(bags):
    assert_distinct(bags)


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=8))
def test_bags_of_equal_hashes_are_told_apart(bags):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "mix", tf.zeros_like)
        differ = len({frozenset(Counter(bag).items()) for bag in bags}) > 1
        assert_distinct(bags, is_compressed=not differ)
        patch.setattr(distinct, "mix", lambda x: x)  # {0, 3}, {1, 2}: the same sum
        assert_distinct([[0, 3], [1, 2], [3, 0]], is_compressed=False)


@pytest.mark.parametrize(
    "bags",
    [
        [[0, 0, 1], [0, 1, 1]],  # of equal members, as often
        [[0, 1], [0, 1, 2]],
        [[0, 1, 2], [0, 1]],
        [[], [0], []],
        [[5], [5, 5]],
    ],
)
def test_equal_hashes_of_bags_that_are_nearly_equal(bags, monkeypatch):
    monkeypatch.setattr(distinct, "mix", tf.zeros_like)
    assert_distinct(bags, is_compressed=False)


def test_members_keep_their_order():
    members, weights, places = DistinctBags()(ragged_of([[4, 2, 4], [9], [2, 4, 4], [9]]))
    assert members.to_list() == [[4, 2], [9]]
    assert weights.to_list() == [[2.0, 1.0], [1.0]]
    assert places.numpy().tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("compress", [True, False])
def test_distinct_bags_is_a_layer(compress):
    ids = tf.ragged.constant([[[3, 3], [1]], [], [[1], [], [3, 3]]])
    arguments = {"compress": compress, "field": "orders.items"}
    members, weights, bags = run_layer_test(DistinctBags, arguments, {"ids": ids})
    if compress:
        assert members.to_list() == [[3], [1], []]
        assert weights.to_list() == [[2.0], [1.0], []]
        assert bags.to_list() == [[0, 1], [], [1, 2, 0]]
    else:
        assert members.to_list() == [[3, 3], [1], [1], [], [3, 3]]
        assert weights.to_list() == [[1.0, 1.0], [1.0], [1.0], [], [1.0, 1.0]]
        assert bags.to_list() == [[0, 1], [], [2, 3, 4]]


def test_bags_at_the_top_are_dense():
    ids = ragged_of([[1, 2], [2, 1], []])
    run_layer_test(DistinctBags, {}, {"ids": ids}, fresh_process=False)
    assert DistinctBags()(ids)[2].numpy().tolist() == [0, 0, 1]
    assert DistinctBags()(tf.constant([[1, 2], [2, 1]]))[2].numpy().tolist() == [0, 0]


def test_bad_ids():
    with pytest.raises(ValueError, match="integer ids"):
        DistinctBags()(tf.constant([[1.0]]))
    with pytest.raises(ValueError, match=r"bags of ids.*Received: ids\.shape=\(1,\)"):
        DistinctBags()(tf.constant([1]))


def test_rows_and_their_gradient():
    rows = tf.Variable(np.random.default_rng(0).normal(size=(4, 3)).astype("float32"))
    ids = tf.constant([2, 0, 2, 2])
    with tf.GradientTape() as tape:
        found = Gather()([rows, ids])
        loss = tf.reduce_sum(found**2)
    np.testing.assert_array_equal(found, rows.numpy()[[2, 0, 2, 2]])
    expected = 2 * rows.numpy() * np.array([[1], [0], [3], [0]])
    np.testing.assert_allclose(tape.gradient(loss, rows), expected, rtol=1e-6)


def test_gather_in_a_model(tmp_path):
    rows, ids = keras.Input((3,), name="rows"), keras.Input((), dtype="int32", name="ids")
    model = keras_mmil.Model([rows, ids], Gather(name="back")([rows, ids]))
    assert model.output_shape == (None, 3)
    model.save(tmp_path / "model.keras")
    x = [tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), tf.constant([1, 0])]
    found = keras.models.load_model(tmp_path / "model.keras")(x)
    assert found.numpy().tolist() == [[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ([tf.zeros([2, 3]), tf.zeros([2], tf.float32)], "integer ids"),
        ([tf.zeros([2, 3]), tf.zeros([2, 2], tf.int32)], r"Received: \[\(2, 3\), \(2, 2\)\]"),
        ([tf.zeros([2]), tf.zeros([2], tf.int32)], "a pair of rows"),
        ([tf.zeros([2, 3])], "a pair of rows"),
    ],
)
def test_bad_inputs(inputs, match):
    with pytest.raises(ValueError, match=match):
        Gather()(inputs)

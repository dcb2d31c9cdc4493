"""What layers must not take without a word: masks, ids that are none, weights of other bags."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import Bags, ragged
from keras_mmil.layers import (
    BagLayer,
    CategoryEncoder,
    ConcatDense,
    Distinct,
    DistinctBags,
    DistinctRows,
    EquivariantBagLayer,
    Gather,
    InstanceWise,
    MemberDropout,
    NumberEncoder,
    RandomPose,
    TextBags,
    aggregations,
    bag_inputs,
)
from keras_mmil.model.checks import InputChecks, inputs_with_missing
from keras_mmil.rules.trees.level import find_cluster, find_clusters
from keras_mmil.zoo import imdb_mmil

X = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
IDS = ragged.from_nested_lists([[[1, 0], [2]], [[0]]], dtype="int32")
MEMBERS = IDS.values
OTHER = ragged.from_flat(MEMBERS.flat_values, [[1, 2, 1]])  # as many ids, in bags of other sizes
ROWS = tf.constant(X[0])


def weights_like(members):
    return tf.ones_like(members, tf.float32)


# Masks


def embedded(rows):
    return keras.layers.Embedding(4, 3, mask_zero=True)(rows)


MASKED = {
    "bag-layer": lambda x: BagLayer(3)(keras.layers.Masking()(x)),
    "equivariant": lambda x: EquivariantBagLayer(3)(keras.layers.Masking()(x)),
    "pose": lambda x: RandomPose()(keras.layers.Masking()(x)),
    "by name": lambda x: BagLayer(3)(inputs=keras.layers.Masking()(x)),
    "behind dense": lambda x: BagLayer(3)(keras.layers.Dense(2)(keras.layers.Masking()(x))),
}


@pytest.mark.parametrize("apply", MASKED.values(), ids=MASKED)
@pytest.mark.parametrize("x", [tf.constant(X), keras.KerasTensor((None, 4, 3))])
def test_masks_are_refused(apply, x):
    with pytest.raises(ValueError, match=r"without a Keras mask.*Received: a mask on inputs"):
        apply(x)


@pytest.mark.parametrize(
    "apply",
    [
        lambda rows, members, weights: BagLayer(3)(embedded(rows), members, weights),
        lambda rows, members, weights: BagLayer(None)(embedded(rows), members=members),
        lambda rows, members, weights: ConcatDense(3, 1)(embedded(rows), members[..., None]),
    ],
)
def test_masks_of_rows_are_refused(apply):
    rows, (members, weights) = Distinct()({"bags": MEMBERS, "counts": weights_like(MEMBERS)})
    with pytest.raises(ValueError, match="without a Keras mask"):
        apply(rows, members, weights)


def test_masks_within_instances_stay_there():
    """One that comes out of the layer for instances would be lost; one that does not, is used."""
    with pytest.raises(ValueError, match="outputs of its layer without a Keras mask"):
        InstanceWise(keras.layers.Embedding(4, 3, mask_zero=True))(IDS)
    texts = ragged.from_flat(np.array([[1, 0], [2, 3]]), [[1, 1]])
    encoder = keras.Sequential(
        [keras.layers.Embedding(4, 3, mask_zero=True), keras.layers.GlobalAveragePooling1D()]
    )
    outputs = InstanceWise(encoder)(texts)
    table = encoder.layers[0].embeddings
    np.testing.assert_allclose(outputs[0], table[1:2], rtol=1e-6)  # without the 0


@pytest.mark.parametrize(
    "layer",
    [BagLayer(2), EquivariantBagLayer(2), ConcatDense(2, 1), Distinct(), MemberDropout(0.1)],
)
def test_no_layer_claims_masks(layer):
    assert not layer.supports_masking


# Ids


FLOATS = MEMBERS.with_values(tf.constant([1.0, 0.5, 2.0, 0.0]))
NO_IDS = {
    "members": lambda: BagLayer(2)(ROWS, FLOATS),
    "members, symbolic": lambda: BagLayer(2)(
        keras.KerasTensor((None, 3)), keras.Input((None,), ragged=True)
    ),
    "words": lambda: BagLayer(2, vocabulary_size=4)(FLOATS),
    "words, symbolic": lambda: BagLayer(2, vocabulary_size=4)(keras.Input((None,), ragged=True)),
    "bools": lambda: BagLayer(2, vocabulary_size=4)(FLOATS > 1),
    "tuples": lambda: ConcatDense(2, 1)(ROWS, FLOATS[..., None]),
    "bags": lambda: Distinct()({"bags": FLOATS}),
    "keys": lambda: Distinct()({"bags": IDS, "sub_bag_keys": IDS.with_values(tf.ones(3))}),
    "dropout": lambda: MemberDropout(0.5)(FLOATS),
}


@pytest.mark.parametrize("call", NO_IDS.values(), ids=NO_IDS)
def test_ids_are_integers(call):
    with pytest.raises(ValueError, match=r"expected integer ids\. Received: .*dtype=(float|bool)"):
        call()


def test_inputs_of_ids_are_integers():
    with pytest.raises(ValueError, match=r"integers. Received: dtype='float32'"):
        bag_inputs(dtype="float32")


@pytest.mark.parametrize("id_", [-1, 4])
def test_ids_that_are_no_rows_are_refused_on_a_cpu(id_):
    members = MEMBERS.with_values(tf.constant([0, 1, 2, id_]))
    with tf.device("CPU"):
        for call in (
            lambda: BagLayer(2)(ROWS, members),
            lambda: BagLayer(2, aggregation="mean")(ROWS, members),
            lambda: BagLayer(2, vocabulary_size=4)(members),
            lambda: ConcatDense(2, 1)(ROWS, members[..., None]),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError):
                call()


# Row splits


COMPRESSED = Bags.from_ragged(IDS).inputs
ANYWHERE = {  # as many values, in bags of other sizes
    "counts": IDS.with_flat_values(tf.ones(4)).with_values(weights_like(OTHER)),
    "sub_bag_counts": ragged.from_flat(np.ones(3, "float32"), [[1, 2]]),
    "sub_bag_keys": ragged.from_flat(np.array([1, 2, 1]), [[1, 2]]),
}


def mismatches():
    rows = {"inputs": ROWS, "members": MEMBERS}
    yield BagLayer(2), {**rows, "weights": weights_like(OTHER)}
    yield BagLayer(2, vocabulary_size=4), {"inputs": MEMBERS, "weights": weights_like(OTHER)}
    points = MEMBERS.with_values(ROWS)
    yield BagLayer(2), {"inputs": points, "weights": weights_like(OTHER)}
    nested = IDS.with_flat_values(ROWS)
    outer = ragged.from_flat(np.ones(4, "float32"), [[1, 2], [2, 1, 1]])
    yield BagLayer(2), {"inputs": nested, "weights": outer}
    yield MemberDropout(0.5), {"members": MEMBERS, "weights": weights_like(OTHER)}
    for name, part in ANYWHERE.items():
        yield Distinct(), {"inputs": {"bags": IDS, name: part}}


@pytest.mark.parametrize(("layer", "inputs"), list(mismatches()))
def test_row_splits_are_compared(layer, inputs):
    @tf.function
    def in_graph(inputs):
        return layer(**inputs)

    for call in (lambda inputs: layer(**inputs), in_graph):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Received: bags of other sizes"):
            call(inputs)


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (BagLayer(2), {"inputs": ROWS, "members": MEMBERS, "weights": tf.ones(4)}),
        (BagLayer(2), {"inputs": ROWS, "members": IDS, "weights": weights_like(MEMBERS)}),
        (BagLayer(2), {"inputs": tf.constant(X), "weights": tf.ones((4, 2))}),
        (BagLayer(2), {"inputs": tf.constant(X), "weights": tf.ones((2, 4, 1))}),
        (Distinct(), {"inputs": {"bags": IDS, "counts": weights_like(MEMBERS)}}),
        (Distinct(), {"inputs": {"bags": IDS, "sub_bag_keys": tf.cast(IDS, tf.int64)}}),
        (MemberDropout(0.5), {"members": IDS}),
        (MemberDropout(0.5), {"members": tf.constant([[1, 2]])}),
    ],
)
def test_nestings_are_compared(layer, inputs):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="Received: "):
        layer(**inputs)


def test_bags_of_no_and_of_empty_bags_differ():
    nothing = ragged.from_flat(np.zeros(0, "int32"), [[]])
    empty = ragged.from_flat(np.zeros(0, "float32"), [[0, 0]])

    @tf.function(
        input_signature=[
            tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64),
            tf.RaggedTensorSpec([None, None], tf.float32, 1, tf.int64),
        ]
    )
    def in_graph(members, weights):
        return BagLayer(None, empty="zeros")(ROWS, members, weights)

    with pytest.raises(tf.errors.InvalidArgumentError, match="bags of other sizes"):
        in_graph(nothing, empty)


def test_equal_sizes_in_another_form_are_right():
    """int32 splits, dense weights of dense bags, ragged weights of them, and dense inner axes."""
    layer = BagLayer(2, aggregation="sum")
    expected = layer(X)
    lists = tf.RaggedTensor.from_tensor(tf.ones((2, 4)))
    for weights in (tf.ones((2, 4)), lists, lists.with_row_splits_dtype(tf.int32)):
        np.testing.assert_array_equal(layer(X, weights=weights), expected)
    points = tf.RaggedTensor.from_tensor(tf.constant(X)).with_row_splits_dtype(tf.int32)
    np.testing.assert_array_equal(layer(points, weights=lists), expected)
    inside = tf.RaggedTensor.from_row_lengths(tf.constant(X), [1, 1])
    np.testing.assert_array_equal(
        layer(inside, weights=tf.RaggedTensor.from_row_lengths(tf.ones((2, 4)), [1, 1])).values,
        expected,
    )


def test_weights_from_distinct_need_no_comparison():
    """They have the very row splits of the members, also of sub-bags that are merged."""
    _, *levels = Distinct()(COMPRESSED)
    for members, weights in levels:
        assert members.row_splits is weights.row_splits
        assert MemberDropout(0.5)(members, weights).row_splits is members.row_splits


# Models


def vectors():
    return ragged.from_flat(X.reshape(8, 3), [[2, 1], [2, 5, 1]])


def models():
    inputs = bag_inputs(2)
    ids, sub_bags, top_bags = Distinct()(inputs)
    x = keras.layers.Embedding(4, 3)(ids)
    x = BagLayer(3)(BagLayer(3)(x, *sub_bags), *top_bags)
    yield "compressed", keras_mmil.Model(inputs, x), Bags.from_ragged(IDS)
    inputs = bag_inputs(2, window_size=2)
    ids, (pairs, _), (members, weights) = Distinct()(inputs)
    x = ConcatDense(3, 2)(keras.layers.Embedding(9, 3)(ids), pairs)
    x = BagLayer(2)(BagLayer(None)(x), members, MemberDropout(0.5)(members, weights))
    windows = ragged.from_flat(np.arange(8, dtype="int32").reshape(4, 2), [[2, 1], [2, 1, 1]])
    yield "window_size", keras_mmil.Model(inputs, x), windows
    inputs = keras.Input((None, None, 3), ragged=True, name="bags")
    x = InstanceWise(keras.layers.Dense(3))(EquivariantBagLayer(3)(RandomPose()(inputs)))
    yield "vectors", keras_mmil.Model({"bags": inputs}, BagLayer(2)(BagLayer(3)(x))), vectors()
    yield "one input", keras_mmil.Model(inputs, BagLayer(2)(BagLayer(3)(x))), vectors()
    texts = keras.Input((), dtype="string")
    x = TextBags(["_", "?", "not", "bad"], splitter="core")(texts)
    x = InstanceWise(keras.Sequential([keras.layers.Embedding(4, 2), keras.layers.Flatten()]))(x)
    yield "texts", keras_mmil.Model(texts, BagLayer(3)(BagLayer(3)(x))), tf.constant(["Not bad."])


@pytest.mark.parametrize(
    ("model", "x"), [pytest.param(model, x, id=name) for name, model, x in models()]
)
def test_clones(model, x):
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(x), model(x))
    assert type(clone) is type(model)
    for ours, theirs in zip(clone.inputs, model.inputs, strict=True):
        assert (ours.shape, ours.dtype, ours.ragged) == (theirs.shape, theirs.dtype, theirs.ragged)
    for ours, theirs in zip(clone.layers, model.layers, strict=True):
        assert ours is not theirs
        assert getattr(ours, "optional", None) == getattr(theirs, "optional", None)


def test_clones_on_inputs_that_are_given():
    """They stay as they are: bags of equal size may be dense."""
    inputs = keras.Input((None, 3), ragged=True, name="points")
    model = keras_mmil.Model(inputs, BagLayer(2)(inputs))
    dense = keras.Input((4, 3), name="clouds")
    clone = keras.models.clone_model(model, input_tensors=dense)
    clone.set_weights(model.get_weights())
    assert not clone.inputs[0].ragged
    np.testing.assert_array_equal(clone(X), model(tf.RaggedTensor.from_tensor(X)))


def test_wrappers_that_know_shapes_only_are_refused():
    layer = keras.layers.TimeDistributed(BagLayer(3, name="here"))
    with pytest.raises(NotImplementedError, match="'here' to be called itself"):
        layer(keras.Input((None, None, 4), ragged=True))


# Numbers


def test_numbers_of_numpy_are_ints_in_configs():
    n, ids = np.int64(4), ["_", "?", "a", "b"]
    layers = [
        BagLayer(n, vocabulary_size=np.int32(9), window_size=np.uint8(3)),
        ConcatDense(n, window_size=n),
        EquivariantBagLayer(n),
        MemberDropout(np.float32(0.5), seed=n),
        RandomPose(np.float32(0.25), scale=np.array([0.5, 2.0], "float32"), seed=n),
        TextBags(ids, depth=np.int64(1), window_size=np.int64(3), at_most=n, splitter="core"),
        aggregations.Attention(hidden_units=n),
        aggregations.LSE(sharpness=np.float32(2)),
    ]
    for layer in layers:
        assert json.dumps(type(layer).from_config(layer.get_config()).get_config())
    assert len(bag_inputs(np.int64(2), window_size=n)) == 4
    assert imdb_mmil(np.int64(20), filters=n, bag_units=(n, n)).count_params() > 0


@pytest.mark.parametrize("value", [True, np.True_, 2.0, "2", np.float64(2)])
def test_what_is_no_int_is_refused(value):
    makers = {
        "units": lambda: BagLayer(value),
        "window_size": lambda: ConcatDense(2, value),
        "depth": lambda: bag_inputs(value),
        "seed": lambda: MemberDropout(0.5, seed=value),
        "hidden_units": lambda: aggregations.Attention(value),
        "level": lambda: find_clusters(levels_with_clusters(), value),
        "sizes": lambda: ragged.split(np.zeros(4), [value, 2]),
    }
    for name, make in makers.items():
        with pytest.raises(ValueError, match=f"Received: .*{name}="):
            make()


def levels_with_clusters():
    """What is searched for clusters: two levels, of one bag-layer each."""
    clusters = [
        SimpleNamespace(level=i, path="", names=("u1", "u2"), n_clusters=2) for i in range(2)
    ]
    return [SimpleNamespace(clusters=(each,)) for each in clusters]


def test_levels_and_clusters_are_found_by_numbers_of_numpy():
    found = find_clusters(levels_with_clusters(), np.int64(1))
    assert found.level == 1
    assert find_cluster(found, np.int64(1)) == 1
    with pytest.raises(ValueError, match="cluster=True"):
        find_cluster(found, True)


def record_model():
    """Of a number, and two fields in bags, where NaN stands for missing."""
    inputs = {
        "age": keras.Input((), name="age"),
        "price": keras.Input((None,), ragged=True, name="price"),
        "kind": keras.Input((None,), dtype="int64", ragged=True, name="kind"),
        "size": keras.Input((1,), name="size"),
    }
    price, kind, ids = DistinctRows()([inputs["price"], inputs["kind"]])
    rows = [NumberEncoder()(price), CategoryEncoder([1, 2])(kind)]
    members, weights, bags = DistinctBags()(ids)
    x = BagLayer(3)(keras.layers.Concatenate()(rows), members, weights)
    x = [NumberEncoder()(inputs["age"]), Gather()([x, bags]), inputs["size"]]
    return keras_mmil.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(x)))


def some_records(n=2, **others):
    splits = np.arange(n + 1) * 2
    x = {
        "age": tf.constant([np.nan] * n),
        "price": tf.RaggedTensor.from_row_splits(tf.fill([2 * n], np.float32(np.nan)), splits),
        "kind": tf.RaggedTensor.from_row_splits(tf.ones([2 * n], tf.int64), splits),
        "size": tf.ones([n, 1]),
    }
    return x | others


@pytest.mark.slow
def test_missing_values_of_records_are_nan():
    model = record_model()
    assert np.isfinite(model.predict(some_records(), verbose=0)).all()
    with pytest.raises(ValueError, match=r"finite.*Received: x\['size'\]"):
        model.predict(some_records(size=tf.constant([[1.0], [np.nan]])), verbose=0)
    assert inputs_with_missing(model) == {
        i for i, x in enumerate(model.inputs) if x.name in ("age", "price", "kind")
    }


def test_columns_of_distinct_rows_are_of_the_same_bags():
    x = some_records(kind=tf.ragged.constant([[1, 2], [1]], dtype=tf.int64))
    with pytest.raises(ValueError, match="in top-bag 1 a bag of 2 members in x\\['price'\\], of 1"):
        record_model().predict(x, verbose=0)


def test_bags_that_never_meet_may_differ_and_are_tried_together(monkeypatch):
    inputs = {f"b{i}": keras.Input((None,), ragged=True, name=f"b{i}") for i in range(6)}
    outputs = []
    for x in inputs.values():
        value, ids = DistinctRows()([x])
        members, weights, bags = DistinctBags()(ids)
        rows = BagLayer(2)(NumberEncoder()(value), members, weights)
        outputs.append(Gather()([rows, bags]))
    model = keras_mmil.Model(inputs, keras.layers.Concatenate()(outputs))
    x = {f"b{i}": tf.ragged.constant([[1.0] * i, [2.0]]) for i in range(6)}
    calls = []
    call = keras_mmil.Model.__call__
    monkeypatch.setattr(
        keras_mmil.Model, "__call__", lambda *args, **kw: calls.append(1) or call(*args, **kw)
    )
    checks = InputChecks(model)
    checks(x)
    checks(x)
    assert len(calls) == 1


def test_normalisation_over_distinct_rows_is_refused():
    x = keras.Input((None,), ragged=True)
    value, ids = DistinctRows()([x])
    rows = keras.layers.BatchNormalization(name="norm")(NumberEncoder()(value))
    members, weights, _ = DistinctBags()(ids)
    with pytest.raises(ValueError, match=r"no BatchNormalization.*layer='norm'"):
        keras_mmil.Model(x, BagLayer(2)(rows, members, weights))

"""Layers that change something in training only."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.builders import clouds
from keras_mmil.layers import (
    BagLayer,
    Distinct,
    MaskKnownLabels,
    MemberDropout,
    RandomPoints,
    RandomPose,
    bag_inputs,
)
from keras_mmil.testing import assert_close, run_layer_test

MEMBERS = ragged.from_flat(np.arange(7) % 4, (np.array([3, 0, 4]),))
WEIGHTS = MEMBERS.with_values(tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5]))


def many(n=20_000):
    return ragged.from_flat(np.arange(n), (np.full(n // 10, 10),))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_is_a_keras_layer_that_leaves_weights_as_they_are_outside_of_training(weights):
    expected = MEMBERS.with_values(tf.ones(7)) if weights is None else weights
    inputs = {"members": MEMBERS} | ({} if weights is None else {"weights": weights})
    run_layer_test(MemberDropout, {"rate": 0.5}, inputs, expected)


def test_positions():
    trigrams = ragged.from_flat(np.zeros((7, 3), int), (np.array([3, 0, 4]),))
    assert MemberDropout(0.5)(trigrams).to_list() == [[1, 1, 1], [], [1, 1, 1, 1]]
    symbolic = keras.Input((None, 3), ragged=True, dtype="int32")
    assert MemberDropout(0.5)(symbolic).shape == (None, None)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.9])
def test_rate(rate):
    """Within four standard deviations, in all and in each place of a bag."""
    members = many()
    weights = members.with_values(tf.fill([20_000], 3.0))
    kept = MemberDropout(rate, seed=1)(members, weights, training=True)
    assert set(np.unique(kept.values)) <= {0.0, 3.0}
    table = kept.to_tensor().numpy() == 0
    spread = 4 * np.sqrt(rate * (1 - rate) / 20_000)
    assert abs(table.mean() - rate) <= spread
    assert (np.abs(table.mean(axis=0) - rate) <= spread * np.sqrt(10)).all()


def test_seeds():
    members = many(200)
    layers = [MemberDropout(0.5, seed=seed) for seed in (1, 1, 2)]
    first, same, other = (layer(members, training=True).values.numpy() for layer in layers)
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    assert (first != layers[0](members, training=True).values.numpy()).any()  # new ones each time


@pytest.mark.parametrize("aggregation", ["max", "mean", "sum"])
def test_what_is_left_out_is_not_in_the_bag(aggregation):
    rows = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    drop, layer = MemberDropout(0.5, seed=3), BagLayer(5, aggregation=aggregation)
    weights = drop(MEMBERS, training=True)
    found = layer(tf.constant(rows), MEMBERS, weights)
    kept = tf.ragged.boolean_mask(MEMBERS, weights > 0)
    assert 0 < int(tf.size(kept.values)) < 7
    np.testing.assert_allclose(found, layer(tf.constant(rows), kept), rtol=1e-5)


@pytest.mark.slow
def test_a_network_with_it_trains_and_comes_back(tmp_path):
    inputs = bag_inputs(1)
    rows, (members, weights) = Distinct()(inputs)
    weights = MemberDropout(0.5)(members, weights)
    x = BagLayer(4, vocabulary_size=50, aggregation="mean")(rows, members, weights)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1)(x))
    model.compile("adam", "mse")
    bags = ragged.from_flat(np.arange(200) % 50, (np.full(20, 10),))
    model.fit(bags, np.arange(20.0), epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(bags, verbose=0), model.predict(bags, verbose=0))
    assert (model(bags, training=True).numpy() != model(bags).numpy()).any()


RNG = np.random.default_rng(0)
SIZES = [[2, 0, 1], [5, 1, 6]]
CLOUDS = ragged.from_flat(RNG.normal(size=(12, 3)).astype("float32"), SIZES)
DENSE = tf.constant(RNG.normal(size=(200, 8, 3)).astype("float32"))


@pytest.mark.parametrize(
    ("layer", "arguments", "inputs"),
    [
        (RandomPoints, {"n_points": 3, "seed": 1}, CLOUDS),
        (RandomPoints, {"n_points": 3, "same_in_bag": True}, CLOUDS),
        (RandomPose, {"jitter": 0.1, "seed": 1}, CLOUDS),
        (RandomPose, {"jitter": 0.1, "seed": 1}, DENSE),
    ],
)
def test_is_a_keras_layer_that_is_idle_outside_of_training(layer, arguments, inputs):
    run_layer_test(layer, arguments, {"inputs": inputs}, inputs)


def test_points_are_sampled_and_normalised_as_clouds_are():
    """Of each cloud by itself: the normalised cloud of some of its points."""
    found = RandomPoints(3, seed=0)(CLOUDS, training=True)
    assert found.ragged_rank == CLOUDS.ragged_rank
    assert [part.tolist() for part in map(np.asarray, ragged.nested_lengths(found))] == [
        SIZES[0],
        [3, 1, 3],
    ]
    for before, after in zip(CLOUDS.values, found.values, strict=True):
        before, after = before.numpy(), after.numpy()
        subsets = [
            clouds.normalise(before[None, list(chosen)])[0]
            for chosen in np.ndindex(*[len(before)] * len(after))
            if len(set(chosen)) == len(chosen)
        ]
        assert any(np.allclose(after, subset, atol=1e-4) for subset in subsets)


@pytest.mark.slow
def test_each_point_is_as_likely():
    x = tf.RaggedTensor.from_tensor(tf.constant(RNG.normal(size=(1, 5, 3)).astype("float32")))
    x = tf.concat([x] * 2000, axis=0)
    found = RandomPoints(2, seed=3)(x, training=True)
    # Of two points, the normalised ones are those of a line: its direction says which.
    line = found.to_tensor()[:, 1] - found.to_tensor()[:, 0]
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    lines = np.stack([x[0, j].numpy() - x[0, i].numpy() for i, j in pairs])
    lines /= np.linalg.norm(lines, axis=1, keepdims=True)
    line = line.numpy() / np.linalg.norm(line, axis=1, keepdims=True)
    counts = np.bincount(np.argmax(line @ lines.T, axis=1), minlength=20)
    assert counts.min() > 60  # 100 ± 10
    assert counts.max() < 140


def test_samples_depend_on_step_and_seed():
    layer, twin = RandomPoints(3, seed=4), RandomPoints(3, seed=4)
    first, second = layer(CLOUDS, training=True), layer(CLOUDS, training=True)
    assert_close(twin(CLOUDS, training=True).flat_values, first.flat_values)
    assert np.abs((first - second).flat_values.numpy()).max() > 0.1


def test_clouds_of_a_bag_may_keep_the_points_at_the_same_places():
    """Rotations of what is kept of a cloud are what is kept of its rotations."""
    x = RNG.normal(size=(3, 8, 3)).astype("float32")
    rotations = tf.RaggedTensor.from_tensor(clouds.rotations(x, 4), ragged_rank=2)
    found = RandomPoints(5, same_in_bag=True, seed=1)(rotations, training=True)
    kept = found.to_tensor().numpy()  # (bags, rotations, points, 3)
    assert kept.shape == (3, 4, 5, 3)
    assert_close(clouds.rotations(kept[:, 0], 4), kept, atol=1e-5)
    others = RandomPoints(5, seed=1)(rotations, training=True).to_tensor().numpy()
    assert np.abs(clouds.rotations(others[:, 0], 4) - others).max() > 0.1


def test_clouds_of_a_bag_may_differ_in_size():
    layer = RandomPoints(3, same_in_bag=True, seed=0)
    assert layer(CLOUDS, training=True).values.row_lengths().numpy().tolist() == [3, 1, 3]
    assert layer(CLOUDS[:0], training=True).shape[0] == 0
    with pytest.raises(ValueError, match=r"expected ragged clouds \[batch, \(n\), \(m\), 3\]"):
        layer(CLOUDS.values)


def test_equal_points_are_at_the_origin():
    x = tf.RaggedTensor.from_row_lengths(tf.fill([7, 3], 0.1), [4, 3])
    assert_close(RandomPoints(3)(x, training=True).flat_values, np.zeros((6, 3)))


def test_one_graph_for_clouds_of_all_sizes():
    inputs = keras.Input((None, 3), ragged=True)
    layer = RandomPoints(2, seed=0)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None, 3], ragged_rank=1)])
    def step(x):
        return layer(x, training=True)

    assert layer(inputs).shape == (None, None, 3)
    for sizes in ([3, 1], [2, 5, 0]):
        x = ragged.from_flat(RNG.normal(size=(sum(sizes), 3)).astype("float32"), [sizes])
        assert step(x).row_lengths().numpy().tolist() == [min(size, 2) for size in sizes]


@pytest.mark.parametrize(
    "inputs",
    [
        keras.Input((None, 2), ragged=True),
        keras.Input((8, 3)),
        tf.zeros((2, 8, 3)),
        tf.RaggedTensor.from_row_lengths(tf.zeros((3, 8, 3)), [2, 1]),
    ],
    ids=["plane", "dense", "tensor", "of equal sizes"],
)
def test_inputs_without_ragged_clouds(inputs):
    with pytest.raises(ValueError, match=r"expected ragged clouds \[batch, \(n\), 3\]"):
        RandomPoints(2)(inputs)


def linear_maps(before, after):
    """The matrix of each cloud that maps its points to what they became."""
    return np.stack(
        [np.linalg.lstsq(a, b, rcond=None)[0].T for a, b in zip(before, after, strict=True)]
    )


def test_clouds_are_turned_about_z_and_stretched():
    before = DENSE.numpy()
    after = RandomPose(rotation=0.1, scale=(0.5, 2), seed=1)(before, training=True).numpy()
    maps = linear_maps(before, after)
    np.testing.assert_allclose(np.einsum("bij,bnj->bni", maps, before), after, atol=1e-4)
    np.testing.assert_allclose(maps[:, 2, :2], 0, atol=1e-5)
    np.testing.assert_allclose(maps[:, :2, 2], 0, atol=1e-5)
    scales = np.linalg.norm(maps, axis=2)  # of each axis
    assert scales.min() > 0.5 - 1e-3
    assert scales.max() < 2 + 1e-3
    assert scales.std(axis=0).min() > 0.3  # each axis, each cloud, in its own way
    assert abs(np.corrcoef(scales.T)).max(initial=0, where=~np.eye(3, dtype=bool)) < 0.3
    angles = np.arctan2(maps[:, 1, 0] / scales[:, 1], maps[:, 0, 0] / scales[:, 0])
    np.testing.assert_allclose(
        np.arctan2(-maps[:, 0, 1] / scales[:, 0], maps[:, 1, 1] / scales[:, 1]), angles, atol=1e-4
    )
    assert np.abs(angles).max() < 0.2 * np.pi + 1e-3
    assert angles.min() < -0.15 * np.pi < 0.15 * np.pi < angles.max()


def test_clouds_within_a_bag_have_a_pose_each():
    layer = RandomPose(seed=2)
    x = tf.constant(RNG.normal(size=(2, 3, 8, 3)).astype("float32"))
    after = layer(x, training=True)
    maps = linear_maps(x.numpy().reshape(6, 8, 3), after.numpy().reshape(6, 8, 3))
    assert len(np.unique(maps.round(4), axis=0)) == 6
    twin = RandomPose(seed=2)
    bags = tf.RaggedTensor.from_tensor(x, ragged_rank=2)
    assert_close(twin(bags, training=True).to_tensor(), after)


def test_bags_keep_their_sizes():
    after = RandomPose(jitter=0.5)(CLOUDS, training=True)
    for ours, given in zip(after.nested_row_splits, CLOUDS.nested_row_splits, strict=True):
        np.testing.assert_array_equal(ours, given)
    assert np.isfinite(after.flat_values).all()


def test_jitter():
    layer = RandomPose(rotation=0, scale=(1, 1), jitter=0.25)
    moved = (layer(DENSE, training=True) - DENSE).numpy()
    np.testing.assert_allclose(moved.std(axis=(0, 1)), 0.25, rtol=0.1)
    np.testing.assert_allclose(moved.mean(axis=(0, 1)), 0, atol=0.03)


def test_nothing_to_do():
    layer = RandomPose(rotation=0, scale=(1, 1))
    assert_close(layer(DENSE, training=True), DENSE)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_points": 0}, "n_points="),
        ({"n_points": 1.5}, "n_points="),
        ({"n_points": None}, "n_points="),
        ({"rate": -0.1}, "rate=-0.1"),
        ({"rate": 1.0}, "rate=1.0"),
        ({"rate": 1.5}, "rate=1.5"),
        ({"rotation": -0.1}, "rotation=-0.1"),
        ({"rotation": 0.6}, "rotation=0.6"),
        ({"scale": (0, 1)}, "scale="),
        ({"scale": (2, 1)}, "scale="),
        ({"scale": (1,)}, "scale="),
        ({"jitter": -1}, "jitter=-1"),
        ({"jitter": float("nan")}, "jitter=nan"),
    ],
)
def test_arguments(arguments, match):
    layer = {"n_points": RandomPoints, "rate": MemberDropout}.get(*arguments, RandomPose)
    with pytest.raises(ValueError, match=match):
        layer(**arguments)


@pytest.mark.parametrize("shape", [(None, 2), (3,)])
def test_inputs_without_clouds(shape):
    with pytest.raises(ValueError, match=r"expected clouds \[batch, \(n\), 3\]"):
        RandomPose()(keras.Input(shape))


OUTPUTS = tf.constant([[0.2, 0.7, 0.4], [0.9, 0.1, 0.5]])
TOLD = tf.constant([[1.0, 0.0, 0.0], [0.0, 2.0, 1.0]])


def test_is_a_keras_layer_that_leaves_outputs_as_they_are_outside_of_training():
    run_layer_test(MaskKnownLabels, {}, {"outputs": OUTPUTS, "told": TOLD}, OUTPUTS.numpy())


def test_nothing_is_learned_from_what_was_told():
    with tf.GradientTape() as tape:
        tape.watch(OUTPUTS)
        found = MaskKnownLabels()(OUTPUTS, TOLD, training=True)
        loss = tf.reduce_sum(found**2)
    expected = np.array([[1, 0.7, 0.4], [0.9, 1, 1]], np.float32)
    np.testing.assert_array_equal(found, expected)
    gradient = 2 * OUTPUTS.numpy() * [[0, 1, 1], [1, 0, 0]]
    np.testing.assert_allclose(tape.gradient(loss, OUTPUTS), gradient)


def test_other_shapes():
    with pytest.raises(ValueError, match=r"outputs.shape=\(2, 3\), told.shape=\(2, 2\)"):
        MaskKnownLabels()(OUTPUTS, TOLD[:, :2])

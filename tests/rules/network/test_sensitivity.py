"""The metric "sensitivity", against closed forms and against moving what bag-layers yield."""

import keras
import numpy as np
import pytest

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, Distinct, bag_inputs
from keras_mmil.rules import Explainer
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.sensitivity import Gradients, projections, sample
from keras_mmil.rules.network.sources import top_bags
from keras_mmil.rules.network.targets import resolve_target

UNITS = 4


def bags(n, features=3, depth=1, seed=0):
    rng = np.random.default_rng(seed)
    lengths = [rng.integers(1, 5, n)]
    for _ in range(depth - 1):
        lengths.append(rng.integers(1, 5, lengths[-1].sum()))
    values = rng.normal(size=(lengths[-1].sum(), features)).astype(np.float32)
    return ragged.from_flat(values, lengths)


def network_of(outputs, depth=1, activation="relu", **arguments):
    """A random network: bag-layers, and a dense layer `outputs`."""
    inputs = x = keras.Input((None,) * depth + (3,), ragged=True)
    for _ in range(depth):
        x = BagLayer(UNITS, activation=activation, **arguments)(x)
    model = keras_mmil.Model(inputs, outputs(x))
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


def projections_of(model, x, target=None, batch_size=7):
    network = Network(model)
    step = Gradients(resolve_target(model, target))
    return projections(network, step(network, top_bags(x, network, batch_size).batches(), 0))


def squares(matrices):
    """A Aᵀ of each, which is what they are determined by."""
    return [matrix @ matrix.T for matrix in matrices]


def mean_square(gradients):
    """E[∇∇ᵀ] of gradients [n, units], scaled to trace 1."""
    square = sum(np.outer(g, g) for g in gradients)
    return square / np.trace(square)


@pytest.mark.parametrize("link", ["sigmoid", "linear"])
@pytest.mark.parametrize("aggregation", ["max", "mean", "sum"])
def test_of_a_linear_output_is_its_kernel(link, aggregation):
    output = keras.layers.Dense(1, activation=link)
    model = network_of(output, aggregation=aggregation)
    (matrix,) = projections_of(model, bags(20), None if link == "sigmoid" else (0, 0.5))
    kernel = output.kernel.numpy()[:, 0]
    assert matrix.shape == (UNITS, 1)
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(np.abs(matrix[:, 0]), np.abs(kernel) / np.linalg.norm(kernel), 1e-4)
    assert np.abs(np.corrcoef(matrix[:, 0], kernel)[0, 1]) > 0.9999


def upper_half(model, s, lengths):
    """Log-odds from the vectors of sub-bags [sub-bags, units]: the second bag-layer by a loop."""
    _, second, output = model.layers[-3:]
    kernel, bias, _ = second.get_weights()
    rho = np.tanh(s @ kernel + bias)
    parts = np.split(rho, np.cumsum(lengths)[:-1])
    top = [np.concatenate([p[:, :2].max(0), p[:, 2:].mean(0)]) for p in parts]
    return np.array(top) @ output.kernel.numpy()[:, 0]


@pytest.mark.slow
def test_is_what_moving_a_sub_bag_changes():
    model = network_of(
        keras.layers.Dense(1, activation="sigmoid"), 2, "tanh", aggregation="max|mean"
    )
    x = bags(15, depth=2)
    lengths = x.row_lengths().numpy()
    sub_bags = keras.Model(model.input, model.layers[-3].output)(x).flat_values.numpy()
    sub_bags = sub_bags.astype(np.float64)
    gradients, h = [], 1e-5
    for row in range(len(sub_bags)):
        steps = np.zeros((UNITS, *sub_bags.shape))
        steps[np.arange(UNITS), row, np.arange(UNITS)] = h
        changes = [
            upper_half(model, sub_bags + step, lengths)
            - upper_half(model, sub_bags - step, lengths)
            for step in steps
        ]
        gradients.append(np.sum(changes, axis=1) / (2 * h))
    of_instances, of_sub_bags = squares(projections_of(model, x))
    np.testing.assert_allclose(of_instances, mean_square(gradients), atol=2e-3)
    kernel = model.layers[-1].kernel.numpy()[:, 0]
    np.testing.assert_allclose(of_sub_bags, mean_square([kernel]), atol=1e-5)


def test_directions_kept_make_up_almost_all():
    model = network_of(keras.layers.Dense(3), 2, "tanh", aggregation="mean")
    for matrix in projections_of(model, bags(30, depth=2), target=lambda y: y.argmax(axis=1)):
        assert matrix.shape[1] <= UNITS
        assert 0.999 <= np.square(matrix).sum() <= 1 + 1e-6
        strengths = np.square(matrix).sum(axis=0)
        np.testing.assert_array_equal(strengths, np.sort(strengths)[::-1])
        np.testing.assert_allclose(matrix.T @ matrix, np.diag(strengths), atol=1e-6)


def test_of_one_of_several_outputs():
    output = keras.layers.Dense(3)
    model = network_of(output)
    (matrix,) = projections_of(model, bags(20), target=(2, 0.0))
    kernel = output.kernel.numpy()
    np.testing.assert_allclose(matrix @ matrix.T, mean_square([kernel[:, 2]]), atol=1e-5)
    (matrix,) = projections_of(model, bags(20), target=lambda y: y.argmax(axis=1))
    np.testing.assert_allclose(matrix @ matrix.T, mean_square(kernel.T), atol=2e-3)


@pytest.mark.parametrize("units", [1, 3])
def test_of_logits(units):
    output = keras.layers.Dense(units)
    model = network_of(output)
    losses = keras.losses
    loss = losses.SparseCategoricalCrossentropy if units > 1 else losses.BinaryCrossentropy
    model.compile(loss=loss(from_logits=True))
    (matrix,) = projections_of(model, bags(20))
    np.testing.assert_allclose(matrix @ matrix.T, mean_square(output.kernel.numpy().T), atol=2e-3)


def test_of_a_softmax_ignores_what_moves_all_logits():
    output = keras.layers.Dense(3, activation="softmax")
    model = network_of(output)
    kernel, bias = output.get_weights()
    kernel[0], bias[:] = 5.0, 0.0  # unit 0 moves all three alike
    output.set_weights([0.1 * kernel, bias])
    (matrix,) = projections_of(model, bags(20))
    assert np.abs(matrix[0]).max() < 1e-3 < np.abs(matrix[1:]).max()


def test_without_units_aggregations_add_up():
    inputs = keras.Input((None, 3), ragged=True)
    output = keras.layers.Dense(1, activation="sigmoid")
    x = BagLayer(None, aggregation=("max", "mean"))(inputs)
    model = keras_mmil.Model(inputs, output(x))
    (matrix,) = projections_of(model, bags(20))
    kernel = output.kernel.numpy()[:, 0].reshape(2, 3).sum(axis=0)
    np.testing.assert_allclose(matrix @ matrix.T, mean_square([kernel]), atol=1e-5)


@pytest.mark.slow
def test_does_not_depend_on_batches_or_on_frozen_weights():
    model = network_of(keras.layers.Dense(1, activation="sigmoid"), 2, aggregation="max|mean")
    x = bags(20, depth=2)
    expected = squares(projections_of(model, x, batch_size=20))
    for square, again in zip(
        expected, squares(projections_of(model, x, batch_size=3)), strict=True
    ):
        np.testing.assert_allclose(square, again, atol=1e-5)
    model.trainable = False
    for square, again in zip(
        expected, squares(projections_of(model, x, batch_size=20)), strict=True
    ):
        np.testing.assert_allclose(square, again, atol=1e-6)


def test_of_compressed_data():
    inputs = bag_inputs(2)
    rows, sub_bags, top_bags = Distinct()(inputs)
    x = keras.layers.Embedding(9, 3)(rows)
    x = BagLayer(UNITS, aggregation="max|mean")(x, *sub_bags)
    x = BagLayer(UNITS, aggregation="max|mean")(x, *top_bags)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    rng = np.random.default_rng(0)
    # No sub-bag occurs twice, so that each counts once in both forms.
    ids = ragged.from_flat(rng.permutation(9)[:8], [[2, 1], [3, 2, 3]])
    plain, packed = (
        squares(projections_of(model, form)) for form in (ids, keras_mmil.Bags.from_ragged(ids))
    )
    for a, b in zip(plain, packed, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.slow
def test_of_many_top_bags_some_are_drawn():
    model = network_of(keras.layers.Dense(1, activation="sigmoid"), 2)
    x = bags(2500, depth=2)
    step, network = Gradients(resolve_target(model)), Network(model)

    def some(seed):
        return sample(top_bags(x, network, 500), seed)

    first, again, other = (
        squares(projections(network, step(network, some(seed).batches(), 0)))[0]
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-5
    np.testing.assert_allclose(first, other, atol=0.05)


# What the explainer makes of it -----------------------------------------------------------------


def noisy_model_and_data(n, seed):
    """Unit 0 says whether a member counts; units 1 to 3 vary ten times as much, and do nothing."""
    inputs = keras.Input((None, 4), ragged=True)
    first, output = BagLayer(4), keras.layers.Dense(1, activation="sigmoid")
    model = keras_mmil.Model(inputs, output(first(inputs)))
    first.set_weights([np.eye(4), np.zeros(4), np.zeros(4)])
    output.set_weights([np.array([[20.0], [0], [0], [0]]), np.array([-10.0])])
    x = bags(n, features=4, seed=seed)
    rng = np.random.default_rng(seed + 1)
    counts = rng.random(x.flat_values.shape[0]) < 0.3
    noise = rng.uniform(0, 30, size=(len(counts), 3))
    values = np.column_stack([counts + rng.normal(scale=0.05, size=len(counts)), noise])
    x = x.with_flat_values(values.astype(np.float32))
    return model, x, x.with_values(counts)


def test_clusters_are_of_what_the_network_tells_apart():
    model, x, counts = noisy_model_and_data(200, seed=0)
    _, x_test, _ = noisy_model_and_data(100, seed=5)
    plain = Explainer(n_clusters=2, verbose=0).fit(model, x)
    ours = Explainer(n_clusters=2, metric="sensitivity", verbose=0).fit(model, x)
    assert ours.fidelity(x_test) == 1.0 > plain.fidelity(x_test) + 0.1
    found = ours.labels(x)[0].flat_values.numpy()  # the larger cluster, u1, is what does not count
    np.testing.assert_array_equal(found, counts.flat_values.numpy())
    assert ours.clusters_[0].projection.shape == (4, 1)
    assert plain.clusters_[0].projection is None


def test_saved_and_loaded(tmp_path):
    model, x, _ = noisy_model_and_data(60, seed=0)
    explainer = Explainer(n_clusters=2, metric="sensitivity", verbose=0).fit(model, x)
    explainer.save(tmp_path / "rules")
    loaded = Explainer.load(tmp_path / "rules", model)
    assert loaded.metric == "sensitivity"
    np.testing.assert_array_equal(loaded.clusters_[0].projection, explainer.clusters_[0].projection)
    np.testing.assert_array_equal(loaded.predict(x), explainer.predict(x))
    assert str(loaded.explain(x)[0]) == str(explainer.explain(x)[0])
    by_score = [e.representatives(x, "u", 0, n=3) for e in (explainer, loaded)]
    assert by_score[0] == by_score[1]


def test_representatives_are_scored_by_the_metric():
    model, x, _ = noisy_model_and_data(60, seed=0)
    explainer = Explainer(n_clusters=2, metric="sensitivity", verbose=0).fit(model, x)
    best, *_ = explainer.representatives(x, "u", "u2", n=1)
    top_bag, index = best.position
    counts = np.abs(explainer.clusters_[0].projection[0, 0]) * x.flat_values.numpy()[:, 0]
    assert x[top_bag][index].numpy()[0] == x.flat_values.numpy()[:, 0].max()
    other = np.abs(explainer.clusters_[0].centroids[0, 0])
    np.testing.assert_allclose(best.separation, counts.max() - other, rtol=1e-3)


def test_outputs_that_depend_on_nothing():
    model, x, _ = noisy_model_and_data(20, seed=0)
    model.layers[-1].set_weights([np.zeros((4, 1)), np.zeros(1)])
    with pytest.raises(ValueError, match=r"gradients of zero at layers=.'bag_layer"):
        Explainer(n_clusters=2, metric="sensitivity", verbose=0).fit(model, x)

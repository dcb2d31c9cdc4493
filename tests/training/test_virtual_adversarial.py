"""Virtual adversarial training."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import Bags, ragged, zoo
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, bag_inputs
from keras_mmil.training import VirtualAdversarialModel

# Steps are few. What may differ in graphs is tested in them.
pytestmark = pytest.mark.eager
EPSILON = 0.7


def linear_model(units=1, dropout=0.0, optimizer=None, **compiling):
    """Input, a linear layer h, and a sigmoid unit or a softmax of it."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((5,))
    h = keras.layers.Dense(4, name="h")(keras.layers.Dropout(dropout)(inputs))
    activation = "sigmoid" if units == 1 else "softmax"
    outputs = keras.layers.Dense(units, activation=activation, bias_initializer="normal")(
        keras.layers.Dropout(dropout)(h)
    )
    model = keras_mmil.Model(inputs, outputs)
    loss = "binary_crossentropy" if units == 1 else "sparse_categorical_crossentropy"
    optimizer = optimizer or keras.optimizers.SGD(1.0)
    model.compile(optimizer, loss, **{"metrics": ["accuracy"], **compiling})
    return model


def adversarial(model, **arguments):
    arguments = {"layer": "h", "epsilon": EPSILON, "seed": 1, **arguments}
    return VirtualAdversarialModel(model, **arguments)


def data(n=8):
    rng = np.random.default_rng(2)
    return rng.normal(size=(n, 5)).astype("float32"), rng.integers(0, 2, n)


def bags_of_trigrams(n=12):
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 4, n)]
    sizes.append(rng.integers(1, 6, sizes[0].sum()))
    return ragged.from_flat(rng.integers(0, 30, (sizes[1].sum(), 3)).astype("int32"), sizes)


def one_step(model, *batch):
    model.reset_metrics()
    return model.train_on_batch(*batch, return_dict=True)


def assert_same_weights(a, b, **tolerances):
    for left, right in zip(a.get_weights(), b.get_weights(), strict=True):
        np.testing.assert_allclose(left, right, **{"rtol": 1e-4, "atol": 1e-6, **tolerances})


def perturbations(model, h_name, x):
    """What a wrapper adds to h, h itself, the function from both to predictions, and its loss."""
    vat = adversarial(model, layer=h_name)
    h, values = vat._cut.below(x, training=False)
    flat = getattr(h, "flat_values", h)

    def predict(perturbation=0.0):
        seen.append(perturbation)
        perturbed = flat + perturbation
        h_new = h.with_flat_values(perturbed) if isinstance(h, tf.RaggedTensor) else perturbed
        return vat._cut.above(h_new, values, training=False)

    seen = []
    loss = vat._adversarial_loss(predict, h, predict())
    return np.asarray(seen[-1]), flat.numpy(), predict, float(loss)


# Divergence and its direction -------------------------------------------------------------------


def divergences(model, x, epsilon):
    """KL of each row for ± ε w/|w|, with NumPy: [2, rows]; and w/|w|."""
    _, _, kernel, bias = (w.astype("float64") for w in model.get_weights())
    if len(bias) == 1:  # a sigmoid unit is a softmax of its logit and 0
        kernel, bias = np.hstack([0 * kernel, kernel]), np.append(0, bias)
    h = model.get_layer("h")(x).numpy()
    unit = kernel[:, 1] - kernel[:, 0]
    unit /= np.linalg.norm(unit)

    def log_softmax(h):
        z = h @ kernel + bias
        return z - np.log(np.exp(z).sum(1, keepdims=True))

    log_p = log_softmax(h)
    both = [log_softmax(h + sign * epsilon * unit) for sign in (1, -1)]
    return np.array([(np.exp(log_p) * (log_p - log_q)).sum(1) for log_q in both]), unit


@pytest.mark.slow
@pytest.mark.parametrize("units", [1, 2])
def test_worst_direction_of_a_linear_model(units):
    (x, y), model = data(3), linear_model(units)
    expected, unit = divergences(model, x, EPSILON)
    found, _, _, loss = perturbations(model, "h", x)
    signs = np.sign(found @ unit)
    np.testing.assert_allclose(found, EPSILON * np.outer(signs, unit), atol=1e-4)
    chosen = np.where(signs > 0, expected[0], expected[1])
    np.testing.assert_allclose(loss, chosen.mean(), rtol=1e-4)
    possible = [np.mean(each) for each in itertools.product(*expected.T)]
    logged = one_step(adversarial(model), x, y)["adversarial_loss"]
    np.testing.assert_allclose(min(possible, key=lambda v: abs(v - logged)), logged, rtol=1e-4)
    assert np.ptp(possible) > 0.01 * logged  # or else any sign would do


@pytest.mark.slow
def test_norm_of_each_instance_in_bags():
    """An instance is all that is in a row of h, here three words of four numbers."""
    inputs = keras.Input((None, 3), dtype="int32", ragged=True)
    x = InstanceWise(keras.layers.Embedding(30, 4), name="words")(inputs)
    x = BagLayer(5, activation="tanh", aggregation="mean")(InstanceWise(keras.layers.Flatten())(x))
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile("adam", "binary_crossentropy")
    bags = bags_of_trigrams().merge_dims(1, 2)
    found, h, predict, _ = perturbations(model, "words", bags)
    assert h.shape == found.shape == (*bags.flat_values.shape, 4)
    np.testing.assert_allclose(np.sqrt(np.square(found).sum((1, 2))), EPSILON, rtol=1e-3)
    with tf.GradientTape() as tape:
        r = tf.Variable(0.01 * found)
        tape.watch(r)
        outputs = predict(r)
    # All of a bag's instances move its output the same way.
    gain = np.sign((tape.gradient(outputs, r).numpy() * found).sum((1, 2)))
    for bag in np.split(gain, bags.row_splits[1:-1].numpy()):
        assert abs(bag.sum()) == len(bag)
    y = np.resize([1, 0, -1], len(bags.to_list()))
    assert np.isfinite(one_step(adversarial(model, layer="words"), bags, y)["adversarial_loss"])


@pytest.mark.slow
def test_direction_is_worse_than_random_ones():
    model = zoo.imdb_mmil(30, filters=8, bag_units=(8, 8))
    found, h, predict, loss = perturbations(model, "word_vectors", bags_of_trigrams())
    p = predict().numpy()

    def divergence(perturbation):
        q = predict(perturbation).numpy()
        return np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))

    np.testing.assert_allclose(loss, divergence(found), rtol=1e-3)
    rng = np.random.default_rng(1)
    others = []
    for _ in range(20):
        random = rng.normal(size=h.shape).astype("float32")
        norms = np.linalg.norm(found, axis=1, keepdims=True)  # 0 of words that do not matter
        others.append(divergence(norms * random / np.linalg.norm(random, axis=1, keepdims=True)))
    assert divergence(found) > 2 * max(others)


# Training ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_weight_0_is_plain_training(compressed):
    x, y = bags_of_trigrams(), np.arange(12) % 2
    x = x.with_flat_values(x.flat_values[:, 0])
    models = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        inputs = bag_inputs(2)
        ids, *levels = Distinct()(inputs)
        rows = keras.layers.Embedding(30, 4, name="h")(ids)
        for level in levels:
            rows = BagLayer(4)(rows, *level)
        models.append(keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(rows)))
        models[-1].compile("adam", "binary_crossentropy", metrics=["accuracy"])
    x = Bags.from_ragged(x) if compressed else x
    vat = adversarial(models[1], weight=0.0)
    for _ in range(4):
        plain, logs = one_step(models[0], x, y), one_step(vat, x, y)
        np.testing.assert_allclose(logs["supervised_loss"], plain["loss"], rtol=1e-5)
        np.testing.assert_allclose(logs["accuracy"], plain["accuracy"])
        assert_same_weights(*models)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("units", [1, 2])
def test_unlabelled_rows_are_not_in_the_supervised_term(units, weighted):
    x, y = data()
    weights = (np.linspace(0.5, 2, 8),) if weighted else ()
    labelled = np.array([1, 0, 1, 1, 0, 0, 1, 1], bool)
    plain, model = linear_model(units), linear_model(units)
    known = (part[labelled] for part in (x, y, *weights))
    expected = one_step(plain, *known)
    logs = one_step(adversarial(model, weight=0.0), x, np.where(labelled, y, -1), *weights)
    assert_same_weights(plain, model)
    np.testing.assert_allclose(logs["supervised_loss"], expected["loss"], rtol=1e-5)


@pytest.mark.slow
def test_metrics_count_labelled_rows():
    (x, y), model = data(), linear_model(weighted_metrics=["mae"])
    y[[0, 3, 4]] = -1
    p = model.predict(x, verbose=0)[:, 0]
    weights = np.linspace(0.5, 2, 8)
    logs = one_step(adversarial(model), x, y, weights)
    known = y >= 0
    accuracy = np.mean((p > 0.5)[known] == y[known])
    assert accuracy != np.mean((p > 0.5) == y)
    np.testing.assert_allclose(logs["accuracy"], accuracy)
    error = np.average(np.abs(p - y)[known], weights=weights[known])
    np.testing.assert_allclose(logs["mae"], error, rtol=1e-5)


@pytest.mark.slow
def test_a_batch_without_labels():
    (x, _), model = data(), linear_model()
    before = model.get_weights()
    logs = one_step(adversarial(model, weight=3.0), x, np.full(8, -1))
    assert logs["supervised_loss"] == logs["accuracy"] == 0
    np.testing.assert_allclose(logs["loss"], 3 * logs["adversarial_loss"])
    assert logs["loss"] > 0
    assert all(np.isfinite(w).all() for w in model.get_weights())
    assert not np.allclose(before[0], model.get_weights()[0])


@pytest.mark.graphs  # which draw other random numbers
@pytest.mark.slow
def test_dropout_is_the_same_in_all_passes_of_a_step():
    x, y = data()
    model = linear_model(dropout=0.5, optimizer=keras.optimizers.SGD(0.0))
    p, q = (np.clip(model(x, training=True), 1e-6, 1 - 1e-6) for _ in range(2))
    by_dropout = np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))
    vat = adversarial(model, epsilon=1e-5)
    steps = [one_step(vat, x, y) for _ in range(3)]
    assert by_dropout > 1e-2
    for step in steps:
        assert abs(step["adversarial_loss"]) < 1e-5
    assert len({step["supervised_loss"] for step in steps}) == 3  # other masks in each


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param("float32", marks=[pytest.mark.graphs, pytest.mark.nightly]),
        pytest.param("mixed_float16", marks=pytest.mark.graphs),
        "float64",
    ],
)
def test_logs(policy):
    keras.config.set_dtype_policy(policy)
    try:
        (x, y), model = data(), linear_model()
    finally:
        keras.config.set_dtype_policy("float32")
    y[:3] = -1
    logs = adversarial(model, weight=2.5).fit(
        x, y, validation_data=(x[3:], y[3:]), batch_size=8, epochs=2, verbose=0
    )
    terms = {"accuracy", "loss", "supervised_loss", "adversarial_loss"}
    assert logs.history.keys() == terms | {"val_loss", "val_accuracy"}
    loss, supervised, term = (
        np.array(logs.history[name]) for name in ("loss", "supervised_loss", "adversarial_loss")
    )
    np.testing.assert_allclose(loss, supervised + 2.5 * term, rtol=1e-5)
    assert (term > 0).all()
    expected = model.evaluate(x[3:], y[3:], verbose=0)
    np.testing.assert_allclose([logs.history["val_loss"][-1], expected[0]], expected[0], rtol=1e-4)


@pytest.mark.slow
def test_saves_the_plain_model_with_its_optimizer(tmp_path):
    (x, y), model = data(), linear_model(optimizer="adam")
    vat = adversarial(model, weight=0.0)
    vat.fit(x, y, epochs=3, batch_size=4, verbose=0)
    vat.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is keras_mmil.Model
    assert loaded.name == model.name
    assert int(loaded.optimizer.iterations) == 6
    np.testing.assert_allclose(loaded.predict(x, verbose=0), vat.predict(x, verbose=0), rtol=1e-6)
    resumed = adversarial(loaded, weight=0.0)
    for each in (vat, resumed):
        each.fit(x, y, epochs=2, shuffle=False, batch_size=4, verbose=0)
    assert int(loaded.optimizer.iterations) == 10
    assert_same_weights(loaded, model)  # only if Adam's moments were saved


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"layer": "g"}, r"called once.*'h'.*layer='g', called 0 times"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"xi": -0.1}, "xi=-0.1"),
        ({"iterations": 0}, "iterations=0"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        adversarial(linear_model(), **arguments)


def test_bad_models():
    model = linear_model()
    with pytest.raises(ValueError, match="y=None"):
        adversarial(model).fit(data()[0], verbose=0)
    with pytest.raises(ValueError, match=f"a compiled model. Received: model='{model.name}'"):
        adversarial(keras_mmil.Model(model.inputs, model.outputs, name=model.name))
    h = model.get_layer("h").output
    both = [model.output, keras.layers.Dense(1, activation="sigmoid")(h)]
    for outputs, match in ((h, "1 outputs.*activation=<function linear"), (both, "2 outputs")):
        other = keras_mmil.Model(model.inputs, outputs)
        other.compile("sgd", "mse")
        with pytest.raises(ValueError, match=match):
            adversarial(other)

"""Training in half precision, and with several steps in one execution."""

import keras
import numpy as np
import pytest
from record_networks import random_customers

import keras_mmil
from keras_mmil import Bags, ragged, zoo
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, aggregations, bag_inputs
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels

UNITS = 2 * len(aggregations.NAMES)
N = 18


BFLOAT16, FLOAT16 = "mixed_bfloat16", "mixed_float16"
at_night = pytest.mark.nightly


@pytest.fixture(params=[BFLOAT16, FLOAT16])
def policy(request):
    """The policy that models are built with."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


def points():
    """Points in sub-bags in top-bags, some of them empty; and labels: whether some point is far."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 4, N)
    members = rng.integers(0, 4, sizes.sum())
    values = rng.normal(size=(members.sum(), 3)).astype("float32")
    far = np.repeat(np.repeat(np.arange(N), sizes), members)[values[:, 0] > 0.5]
    return ragged.from_flat(values, (sizes, members)), np.isin(np.arange(N), far).astype(int)


def ids(x):
    numbers = np.digitize(x.flat_values[:, 0], [-1, 0, 0.5]).astype("int32")
    return Bags.from_ragged(x.with_flat_values(numbers))


def on_points():
    bags = keras.Input((None, None, 3), ragged=True)
    x = InstanceWise(keras.layers.Dense(4, activation="tanh"))(bags)
    for _ in range(2):
        x = BagLayer(UNITS, aggregation=aggregations.NAMES)(x)
    return compiled_model(bags, x)


def on_ids():
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    x = keras.layers.Embedding(5, 4)(x)
    for members, weights in levels:
        x = BagLayer(UNITS, aggregation=aggregations.NAMES)(x, members, weights)
    return compiled_model(inputs, x)


def compiled_model(inputs, x, **arguments):
    outputs = keras.layers.Dense(1, activation="sigmoid", dtype="float32")(x)
    model = keras_mmil.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", **arguments)
    return model


def trained(model, x, y):
    """The losses of a training in which nothing became infinite."""
    losses = model.fit(x, y, batch_size=6, epochs=5, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    for variable in model.weights:
        assert variable.dtype == "float32" or not variable.trainable
        assert np.isfinite(variable.numpy()).all()
    return losses


@pytest.mark.eager
@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "policy"),
    [
        (on_points, BFLOAT16),
        (on_ids, FLOAT16),
        pytest.param(on_points, FLOAT16, marks=at_night),
        pytest.param(on_ids, BFLOAT16, marks=at_night),
    ],
    indirect=["policy"],
)
def test_networks_train_in_half_precision(build, policy):
    """With all aggregations."""
    x, y = points()
    model = build()
    half = policy.removeprefix("mixed_")
    bag_layers = [layer for layer in model.layers if isinstance(layer, BagLayer)]
    assert {layer.output.dtype for layer in bag_layers} == {half}
    losses = trained(model, x if build is on_points else ids(x), y)
    assert min(losses[-2:]) < losses[0]
    is_scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert is_scaled == (half == "float16")


@pytest.mark.eager
@pytest.mark.slow
@pytest.mark.parametrize("policy", [pytest.param(BFLOAT16, marks=at_night), FLOAT16], indirect=True)
def test_networks_for_records_train_in_half_precision(policy):
    schema = Schema.infer(random_customers(40, seed=1))
    x, y = schema.read(random_customers(N)), np.arange(N) % 2
    losses = trained(zoo.records_model(schema, Labels("classes", 2), units=4, seed=0), x, y)
    assert min(losses[-2:]) < losses[0]


@pytest.mark.slow
def test_several_steps_in_one_execution_make_no_difference():
    """The last execution of an epoch has fewer of them, and the last batch fewer top-bags."""
    x, y = points()
    weights = []
    for n_steps in (1, 2):
        keras.utils.set_random_seed(0)
        bags = keras.Input((None, None, 3), ragged=True)
        model = compiled_model(bags, BagLayer(4)(BagLayer(4)(bags)), steps_per_execution=n_steps)
        history = model.fit(x, y, batch_size=7, epochs=3, shuffle=False, verbose=0).history
        weights.append([*model.get_weights(), history["loss"], model.predict(x, verbose=0)])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_networks_of_the_zoo_yield_float32(policy):
    """In half precision a probability near 1 would be 1, at which the loss has no gradient."""
    model = zoo.mnist_mmil(filters=(2, 2), dense_units=4, bag_units=(3, 3))
    assert model.output.dtype == "float32"
    assert model.get_layer("bag_layer_2").output.dtype == policy.removeprefix("mixed_")

"""Networks for "a 0 and no 2": of output level, which fail, and of representation level.

Paper, section "Multi-Instance Neural Networks", after Ramon and De Raedt.
"""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import zoo
from keras_mmil.datasets.synthetic import points
from keras_mmil.testing import assert_close

pytestmark = pytest.mark.graphs  # trainings of many steps


def accuracy(model, x, y):
    return model.evaluate(x, y, verbose=0, return_dict=True)["accuracy"]


@functools.cache
def zero_and_no_two():
    return points.load_zero_and_no_two(n_train=500, n_valid=1, n_test=1000, instance_labels=True)


def test_output_level_network_is_the_smooth_maximum_of_ramon_and_de_raedt():
    model = zoo.output_level_mil(2, sharpness=3.0)
    x = zero_and_no_two()[0][0][:5]
    f = model.get_layer("instances").layer
    logits = [np.log(np.exp(3.0 * f(bag).numpy()[:, 0].astype("float64")).sum()) / 3 for bag in x]
    assert_close(model(x)[:, 0], 1 / (1 + np.exp(-np.array(logits))))


def test_output_of_a_smooth_maximum_grows_with_the_bag():
    """So it cannot be that {0} is positive and {0, 2} is not."""
    model = zoo.output_level_mil(2)
    x = zero_and_no_two()[0][0]
    further = np.random.default_rng(0).standard_normal((500, 1, 2)).astype("float32")
    larger = tf.concat([x, further], axis=1)
    assert (model(larger) > model(x)).numpy().all()


@pytest.mark.slow
@pytest.mark.parametrize("sharpness", [1.0, pytest.param(10.0, marks=pytest.mark.nightly)])
def test_output_level_network_cannot_solve_a_zero_and_no_two(sharpness):
    (x, y, _), _, (x_test, y_test, z_test) = zero_and_no_two()
    model = zoo.output_level_mil(2, sharpness=sharpness)
    model.fit(x, y, epochs=12, batch_size=20, verbose=0)
    # Whatever f is, the smooth maximum weighs the labels in a bag by factors ≥ 0, and compares.
    counts = np.stack([(z_test == label).to_tensor().numpy().sum(1) for label in range(3)], axis=1)
    weights = np.array(list(itertools.product([0, 0.2, 0.5, 1, 2, 5], repeat=3)))
    sums = counts @ weights.T  # (bags, weightings)
    best = max(((sums >= limit) == y_test[:, None]).mean(0).max() for limit in np.unique(sums))
    assert best < 0.8
    assert accuracy(model, x_test, y_test) < 0.8


@pytest.mark.slow
def test_bag_layer_of_two_units_solves_a_zero_and_no_two():
    (x, y, _), _, (x_test, y_test, _) = zero_and_no_two()
    model = zoo.representation_level_mil(2, bag_units=2)
    # One unit to speak for, and one against: with equal signs at the start, two are too few to
    # always find their way.
    model.get_layer("label").set_weights([np.array([[1.0], [-1.0]]), np.zeros(1)])
    model.fit(x, y, epochs=15, batch_size=20, verbose=0)
    assert accuracy(model, x_test, y_test) >= 0.97

"""A network's outputs in one graph, against `predict` of the model."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from bag_forms import BATCH, FORMS, N, compressed_model, ids, packed, plain_model, vectors

from keras_mmil.distributed.forward import Forward


@pytest.mark.parametrize("form", FORMS)
def test_outputs_are_those_of_predict(form):
    make_model, make_data = FORMS[form]
    model, x = make_model(), make_data()
    for batch_size in (BATCH, N, 1000):
        found = Forward(model)(x, batch_size)
        np.testing.assert_array_equal(found, model.predict(x, batch_size=batch_size, verbose=0))


@pytest.mark.graphs
def test_a_graph_is_traced_once_for_all_sizes():
    forward, traced = Forward(compressed_model()), []
    computed = forward._computed
    forward._computed = lambda x: traced.append(1) or computed(x)
    for x in (ids(), ids(1), ids(2, n=5)):
        forward(x, BATCH)
    assert len(traced) == 1
    forward(packed(), BATCH)  # which has other inputs
    forward(packed(3), BATCH)
    assert len(traced) == 2


def test_any_functional_model():
    inputs = keras.Input((None, None, 2), ragged=True)
    model = keras.Model(inputs, keras.layers.Dense(1)(plain_model()(inputs)))
    x = vectors()
    expected = model(x, training=False)
    np.testing.assert_allclose(Forward(model)(x, N), expected, rtol=1e-6)


def test_data_are_checked():
    x = vectors()
    broken = x.with_flat_values(tf.fill(tf.shape(x.flat_values), np.nan))
    with pytest.raises(ValueError, match="finite"):
        Forward(plain_model())(broken, BATCH)
    with pytest.raises(ValueError, match="ids below 9"):
        Forward(compressed_model())(ids() + 5, BATCH)

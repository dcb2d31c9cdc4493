"""Networks are told apart by what they compute, not by names."""

import keras
import numpy as np
import pytest

from keras_mmil._support.digests import fingerprint
from keras_mmil.layers import BagLayer


def network(**arguments):
    bags = keras.Input((None, 3), ragged=True)
    settings = {"activation": "relu", "aggregation": "max", "kernel_initializer": "ones"}
    return keras.Model(bags, BagLayer(4, **{**settings, **arguments})(bags))


@pytest.mark.parametrize(
    "changed", [{"activation": "tanh"}, {"aggregation": "mean"}, {"kernel_initializer": "zeros"}]
)
def test_what_is_computed_matters(changed):
    assert fingerprint(network()) != fingerprint(network(**changed))


def test_names_do_not_matter():
    assert fingerprint(network()) == fingerprint(network(name="other"))


def test_each_weight_matters():
    model = network()
    before = fingerprint(model)
    for i, values in enumerate(model.get_weights()):
        changed = model.get_weights()
        changed[i] = np.nextafter(values, 2, dtype=np.float32)
        one = network()
        one.set_weights(changed)
        assert fingerprint(one) != before

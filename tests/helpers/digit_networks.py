"""Networks whose weights are set by hand, so that they compute known rules about digits."""

import keras
import numpy as np
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, Distinct, bag_inputs
from keras_mmil.rules import Explainer

N_DIGITS = 4  # a sub-bag is positive iff it holds a 3 and no 2


def set_rule_weights(first, second, output):
    """A top-bag is positive iff some sub-bag holds a 3 and no 2."""
    zeros = np.zeros(N_DIGITS)
    identity = np.eye(*first.kernel.shape)
    first.set_weights([identity, zeros, zeros, *first.get_weights()[3:]])
    kernel = np.zeros((N_DIGITS, N_DIGITS))
    kernel[3, 0], kernel[2, 0] = 5, -5  # unit 0: a 3 and no 2
    second.set_weights([kernel, zeros, zeros])
    output.set_weights([np.array([[4.0], [0], [0], [0]]), np.array([-10.0])])


def plain_model(aggregation="max"):
    """Reads one-hot vectors, [batch, (n), (m), 4]."""
    inputs = keras.Input((None, None, N_DIGITS), ragged=True)
    first = BagLayer(N_DIGITS, aggregation=aggregation)
    second, output = BagLayer(N_DIGITS), keras.layers.Dense(1, activation="sigmoid")
    model = keras_mmil.Model(inputs, output(second(first(inputs))))
    set_rule_weights(first, second, output)
    return model


def compressed_model(aggregation="max"):
    """The same for ids, plain or compressed."""
    inputs = bag_inputs(2)
    rows, sub_bags, top_bags = Distinct()(inputs)
    one_hot = keras.layers.CategoryEncoding(N_DIGITS, output_mode="one_hot")(rows)
    first = BagLayer(N_DIGITS, aggregation=aggregation)
    second, output = BagLayer(N_DIGITS), keras.layers.Dense(1, activation="sigmoid")
    model = keras_mmil.Model(inputs, output(second(first(one_hot, *sub_bags), *top_bags)))
    set_rule_weights(first, second, output)
    return model


def random_ids(n, seed=0, smallest=1):
    rng = np.random.default_rng(seed)
    bags = rng.integers(1, 5, n)
    sub_bags = rng.integers(smallest, 5, bags.sum())
    return ragged.from_flat(rng.integers(0, N_DIGITS, sub_bags.sum()), [bags, sub_bags])


def vectors(ids):
    """A vector for each id, those of 0 and 1 alike; with noise, so that many are distinct."""
    ids = ids.with_values(ids.values.with_row_splits_dtype(tf.int64))
    table = np.eye(N_DIGITS)
    table[1] = [0.8, 0.2, 0, 0]
    noise = np.random.default_rng(7).normal(scale=0.02, size=(ids.flat_values.shape[0], N_DIGITS))
    return ids.with_flat_values((table[ids.flat_values] + noise).astype(np.float32))


def truth(ids):
    return np.array([any(3 in s and 2 not in s for s in top) for top in ids.to_list()], int)


def explainer(**arguments):
    return Explainer(**{"max_clusters": 4, "verbose": 0, **arguments})

"""Networks with symbols, made from trained ones; and their rules."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from digit_networks import compressed_model, plain_model, random_ids, truth, vectors

from keras_mmil import Bags, Explainer
from keras_mmil.layers import BagLayer
from keras_mmil.rules import symbolize
from keras_mmil.rules.network.capture import Network


def trained(x, y):
    inputs = keras.Input((None, None, 4), ragged=True)
    h = BagLayer(6, aggregation=("max", "mean"), name="inner")(inputs)
    h = BagLayer(6, aggregation=("max", "mean"), name="outer")(h)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(h))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=60, verbose=0)
    return model


@pytest.fixture(scope="module")
def made():
    """Data, a trained network, and one with symbols."""
    keras.utils.set_random_seed(0)
    ids = random_ids(300)
    x, y = vectors(ids), truth(ids)
    model = trained(x, y)
    before = [w.copy() for w in model.get_weights()]
    readable = symbolize(model, x, y, k=5, epochs=40, verbose=0)
    for old, now in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, now)  # it is left as it is
    return x, y, model, readable


@pytest.mark.slow
def test_the_network_is_as_accurate_and_its_bags_hold_symbols(made):
    x, y, model, readable = made
    accuracies = [each.evaluate(x, y, verbose=0)[1] for each in (model, readable)]
    assert accuracies[0] > 0.95
    assert accuracies[1] > accuracies[0] - 0.02
    network = Network(readable)
    assert [book.shape for book in network.codebooks] == [(5, 6), (5, 6)]
    (seen,) = network.batches([x])
    for representations, book in zip(seen.representations, network.codebooks, strict=True):
        rows = {row.tobytes() for row in representations}
        assert 1 < len(rows) <= 5
        assert rows <= {row.tobytes() for row in book}
    new_x, new_y = vectors(random_ids(200, seed=1)), truth(random_ids(200, seed=1))
    assert readable.evaluate(new_x, new_y, verbose=0)[1] > 0.9


@pytest.mark.slow
def test_rules_name_the_symbols_and_nothing_is_clustered(made):
    x, _, _, readable = made
    explainer = Explainer(max_clusters=2, verbose=0).fit(readable, x[:200], x[200:])
    assert len(explainer.grid_) == 1  # no search, whatever `max_clusters` is
    network = Network(readable)
    (seen,) = network.batches([x[:200]])
    for i, clusters in enumerate(explainer.clusters_):
        layer = network.layers[i]
        used = np.unique(layer.symbols.ids(tf.constant(seen.representations[i])).numpy())
        assert clusters.n_clusters == len(used)
        book = {row.tobytes() for row in network.codebooks[i]}
        assert {row.tobytes() for row in clusters.centroids} <= book
        assert (np.diff(clusters.sizes) <= 1e-9).all()  # the most frequent first
    assert explainer.fidelity_ > 0.97
    stable = explainer.stability(n=3)
    assert min(stable.agreements) > 0.9
    assert stable.dice > 0.5  # symbols stay, only the trees are grown again


def test_symbols_of_equal_rows_are_these_rows():
    """No more than there are: four kinds of instances, and two kinds of sub-bags."""
    ids = random_ids(60)
    model = compressed_model()
    model.compile("adam", "binary_crossentropy")
    y = truth(ids)
    readable = symbolize(model, ids, y, k=50, epochs=1, verbose=0)
    assert [layer.symbols.k for layer in Network(readable).layers] == [4, 2]
    assert readable.history.history.keys() == {"loss", "val_loss"}  # metrics are for labels
    assert readable.evaluate(ids, y, verbose=0, return_dict=True).keys() == {"loss"}
    assert readable.optimizer.learning_rate.numpy() == pytest.approx(1e-3)
    assert readable.name == model.name


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        ("sparse_categorical_crossentropy", np.arange(40) % 3),
        ("categorical_crossentropy", np.eye(3)[np.arange(40) % 3]),
        (keras.losses.SparseCategoricalCrossentropy(), np.arange(40) % 3),
        (keras.losses.CategoricalCrossentropy(label_smoothing=0.1), np.eye(3)[np.arange(40) % 3]),
    ],
)
def test_classes_in_any_form(loss, y):
    inputs = keras.Input((None, 4), ragged=True)
    bag = BagLayer(8, name="bag")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(bag))
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=["accuracy"])
    x = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    x = tf.RaggedTensor.from_row_lengths(x, [3] * 40)
    readable = symbolize(model, x, y, k=200, epochs=1, verbose=0, validation_split=0.25)
    k = readable.get_layer("bag").symbols.k
    assert 60 < k <= 90  # rows of relu may be equal: a symbol for each of three quarters
    loss, accuracy = readable.evaluate(x[:30], y[:30], verbose=0)
    expected = model.evaluate(x[:30], y[:30], verbose=0)
    assert [loss, accuracy] == pytest.approx(expected, rel=1e-3)  # nothing was lost nor learned


def test_compressed_bags():
    bags = Bags.from_ragged(random_ids(60))
    model = compressed_model()
    model.compile("adam", "binary_crossentropy")
    y = truth(random_ids(60))
    readable = symbolize(model, bags, y, k=3, epochs=1, verbose=0)
    assert np.isfinite(readable.predict(bags, verbose=0)).all()


def test_only_some_bag_layers_get_symbols():
    ids = random_ids(60)
    model = plain_model()
    model.compile("adam", "binary_crossentropy")
    names = [layer.name for layer in Network(model).layers]
    x, y = vectors(ids), truth(ids)
    readable = symbolize(model, x, y, {names[1]: 3}, epochs=1, verbose=0)
    assert [layer.symbols is None for layer in Network(readable).layers] == [True, False]
    with pytest.raises(ValueError, match=rf"without symbols.*{names[1]}"):
        symbolize(readable, x, y, verbose=0)
    explainer = Explainer(max_clusters=4, verbose=0).fit(readable, x)
    assert explainer.n_clusters_[1] <= 3


@pytest.mark.parametrize(
    ("k", "error"), [({"other": 3}, "'other'"), (0, "k=0"), ({"bag_layer": 0}, "k=0|'bag_layer'")]
)
def test_refused(k, error):
    model = plain_model()
    with pytest.raises(ValueError, match="compiled"):
        symbolize(model, vectors(random_ids(5)), np.zeros(5), k)
    model.compile("adam", "binary_crossentropy")
    with pytest.raises(ValueError, match="validation_split=1"):
        symbolize(model, vectors(random_ids(5)), np.zeros(5), validation_split=1)
    with pytest.raises(ValueError, match=error):
        symbolize(model, vectors(random_ids(5)), np.zeros(5), k)

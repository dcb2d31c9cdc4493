"""The networks for citations and for social networks."""

import keras
import numpy as np

import keras_mmil
from keras_mmil import ragged, zoo
from keras_mmil.datasets import synthetic


def test_citation_arguments():
    network = synthetic.load_citations(n_papers=60)
    model = zoo.citation_mmil(network, aggregation="mean", bag_units=(5, 6), l2=0.5, dropout=0.25)
    names = ["bag_layer_1", "bag_layer_2", "label"]
    kernels = [model.get_layer(name).kernel for name in names]
    assert [tuple(kernel.shape) for kernel in kernels] == [(60, 5), (5, 6), (6, 3)]
    expected = 0.5 * sum(float((kernel.numpy() ** 2).sum()) for kernel in kernels)
    np.testing.assert_allclose(float(sum(model.losses)), expected, rtol=1e-5)
    assert {model.get_layer(f"dropout_{level}").rate for level in (1, 2)} == {0.25}
    assert zoo.citation_mil(network).get_layer("bag_layer_1").units == 250


LAYERS = ("degrees", "bag_layer_1", "bag_layer_2", "label")


def test_social_network_is_the_papers():
    networks = synthetic.load_networks(6)
    model = zoo.social_mmil(networks)
    assert type(model.get_layer("degrees")).__name__ == "Dense"
    assert model.get_layer("degrees").units == 500
    bag_layers = [layer for layer in model.layers if hasattr(layer, "aggregations")]
    for layer in bag_layers:
        assert layer.units == 500
        assert [each.name.partition("_")[0] for each in layer.aggregations] == ["max", "mean"]
    assert len(bag_layers) == 2
    assert model.output_shape == (None, 2)
    assert model.layers[-1].activation is keras.activations.linear
    # A star of four, and two nodes that are linked: by hand, in one number for each bag.
    degrees = ragged.from_nested_lists([[[3, 1, 1, 1], [1, 3], [1, 3], [1, 3]], [[1, 1], [1, 1]]])
    table = keras_mmil.builders.graphs.degree_features(int(networks.degrees.max()))
    np.testing.assert_array_equal(model.get_layer("degree_features").get_weights()[0], table)

    def by_hand(graph):
        dense, first, second, last = (model.get_layer(n) for n in LAYERS)
        relu = lambda layer, x: np.maximum(x @ layer.kernel.numpy() + layer.bias.numpy(), 0)  # noqa: E731
        pool = lambda x: np.concatenate([x[:, :250].max(0), x[:, 250:].mean(0)])  # noqa: E731
        nodes = [pool(relu(first, relu(dense, table[bag]))) for bag in graph]
        return pool(relu(second, np.stack(nodes))) @ last.kernel.numpy() + last.bias.numpy()

    expected = [by_hand(graph) for graph in degrees.to_list()]
    np.testing.assert_allclose(model.predict(degrees, verbose=0), expected, atol=1e-5)

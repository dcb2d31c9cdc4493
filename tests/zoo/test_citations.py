"""The networks for papers."""

import numpy as np

from keras_mmil import zoo
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

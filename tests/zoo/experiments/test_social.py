"""The experiment on social networks."""

import keras
import numpy as np
import pytest

from keras_mmil import zoo


@pytest.mark.parametrize("name", ["imdb-binary", "imdb-multi"])
def test_social_networks_with_dropout(name):
    """Those of casts; they have the same weights."""
    data = zoo.registry[name].load(source="synthetic", limit=4)
    model = zoo.registry[name].build(**data.build_arguments)
    plain = zoo.registry["collab"].build(**data.build_arguments)
    rates = [layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
    assert rates == [0.5, 0.5]
    assert not any(isinstance(layer, keras.layers.Dropout) for layer in plain.layers)
    plain.set_weights(model.get_weights())
    x = data.train[0]
    np.testing.assert_allclose(plain.predict(x, verbose=0), model.predict(x, verbose=0))
    assert zoo.registry[name].schedule(100)(50) == pytest.approx(0.0005)


def test_what_is_reported_of_social_networks(reported):
    data = zoo.registry["imdb-binary"].load(source="synthetic", limit=4)
    report = reported(data)
    x, show = report.clusters.call_args.args
    assert report.explanations.call_args.args == (x, show)
    degrees, counts = (part[2].to_list()[0] for part in (x.bags, x.counts))
    written = [f"{d} (×{n:g})" if n > 1 else f"{d}" for d, n in zip(degrees, counts, strict=True)]
    more = ", …" if len(written) > 6 else ""
    assert show((2, 0)) == f"with degrees {', '.join(written[:6])}{more}"
    assert show((2, 0, 0)) == f"degree {degrees[0]}"
    assert show((2,)).startswith("graph ")

"""The rows that stand for clusters, compared with a loop."""

import keras
import numpy as np
import pytest
from digit_networks import explainer

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer


@pytest.mark.parametrize("by", ["separation", "closeness"])
def test_representatives(by):
    keras.utils.set_random_seed(5)
    inputs = keras.Input((None, 2), ragged=True)
    model = keras_mmil.Model(
        inputs, keras.layers.Dense(1, activation="sigmoid")(BagLayer(4)(inputs))
    )
    rng = np.random.default_rng(0)
    values = rng.normal(size=(90, 2)).astype(np.float32)
    x = ragged.from_flat(np.repeat(values, 2, axis=0), [np.full(60, 3)])  # each instance twice
    fit = explainer(n_clusters=3, validation_fraction=0.5).fit(model, x)
    rho = model.layers[1].represent(x).flat_values.numpy()
    scores = []
    for index, row in enumerate(rho):
        distances = [float(np.linalg.norm(row - c)) for c in fit.clusters_[0].centroids]
        if int(np.argmin(distances)) == 1:
            others = min(d for c, d in enumerate(distances) if c != 1)
            position = (index // 3, index % 3)
            scores.append((-others if by == "separation" else distances[1], position, others))
    scores = [s for s in sorted(scores) if (s[1][0] * 3 + s[1][1]) % 2 == 0]  # the first of each
    found = fit.representatives(x, 0, 1, n=5, by=by)
    np.testing.assert_allclose([r.separation for r in found], [s[2] for s in scores[:5]], rtol=1e-4)
    assert [r.position for r in found] == [s[1] for s in scores[:5]]
    assert len(fit.representatives(x, "u", "u2", n=1000, by=by)) == len(scores)
    for match, arguments in {
        "by='best'": (0, 0, 3, "best"),
        "level='v'": ("v", 0),
        "level=1": (1, 0),
        "cluster=3": (0, 3),
        "cluster='u9'": (0, "u9"),
        "n=0": (0, 0, 0),
    }.items():
        with pytest.raises(ValueError, match=match):
            fit.representatives(x, *arguments)

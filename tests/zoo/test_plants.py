"""Networks for floras, against NumPy."""

import keras
import numpy as np
import pytest

from keras_mmil import datasets, zoo

FLORA = datasets.synthetic.load_flora(n_regions=(5, 6), n_species=9, seed=0)
X = {"species": FLORA.seen_species(), "nearby": FLORA.nearby_regions(4)}
Y = FLORA.presence.astype(int)
SIZES = {"bag_units": 6, "dense_units": 7}


def expected(model, told):
    """What the network makes of regions of which it is told these species."""
    weights = {layer.name: layer.get_weights() for layer in model.layers}
    seen, nearby = FLORA.presence.astype(float), X["nearby"].to_tensor().numpy()
    kernel, bias, _ = weights["bag_layer_nearby"]
    mean = np.maximum(seen[nearby] @ kernel + bias, 0).mean(axis=1)
    kernel, bias = weights["dense"]
    x = np.maximum(np.concatenate([mean, told], axis=1) @ kernel + bias, 0)
    kernel, bias = weights["label"]
    return 1 / (1 + np.exp(-x @ kernel - bias))


def test_regions_of_species_and_of_nearby_regions():
    keras.utils.set_random_seed(0)
    model = zoo.plants_nearby(FLORA, **SIZES)
    assert not FLORA.presence.any(axis=1).all()  # regions without species, too
    found = model.predict(X, verbose=0)
    np.testing.assert_allclose(found, expected(model, FLORA.presence), rtol=1e-4)


@pytest.mark.parametrize("species_dropout", [0.0, 0.5])
def test_only_what_is_not_told_is_learned(species_dropout):
    """The loss is that of the species that were left out, and of those that were not seen."""
    keras.utils.set_random_seed(1)
    model = zoo.plants_nearby(FLORA, **SIZES, species_dropout=species_dropout, dropout=0.0)
    inner = keras.Model(model.inputs, [model.get_layer("species_told").output, model.output])
    told, outputs = inner(X, training=True)
    assert (told.numpy() <= Y).all()
    is_left_out = told.numpy() < Y
    assert is_left_out.any() == bool(species_dropout)
    found = expected(model, told.numpy())
    losses = -np.where(Y, np.log(found), np.log(1 - found))
    loss = np.where(told.numpy() > 0, 0, losses).mean()
    np.testing.assert_allclose(model.loss(Y, outputs).numpy().mean(), loss, rtol=1e-4)


def test_numbers_of_other_species_and_regions():
    model = zoo.plants_nearby(FLORA, **SIZES)
    for name, layer in (("species", "one_hot"), ("nearby", "species_nearby")):
        with pytest.raises(ValueError, match=f"number of ids of layer '{layer}'.*x\\['{name}'\\]"):
            model.predict({**X, name: X[name] + 30}, verbose=0)

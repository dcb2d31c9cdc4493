"""What the library draws at random depends on its seeds alone, and nobody else's numbers change."""

import contextlib
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged, zoo
from keras_mmil.layers import BagLayer
from keras_mmil.model.seeds import seeded
from keras_mmil.training import cross_validate, fit_resumable


def draws():
    """A number from each source that has a global state."""
    return (
        random.random(),
        np.random.random(),  # noqa: NPY002
        float(keras.random.normal(())),
        float(tf.random.normal(())),
    )


def draws_after(action, seed):
    keras.utils.set_random_seed(seed)
    draws()
    action()
    return draws()


def data(n=24):
    rng = np.random.default_rng(0)
    x = ragged.from_flat(rng.normal(size=(3 * n, 2)).astype("float32"), (np.full(n, 3),))
    return x, np.arange(n) % 2


@keras.saving.register_keras_serializable("tests")
class Noise(keras.layers.Layer):
    """Draws from Keras's global generator."""

    def call(self, x, training=False):
        return x + keras.random.normal(tf.shape(x)) if training else x


def build():
    bags = keras.Input((None, 2), ragged=True)
    x = keras.layers.Dropout(0.2)(Noise()(BagLayer(4)(bags)))
    model = keras_mmil.Model(bags, keras.layers.Dense(2, activation="softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], run_eagerly=True)
    return model


def test_a_block_has_the_numbers_of_its_seed_and_those_after_it_are_as_without_it():
    inside = []

    def block():
        with seeded(2**32 - 1):
            inside.append(draws())
            with seeded(1):
                draws()
            inside.append(draws())

    def broken():
        with contextlib.suppress(KeyError), seeded(5):
            draws()
            raise KeyError

    for seed in (3, 4):
        expected = draws_after(lambda: None, seed)
        assert draws_after(block, seed) == draws_after(broken, seed) == expected
    assert inside[:2] == inside[2:]
    keras.utils.set_random_seed(2**32 - 1)
    assert inside[0][:2] == draws()[:2]  # so that initial weights are those of this function


@pytest.mark.slow
def test_trainings_depend_on_their_seeds_alone(tmp_path):
    x, y = data()
    found = []

    def cross_validation():
        settings = {"epochs": 2, "batch_size": 8, "folds": 2, "rounds": 1, "verbose": 0}
        found.append(cross_validate(build, x, y, **settings).scores["loss"])

    def training():
        model, _ = fit_resumable(build, x, y, folder=tmp_path, epochs=2, verbose=0)
        found.append(np.concatenate([weight.ravel() for weight in model.get_weights()]))

    for action in (cross_validation, training):
        found.clear()
        for seed in (3, 4):
            assert draws_after(action, seed) == draws_after(lambda: None, seed)
        np.testing.assert_array_equal(*found)


class Killed(Exception):
    """Stands for a kill."""


class Kill(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise Killed


@pytest.mark.slow
def test_layers_without_a_generator_of_their_own_are_resumed_too(tmp_path):
    x, y = data()
    settings = {"epochs": 4, "batch_size": 8, "seed": 3, "verbose": 0}
    whole, _ = fit_resumable(build, x, y, folder=tmp_path / "whole", **settings)
    with pytest.raises(Killed):
        fit_resumable(build, x, y, folder=tmp_path / "killed", callbacks=[Kill()], **settings)
    resumed, _ = fit_resumable(build, x, y, folder=tmp_path / "killed", resume=True, **settings)
    for a, b in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The rules put every")
def test_explainers_depend_on_their_seed_alone():
    x, y = data()
    model = build()
    model.fit(x, y, epochs=2, verbose=0)
    found = []

    def read():
        explainer = keras_mmil.Explainer(max_clusters=3, random_state=1, verbose=0).fit(model, x)
        found.append([clusters.centroids for clusters in explainer.clusters_])

    for seed in (3, 4):
        assert draws_after(read, seed) == draws_after(lambda: None, seed)
    np.testing.assert_array_equal(*found)


# The first of each name: the others load the same data.
LOADED = {e.name: e for e in reversed(zoo.registry.values()) if e.sources[-1] != e.sources[0]}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADED)
def test_loaders_depend_on_their_seed_alone(name):
    experiment, found = LOADED[name], []

    def load():
        loaded = experiment.load(seed=1, limit=12, source=experiment.sources[-1], unlabelled=False)
        x = getattr(loaded.train[0], "inputs", loaded.train[0])
        found.append([part.numpy() for part in tf.nest.flatten(x, expand_composites=True)])

    for seed in (3, 4):
        assert draws_after(load, seed) == draws_after(lambda: None, seed)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)

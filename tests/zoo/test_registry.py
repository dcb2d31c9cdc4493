"""Every registered experiment is tested because it is registered."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import zoo
from keras_mmil.testing import predict_in_fresh_process


def different_models():
    """One experiment for each model: on embedded data, those of one model differ in their split."""
    first = {}
    for experiment in zoo.registry.values():
        build = getattr(experiment.build, "func", experiment.build)
        first.setdefault((build, experiment.model_name), experiment.key)
    return list(first.values())


def test_every_experiment_says_what_it_is():
    for key, experiment in zoo.registry.items():
        assert experiment.key == key
        assert experiment.title
        assert experiment.epochs > 0
        assert experiment.batch_size > 0
        assert all(0 < figure < 1 for figure in experiment.paper.values())
    # digits and texts, papers, people, clouds, plants
    assert len(different_models()) == 3 + 4 + 1 + 2 + 3


def once_in_graphs():
    """Digits are trained in graphs, the others eagerly; all in graphs in the night.

    Eagerly trained are those that the tests of the command line do not run.
    """
    traced = ("mnist",)
    run = ("imdb", "imdb-mil", "imdb-binary", "cora-mmil-mean-random", "cora-mmil-max-random")
    in_graphs = [pytest.mark.graphs]
    nightly = [*in_graphs, pytest.mark.nightly]
    others = [name for name in different_models() if name not in traced]
    return [
        *(pytest.param(name, marks=in_graphs, id=f"{name}-graphs") for name in traced),
        *(pytest.param(name, marks=nightly, id=f"{name}-graphs") for name in others),
        *(name for name in others if name not in run),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", once_in_graphs())
def test_experiment(name, tmp_path):
    experiment = zoo.registry[name]
    source = experiment.sources[-1]  # the embedded one
    data = experiment.load(seed=0, limit=30, source=source)
    (x, y, z), (x_valid, y_valid, _), (x_test, y_test, _) = data.train, data.valid, data.test
    assert len(y) == len(y_test) == 30
    assert len(y_valid) == (6 if name.startswith("modelnet") else 30)  # those are a part of `x`
    assert z is None or z.shape[0] == 30
    assert (data.whole is not None) == bool(experiment.folds)
    if data.whole is not None:
        assert [len(part) for part in data.whole[:2]] == [90, 90]
    model = experiment.build(**data.build_arguments)
    assert isinstance(model, keras_mmil.Model)
    before = [w.numpy() for w in model.trainable_weights]
    arguments = {**experiment.explainer, **data.explainer, "n_clusters": None, "verbose": 0}
    arguments["max_clusters"] = 3
    extractor = keras_mmil.RuleExtractor(x, validation_data=(x_valid, y_valid), **arguments)
    with warnings.catch_warnings():
        # One epoch may leave the network, and so the rules, with a single class.
        warnings.filterwarnings("ignore", message=".*one class")
        model.fit(
            x,
            y,
            batch_size=experiment.batch_size,
            validation_data=(x_valid, y_valid),
            callbacks=[extractor],
            verbose=0,
        )
    tf.config.run_functions_eagerly(True)  # what is trained has shown that it can be traced
    assert any((a != b.numpy()).any() for a, b in zip(before, model.trainable_weights, strict=True))
    explainer = extractor.explainer_
    assert 0 <= explainer.fidelity(x_test) <= 1
    assert explainer.rules_.to_dict()

    expected = model.predict(x_test, verbose=0)
    model.save(tmp_path / "model.keras")
    explainer.save(tmp_path / "rules")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x_test, verbose=0), expected)
    np.testing.assert_allclose(predict_in_fresh_process(model, x_test), expected, atol=1e-6)
    again = keras_mmil.Explainer.load(tmp_path / "rules", loaded)
    np.testing.assert_array_equal(again.predict(x_test), explainer.predict(x_test))

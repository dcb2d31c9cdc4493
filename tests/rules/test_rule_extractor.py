"""The callback that extracts rules in training."""

import csv

import keras
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from trainable_networks import make_data, make_model, median_target

from keras_mmil import batches
from keras_mmil.rules import RuleExtractor


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module")
def x():
    return make_data()[0]


def low(outputs):
    """A target for networks that are hardly trained: the lower half of the outputs."""
    return (outputs[:, 0] < np.median(outputs)).astype(int)


def test_extraction_at_the_end_of_training():
    (x, y), model = make_data(), make_model()
    extractor = RuleExtractor(x, validation_data=(x, y), max_clusters=3, target=low, verbose=0)
    with pytest.raises(NotFittedError, match="Received: explainer_=None"):
        _ = extractor.explainer_
    history = model.fit(x, y, epochs=1, verbose=0, callbacks=[extractor])
    assert "val_fidelity" not in history.history
    first = extractor.explainer_
    assert first.fidelity(x) == first.fidelity_
    model.fit(x, y, epochs=1, verbose=0, callbacks=[extractor])
    assert extractor.explainer_ is not first
    assert extractor.explainer_.fidelity(x) > 0.5


def test_extraction_every_few_epochs(tmp_path):
    (x, y), model = make_data(), make_model()
    extractor = RuleExtractor(x, x, every=2, n_clusters=3, target=low, verbose=0)
    log = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    callbacks = [extractor, log]
    logs = model.fit(x, y, epochs=4, verbose=0, callbacks=callbacks).history
    history = logs["val_fidelity"]
    np.testing.assert_array_equal(np.isnan(history), [True, False, True, False])
    assert history[3] == extractor.explainer_.fidelity_
    by_network = low(model.predict(x, verbose=0))
    assert logs["val_fidelity_majority"][3] == max(by_network.mean(), 1 - by_network.mean())
    with open(tmp_path / "log.csv", encoding="utf-8") as file:
        logged = [float(row["val_fidelity"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(logged, history)


def test_training_is_the_same_with_extraction(x):
    y = make_data()[1]
    target = median_target(make_model(), x)
    extractor = RuleExtractor(x, x, every=1, n_clusters=3, target=target, verbose=0)
    weights = []
    for callbacks in ([], [extractor]):
        model = make_model()
        model.fit(x, y, epochs=2, verbose=0, callbacks=callbacks)
        weights.append([v.numpy() for v in (*model.variables, *model.optimizer.variables)])
    for plain, extracted in zip(*weights, strict=True):
        np.testing.assert_array_equal(plain, extracted)


def test_extraction_on_its_own(model, x):
    extractor = RuleExtractor(x, x, max_clusters=3, target=median_target(model, x), verbose=0)
    assert extractor.extract(model) is extractor.explainer_


def test_wrong_arguments_are_found_before_training(x):
    with pytest.raises(ValueError, match="Received: every=0"):
        RuleExtractor(x, every=0)
    with pytest.raises(TypeError, match="max_cluster"):
        RuleExtractor(x, max_cluster=3)
    for wrong in ({"n_init": 0}, {"metric": "cosine"}, {"max_rows": 1.5}, {"n_jobs": 0}):
        with pytest.raises(ValueError, match=f"Received: {next(iter(wrong))}="):
            RuleExtractor(x, **wrong)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_clusters": (3, 3)}, r"each of 1 bag-layers.*n_clusters=\(3, 3\)"),
        ({"features": "presence"}, "features='presence'"),
        ({"features": ("count", "count")}, "each of 1 bag-layers"),
        ({"class_names": ("a", "b", "c"), "target": (0, 0.5)}, "2 classes. Received: class_names="),
        ({"target": 3}, "target=3"),
        ({"target": lambda outputs: outputs}, "integer labels"),
        ({"target": None, "x": make_data(depth=2)[0]}, "nesting of the model's input.*x.shape"),
        ({"validation_data": make_data(depth=2)}, r"Received: x_valid.shape=\(40"),
        ({"validation_data": None, "x": make_data(1)[0]}, "validation_fraction=0.2"),
        ({"validation_data": None, "x": "stream"}, "x_valid where x is a Dataset"),
        ({"validation_data": "stream of others"}, "Received: a batch of x_valid.shape"),
    ],
)
def test_what_does_not_fit_is_found_before_training(arguments, match, x):
    """Not after the last epoch, when the history would be lost."""
    model = make_model()
    weights = model.get_weights()
    y = make_data()[1]
    streams = {
        "stream": batches.to_dataset(x, batch_size=9, shuffle=False),
        "stream of others": batches.to_dataset(make_data(depth=2)[0], batch_size=9, shuffle=False),
    }
    settings = {"x": x, "validation_data": (x, y), "target": low, "verbose": 0, **arguments}
    for name in ("x", "validation_data"):
        if isinstance(settings[name], str):
            settings[name] = streams[settings[name]]
    with pytest.raises(ValueError, match=match):
        model.fit(x, y, epochs=2, verbose=0, callbacks=[RuleExtractor(**settings)])
    assert int(model.optimizer.iterations) == 0
    for now, before in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(now, before)


class Diverged(keras.callbacks.Callback):
    """Makes the weights NaN after some epochs, and sound ones again after the others."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        bad = np.nan if epoch in self.epochs else 0.5
        self.model.set_weights([np.full_like(w, bad) for w in self.model.get_weights()])


def test_an_extraction_that_fails_does_not_lose_the_training(x):
    y, model = make_data()[1], make_model()
    extractor = RuleExtractor(x, x, n_clusters=2, target=low, verbose=0)
    with pytest.warns(UserWarning, match="No rules were extracted.*ValueError: .*NaN"):
        history = model.fit(x, y, epochs=2, verbose=0, callbacks=[Diverged([1]), extractor])
    assert history.epoch == [0, 1]
    with pytest.raises(RuntimeError, match=r"`extract\(model\)` tries again.*NaN") as raised:
        _ = extractor.explainer_
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="NaN"):
        extractor.extract(model)
    sound = make_model()
    assert extractor.extract(sound) is extractor.explainer_


def test_an_extraction_that_fails_is_tried_again(x):
    y, model = make_data()[1], make_model()
    extractor = RuleExtractor(x, x, every=1, n_clusters=2, target=low, verbose=0)
    with pytest.warns(UserWarning, match="No rules were extracted") as warned:
        history = model.fit(x, y, epochs=3, verbose=0, callbacks=[Diverged([0, 1]), extractor])
    logged = history.history["val_fidelity"]
    np.testing.assert_array_equal(np.isnan(logged), [True, True, False])
    assert logged[2] == extractor.explainer_.fidelity_
    assert sum("No rules were extracted" in str(each.message) for each in warned) == 2

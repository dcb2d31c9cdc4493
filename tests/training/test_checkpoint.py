"""Which states of a training are saved, and when."""

import keras
import numpy as np
import pytest

from keras_mmil.training import Checkpoint

pytestmark = pytest.mark.eager


def build():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy")
    return model


def data(n=20):
    x = np.random.default_rng(0).normal(size=(n, 2)).astype("float32")
    return x, (x[:, 0] > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_short_epochs_are_saved_together(tmp_path, seconds):
    """The best epoch is not the last: its weights are kept until they are saved."""
    saved, weights = [], []

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            weights.append(self.model.get_weights())
            saved.append(sorted(path.name for path in tmp_path.glob("epoch-*")))

    model, (x, y) = build(), data()
    checkpoint = Checkpoint(tmp_path, seconds=seconds)
    losses = [4.0, 1.0, 2.0, 3.0]
    set_loss = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(val_loss=losses[epoch])
    )
    callbacks = [set_loss, checkpoint, Look()]
    model.fit(x, y, validation_data=(x, y), epochs=4, callbacks=callbacks, verbose=0)
    expected = [f"epoch-000{n}.keras" if seconds == 0 else "epoch-0001.keras" for n in range(1, 5)]
    assert saved == [[name] for name in expected]
    assert [path.name for path in tmp_path.glob("epoch-*")] == ["epoch-0004.keras"]
    for name, of_epoch in (("best.keras", 1), ("epoch-0004.keras", 3)):
        loaded = keras.models.load_model(tmp_path / name)
        for a, b in zip(loaded.get_weights(), weights[of_epoch], strict=True):
            np.testing.assert_array_equal(a, b)


def test_monitor_must_be_logged(tmp_path):
    model, (x, y) = build(), data()
    with pytest.raises(ValueError, match="monitor='val_auc'"):
        model.fit(x, y, callbacks=[Checkpoint(tmp_path, "val_auc")], verbose=0)


@pytest.mark.slow
def test_damaged_histories(tmp_path):
    """None makes the training go on from an epoch that its state is not of."""
    model, (x, y) = build(), data()
    callbacks = [Checkpoint(tmp_path, seconds=0.0)]
    model.fit(x, y, validation_data=(x, y), epochs=2, callbacks=callbacks, verbose=0)
    path = tmp_path / "history.csv"
    text = path.read_bytes()
    assert Checkpoint(tmp_path).restore()
    for damaged in (
        text.replace(b"\n1,", b"\nx,"),
        b"".join(text.splitlines(keepends=True)[:2]),  # an epoch is lost
        text.replace(b"val_loss", b"loss"),
        text + b"3,4\n",
        b"\xff" + text,
        b"",
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"history\.csv"):
            Checkpoint(tmp_path).restore()

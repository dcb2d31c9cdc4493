"""An interrupted training, continued, is the one that was not interrupted; and checkpoints."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from other_process import holding

import keras_mmil
from keras_mmil import ragged
from keras_mmil._support.files import locked
from keras_mmil.layers import BagLayer
from keras_mmil.training import Checkpoint, VirtualAdversarialModel, fit_resumable
from keras_mmil.training.stopping import is_over

pytestmark = pytest.mark.eager


def build():
    bags = keras.Input((None, 2), ragged=True)
    outputs = keras.layers.Dense(1, activation="sigmoid")(BagLayer(4)(bags))
    model = keras_mmil.Model(bags, outputs)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def build_with_dropout():
    bags = keras.Input((None, 2), ragged=True)
    x = BagLayer(8, name="bag_layer")(bags)
    x = keras.layers.Dropout(0.3)(keras.layers.Dense(8, activation="tanh")(x))
    model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
    return model


def data(n=20):
    rng = np.random.default_rng(0)
    x = ragged.from_flat(rng.normal(size=(3 * n, 2)).astype("float32"), (np.full(n, 3),))
    y = (x.to_tensor().numpy()[..., 0].max(1) > 0.8).astype(int)
    return x, y


class Kill(keras.callbacks.Callback):
    """Ends the training as a kill does: in the middle of an epoch, with nothing tidied up."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        self.at = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.at == self.epoch:
            raise KeyboardInterrupt


def fit(folder, epochs=5, build=build, **arguments):
    x, y = data()
    arguments = {
        "batch_size": 20,
        "shuffle": False,
        "validation_data": (x, y),
        "verbose": 0,
        **arguments,
    }
    return fit_resumable(build, x, y, folder=folder, epochs=epochs, **arguments)


@pytest.mark.slow
@pytest.mark.graphs
def test_a_killed_training_continues_as_if_nothing_had_happened(tmp_path):
    keras.utils.set_random_seed(0)
    whole, history = fit(tmp_path / "whole")
    keras.utils.set_random_seed(0)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "killed", callbacks=[Kill(3)])
    resumed, resumed_history = fit(tmp_path / "killed", resume=True)
    assert [row["epoch"] for row in resumed_history] == [0, 1, 2, 3, 4]
    for a, b in zip(history, resumed_history, strict=True):
        np.testing.assert_allclose(a["val_loss"], b["val_loss"], rtol=1e-5)
    for a, b in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def adversarial(model, *x):
    return VirtualAdversarialModel(model, "bag_layer", epsilon=0.5, seed=4), *x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrap", "tolerance"),
    [pytest.param(None, 1e-6, marks=pytest.mark.nightly), (adversarial, 1e-5)],
)
def test_random_numbers_are_those_of_the_seed_and_the_epoch(tmp_path, wrap, tolerance):
    """With dropout, shuffling, and an adversary; several batches in an epoch, one of them short."""
    arguments = {"build": build_with_dropout, "batch_size": 8, "shuffle": True, "wrap": wrap}
    arguments["epochs"] = 3

    def train(name, initial_seed=0, **further):
        keras.utils.set_random_seed(initial_seed)
        return fit(tmp_path / name, **arguments, **further)

    def state(name):
        """All weights after the last epoch, and those of the optimizer."""
        model = keras.models.load_model(tmp_path / name / "epoch-0003.keras")
        return [v.numpy() for v in (*model.trainable_variables, *model.optimizer.variables)]

    train("whole", seed=7)
    with pytest.raises(KeyboardInterrupt):
        train("killed", seed=7, callbacks=[Kill(1)])
    train("killed", initial_seed=99, seed=7, resume=True)
    for a, b in zip(state("whole"), state("killed"), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
    train("other", seed=8)
    kernels = [state(name)[0] for name in ("whole", "other")]
    assert np.abs(np.subtract(*kernels)).max() > 1e-3


def test_initial_weights_are_those_of_the_seed(tmp_path):
    """Those that `build` makes after `set_random_seed`, whatever the program drew before."""
    arguments = {"epochs": 1, "seed": 11, "callbacks": [], "validation_data": None}
    keras.utils.set_random_seed(11)
    expected = build().get_weights()
    keras.utils.set_random_seed(99)
    initial = []

    class Look(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            initial.extend(self.model.get_weights())

    fit(tmp_path, **{**arguments, "callbacks": [Look()]})
    for a, b in zip(initial, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_the_best_model_has_the_state_that_it_had(tmp_path, seconds):
    """Of its optimizer, too, whenever it was saved; and the newest model has its own."""
    states, saved = [], []

    def state(model):
        return [v.numpy() for v in (*model.weights, *model.optimizer.variables)]

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            states.append(state(self.model))
            saved.append(sorted(path.name for path in tmp_path.glob("epoch-*")))

    model, (x, y) = build_with_dropout(), data()
    callbacks = [Losses([4.0, 1.0, 2.0, 3.0]), Checkpoint(tmp_path, seconds=seconds), Look()]
    model.fit(x, y, validation_data=(x, y), epochs=4, callbacks=callbacks, verbose=0)
    expected = [f"epoch-000{n}.keras" if seconds == 0 else "epoch-0001.keras" for n in range(1, 5)]
    assert saved == [[name] for name in expected]  # short epochs are saved together
    assert [path.name for path in tmp_path.glob("epoch-*")] == ["epoch-0004.keras"]
    loaded = [keras.models.load_model(tmp_path / f"{n}.keras") for n in ("best", "epoch-0004")]
    for found, epoch in zip([*loaded, model], (1, 3, 3), strict=True):
        for a, b in zip(state(found), states[epoch], strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_a_kill_left_is_removed_and_not_read(tmp_path):
    """It may strike when the state of an epoch is written, and the older one not yet removed."""
    fit(tmp_path, epochs=2)
    before = (tmp_path / "history.csv").read_text()
    newest = tmp_path / "epoch-0002.keras"
    (tmp_path / "epoch-0001.keras").write_bytes(newest.read_bytes())
    (tmp_path / "part-epoch-0003.keras").write_bytes(b"half")
    fit(tmp_path, epochs=2, resume=True)
    assert list(tmp_path.glob("epoch-*")) == [newest]
    _, history = fit(tmp_path, epochs=3, resume=True)
    assert len(history) == 3
    assert (tmp_path / "history.csv").read_text().startswith(before)


def test_keeps_the_newest_state_and_the_best_model(tmp_path):
    model, history = fit(tmp_path, patience=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "best.keras",
        "epoch-0005.keras",
        "history.csv",
        "training.json",
    ]
    x, y = data()
    loss = model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    np.testing.assert_allclose(loss, min(row["val_loss"] for row in history), rtol=1e-5)
    again, same = fit(tmp_path, patience=5, resume=True)  # after the end
    assert same == history
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_without_validation_data_the_last_model_is_kept(tmp_path):
    _, history = fit(tmp_path, epochs=2, validation_data=None)
    assert "val_loss" not in history[0]
    model, history = fit(tmp_path, epochs=3, validation_data=None, resume=True)
    assert [epoch["epoch"] for epoch in history] == [0, 1, 2]
    last = keras.models.load_model(tmp_path / "epoch-0003.keras")
    for a, b in zip(model.get_weights(), last.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_a_new_training_forgets_the_one_before(tmp_path):
    fit(tmp_path, epochs=4)
    _, history = fit(tmp_path, epochs=2)
    assert len(history) == 2
    assert not (tmp_path / "epoch-0004.keras").exists()
    _, history = fit(tmp_path, epochs=3, resume=True)
    assert len(history) == 3


class Losses(keras.callbacks.Callback):
    """Makes the validation losses what a test wants."""

    def __init__(self, losses):
        super().__init__()
        self.losses = losses

    def on_epoch_end(self, epoch, logs):
        logs["val_loss"] = self.losses[epoch]


@pytest.mark.slow
def test_patience(tmp_path):
    losses = [3.0, 2.0, 2.5, 2.0, 2.5, 1.0]  # only lower ones count
    for patience, n_epochs in ((2, 4), (3, 5), (4, 6), (None, 6)):
        folder = tmp_path / str(patience)
        _, history = fit(folder, epochs=6, patience=patience, callbacks=[Losses(losses)])
        assert len(history) == n_epochs


def test_losses_that_hardly_fall():
    """A loss counts if it is lower by a fraction of the first; NaN never does."""
    nan, falling = float("nan"), [2.0, 1.0, 0.996, 0.993, 0.99, 0.989, 0.988]
    for losses, min_delta, n_epochs in [
        (falling, 0.0, 7),
        (falling, 0.02, 5),
        ([2.0, nan, nan, nan, 1.0], 0.0, 4),
        ([nan, 2.0, 1.9, 1.9, 1.9, 1.9], 0.01, 6),
        ([nan] * 5, 0.1, 3),
    ]:
        over = [n for n in range(1, len(losses) + 1) if is_over(losses[:n], 3, min_delta)]
        assert (over or [len(losses)])[0] == n_epochs


def test_without_patience_the_last_model_is_kept(tmp_path):
    """As without a folder; and whichever of both a resumed training asks for."""
    losses = Losses([3.0, 1.0, 2.0, 2.5])
    after = []

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            after.append(self.model.get_weights())

    arguments = {"epochs": 4, "callbacks": [losses, Look()]}
    last, _ = fit(tmp_path, **arguments)
    best, _ = fit(tmp_path, **arguments, patience=4, resume=True)
    again, _ = fit(tmp_path, **arguments, resume=True)
    assert len(after) == 4
    for model, epoch in ((last, 3), (best, 1), (again, 3)):
        for found, expected in zip(model.get_weights(), after[epoch], strict=True):
            np.testing.assert_array_equal(found, expected)
    assert np.abs(after[3][0] - after[1][0]).max() > 1e-4


@pytest.mark.slow
def test_patience_counts_across_interruptions(tmp_path):
    losses = [3.0, 2.0, 2.5, 2.5, 2.5, 1.0]
    _, history = fit(tmp_path, epochs=3, patience=3, callbacks=[Losses(losses)])
    assert len(history) == 3
    for _ in range(2):  # and it stays over
        arguments = {"patience": 3, "resume": True, "callbacks": [Losses(losses)]}
        _, history = fit(tmp_path, epochs=6, **arguments)
        assert len(history) == 5


@pytest.mark.slow
def test_weights_are_those_of_fit(tmp_path):
    """Also across an interruption."""
    x, y = data()
    weights = np.where(np.arange(len(y)) < 15, 0.0, 4.0)
    plain, _ = fit(tmp_path / "plain", epochs=2)
    weighted, _ = fit(tmp_path / "weighted", epochs=2, sample_weight=weights)
    fit(tmp_path / "resumed", epochs=1, sample_weight=weights)
    resumed, _ = fit(tmp_path / "resumed", epochs=2, sample_weight=weights, resume=True)
    keras.utils.set_random_seed(0)
    expected = build()
    expected.fit(x, y, sample_weight=weights, epochs=2, batch_size=20, shuffle=False, verbose=0)
    for a, b, c in zip(
        *(model.get_weights() for model in (weighted, resumed, expected)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-7)
    assert not np.allclose(weighted.get_weights()[0], plain.get_weights()[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"sample_weight": [1.0, 2.0]}, "sample_weight"),
        ({"validation_data": None, "patience": 3}, "patience=3"),
    ],
)
def test_bad_input(tmp_path, arguments, match):
    with pytest.raises(ValueError, match=match):
        fit(tmp_path, epochs=1, **arguments)


def test_a_folder_is_of_one_training(tmp_path):
    x, y = data()
    arguments = {"folder": tmp_path, "epochs": 1, "verbose": 0, "validation_data": (x, y)}
    fit_resumable(build, x, y, **arguments)
    with pytest.raises(ValueError, match=r"other y$"):
        fit_resumable(build, x, 1 - y, resume=True, **arguments)
    with pytest.raises(ValueError, match=r"other model, seed=1 \(before: 0\)"):
        fit_resumable(build_with_dropout, x, y, seed=1, resume=True, **arguments)
    with (
        holding(tmp_path) as other,
        pytest.raises(BlockingIOError, match=f"{tmp_path.name}, in use by process {other}$"),
    ):
        fit_resumable(build, x, y, **arguments)
    with locked(tmp_path):  # as the command line holds it around the training
        fit_resumable(build, x, y, resume=True, **arguments)
    fit_resumable(build, x, y, resume=True, **arguments)
    (tmp_path / "training.json").unlink()
    with pytest.raises(ValueError, match="train anew"):
        fit_resumable(build, x, y, resume=True, **arguments)


def build_with_shared():
    bags = keras.Input((None, 2), ragged=True)
    shared, start = keras.layers.Dense(2, activation="tanh"), keras.initializers.HeNormal(seed=1)
    x = BagLayer(2, kernel_initializer=start)(bags)
    x = keras.layers.Dense(2, kernel_initializer=start)(shared(shared(x)))
    model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile("adam", "binary_crossentropy", run_eagerly=True)  # in the other process, too
    return model


def test_another_process_resumes(tmp_path):
    """There, Keras counts layers from 0, and shared objects are at other addresses."""
    x, y = data()
    build_with_shared()  # now names have other numbers than there
    fit_resumable(build_with_shared, x, y, folder=tmp_path / "a", epochs=1, verbose=0)
    _, expected = fit_resumable(build_with_shared, x, y, folder=tmp_path / "b", epochs=2, verbose=0)
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "import test_resumable as t\n"
        "x, y = t.data()\n"
        "_, found = t.fit_resumable(t.build_with_shared, x, list(y), folder=sys.argv[1], "
        "epochs=2, resume=True, verbose=0)\n"
        "print([epoch['loss'] for epoch in found])"
    )
    here = Path(__file__).parent
    of_tests = [str(here), str(here.parent / "helpers")]
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a"), *of_tests],
        check=True,
        capture_output=True,
        text=True,
    )
    losses = [float(loss) for loss in found.stdout.strip().splitlines()[-1][1:-1].split(",")]
    np.testing.assert_allclose(losses, [epoch["loss"] for epoch in expected], rtol=1e-4)


def test_a_model_without_configuration_is_not_resumed(tmp_path):
    class Plain(keras.layers.Layer):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def call(self, x):
            return x * self.factor

        def get_config(self):
            raise NotImplementedError

    x, y = data()
    arguments = {"folder": tmp_path, "epochs": 1, "verbose": 0}
    fit_resumable(build, x, y, **arguments)

    def other():
        bags = keras.Input((None, 2), ragged=True)
        model = keras_mmil.Model(bags, Plain(0.5)(keras.layers.Dense(1)(BagLayer(2)(bags))))
        model.compile("adam", "mse")
        return model

    with pytest.raises(ValueError, match="Keras can serialize"):
        fit_resumable(other, x, y, resume=True, **arguments)


def test_an_epoch_of_nan_is_not_the_best(tmp_path):
    checkpoint = Checkpoint(tmp_path, seconds=np.inf)
    checkpoint.set_model(build())
    checkpoint.model.optimizer.build(checkpoint.model.trainable_variables)
    bests = []
    for epoch, loss in enumerate([np.nan, 2.0, np.nan, 1.0, 3.0]):
        checkpoint.on_epoch_begin(epoch)
        checkpoint.model.trainable_variables[-1].assign([float(epoch)])
        checkpoint.on_epoch_end(epoch, {"val_loss": loss})
        values = checkpoint.best.values
        bests.append(None if values is None else values[len(checkpoint.model.weights) - 1].item())
    assert bests == [None, 1, 1, 3, 3]


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

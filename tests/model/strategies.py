"""Train networks in a `tf.distribute.Strategy`, or without one; a program of the tests.

    python tests/model/strategies.py FOLDER --kinds KIND ...

trains networks of these kinds on two replicas in this process, and without a strategy, and writes
FOLDER/mirrored.json, FOLDER/alone.json, and the errors for what would be wrong to
FOLDER/refused.json. A training with checkpoints, and some that are resumed from what was on the
disk at random moments of it, are in FOLDER/interrupted.json.

    python tests/model/strategies.py FOLDER --worker --kinds KIND ...

is a worker, and writes FOLDER/worker-0.json or so. That for records trains from a Dataset, others
from memory. With `--train` a training with checkpoints follows; with `--die` worker 1 kills itself
in the middle of it, and with `--resume` it is continued.
"""

import argparse
import functools
import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from record_networks import churns, random_customers

import keras_mmil
from keras_mmil import Bags, ragged, zoo
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, TextBags, bag_inputs
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels
from keras_mmil.training import Checkpoint, VirtualAdversarialModel, fit_resumable, resumable

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--moments", type=int, default=3)
parser.add_argument("--kinds", nargs="*", default=[])
for option in ("--worker", "--train", "--die", "--resume"):
    parser.add_argument(option, action="store_true")
OPTIONS = parser.parse_args()
if not OPTIONS.worker:  # before TensorFlow starts
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
else:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

BATCH_SIZE = 4
N_EPOCHS = 4
VOCABULARY = ["_", "?", "not", "good", "bad", ".", "very"]
CUSTOMERS = random_customers(9)
SCHEMA = Schema.infer(random_customers(60, seed=1))
SCHEMA.drop("since")
SCHEMA.drop("orders.items.product")


def on_vectors(loss="binary_crossentropy"):
    bags = keras.Input((None, None, 3), ragged=True)
    x = InstanceWise(keras.layers.Dense(4, activation="tanh"), name="encode")(bags)
    x = BagLayer(4, aggregation="mean")(BagLayer(4)(x))
    return compiled_model(bags, x, loss)


def on_ids():
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    x = keras.layers.Embedding(5, 4)(x)
    for members, weights in levels:
        x = BagLayer(4, aggregation="mean")(x, members, weights)
    return compiled_model(inputs, x)


def on_texts():
    texts = keras.Input((), dtype="string")
    x = TextBags(VOCABULARY, splitter="core")(texts)
    x = InstanceWise(keras.layers.Embedding(len(VOCABULARY), 2))(x)
    x = BagLayer(4, "tanh")(InstanceWise(keras.layers.Flatten())(x))
    return compiled_model(texts, BagLayer(4, aggregation="mean")(x))


def on_records():
    model = zoo.records_model(SCHEMA, Labels("classes", 2), units=4, seed=0)
    compile_model(model)
    return model


def compiled_model(inputs, x, loss="binary_crossentropy"):
    outputs = keras.layers.Dense(1, activation="sigmoid", kernel_regularizer="l2")(x)
    model = keras_mmil.Model(inputs, outputs)
    compile_model(model, loss)
    return model


def compile_model(model, loss="binary_crossentropy"):
    model.compile(keras.optimizers.SGD(0.5), loss, metrics=["accuracy", "auc"])


def data(build, n):
    """Top-bags of which some have no instances, labels, and weights."""
    rng = np.random.default_rng(n)
    y, weights = rng.integers(0, 2, n), rng.random(n)
    if build is on_records:
        return SCHEMA.read(CUSTOMERS[:n]), np.array(list(map(churns, CUSTOMERS[:n]))) * 1, weights
    if build is on_texts:
        tokens = rng.choice(VOCABULARY[2:], (n, 9))
        return [" ".join(each[: rng.integers(10)]) for each in tokens], y, weights
    sizes = rng.integers(0, 4, n)
    members = rng.integers(0, 4, sizes.sum())
    values = rng.normal(size=(members.sum(), 3)).astype("float32")
    if build is on_vectors:
        return ragged.from_flat(values, (sizes, members)), y, weights
    ids = np.digitize(values[:, 0], [-1, 0, 1]).astype("int32")
    return Bags.from_ragged(ragged.from_flat(ids, (sizes, members))), y, weights


# Of the last batch one replica gets fewer top-bags, or none.
CASES = {on_vectors: 11, on_ids: 9, on_texts: 11, on_records: 9}


def run(build, from_dataset=False):
    """What a network computes, and its weights after a training."""
    x, y, weights = data(build, CASES[build])
    keras.utils.set_random_seed(0)
    model = build()
    arguments = {"x": x, "y": y, "sample_weight": weights, "batch_size": BATCH_SIZE}
    if from_dataset:
        arguments = {"x": dataset_of(y, weights)}
    history = model.fit(
        **arguments, epochs=2, verbose=0, shuffle=False, validation_data=(x, list(y), weights)
    ).history
    results = {
        "history": [*history.values()],
        "evaluate": model.evaluate(x, y, batch_size=BATCH_SIZE, verbose=0),
        "weights": flat_weights(model),
    }
    if build is on_vectors:
        results["predict"] = model.predict(x, batch_size=BATCH_SIZE, verbose=0).tolist()
        # Of the last batch, one replica gets nothing.
        batches = tf.data.Dataset.from_tensor_slices(x).batch(5)
        results["predict_dataset"] = model.predict(batches, verbose=0).tolist()
        values = model.train_on_batch(x, y, weights)
        results["train_on_batch"] = [float(value) for value in values]
    return results


def dataset_of(y, weights):
    """The customers as a Dataset, of which each worker takes a part of each batch."""
    x = SCHEMA.dataset(CUSTOMERS, BATCH_SIZE)
    others = tf.data.Dataset.from_tensor_slices((y, weights)).batch(BATCH_SIZE)
    dataset = tf.data.Dataset.zip(x, others).map(lambda x, others: (x, *others))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def flat_weights(model):
    return np.concatenate([w.ravel() for w in model.get_weights()]).tolist()


def chosen():
    """The functions that build the networks of the command line."""
    return [build for build in CASES if build.__name__ in OPTIONS.kinds]


def mirrored():
    """Results of two replicas and of none."""
    alone, on_replicas = {}, {}
    for build in chosen():
        tf.config.run_functions_eagerly(True)  # tracing takes longer
        alone[build.__name__] = run(build)
        tf.config.run_functions_eagerly(False)
        with strategy.scope():
            on_replicas[build.__name__] = run(build)
    return alone, on_replicas


def interrupted():
    """A training without a strategy, and some that are resumed from what it had on the disk."""
    tf.config.run_functions_eagerly(True)
    resumable.Checkpoint = functools.partial(Checkpoint, seconds=0.0)  # after every epoch
    folder = Path(OPTIONS.folder, "training")
    copier = Copier(folder, Path(OPTIONS.folder, "copies"))
    sys.addaudithook(copier)
    trained = train(folder)
    copier.n_events = None
    copies = sorted(copier.copies.iterdir())
    resumed = {}
    for copy in random.Random(0).sample(copies, min(OPTIONS.moments, len(copies))):
        names = [path.name for path in copy.iterdir()]
        assert all(keras.models.load_model(copy / name) for name in names if is_checkpoint(name))
        resumed[f"{copy.name}: {sorted(names)}"] = train(copy, resume=True)
    tf.config.run_functions_eagerly(False)
    return {"trained": trained, "resumed": resumed}


def is_checkpoint(name):
    return name.endswith(".keras") and not name.startswith("part-")


class Copier:
    """Copies a folder before something in it is opened, renamed or removed: as a kill leaves it."""

    def __init__(self, folder, copies):
        self.folder, self.copies, self.n_events = folder, copies, 0

    def __call__(self, event, arguments):
        if self.n_events is None or event not in ("open", "os.rename", "os.remove"):
            return
        if str(arguments[0]).startswith(f"{self.folder}/") and self.folder.exists():
            n_events, self.n_events = self.n_events, None  # not of the copying itself
            shutil.copytree(self.folder, self.copies / f"{n_events:04}")
            self.n_events = n_events + 1


def refused():
    """The errors for what replicas would compute wrongly."""
    x, y, _ = data(on_vectors, 8)
    with strategy.scope():
        model = on_vectors()
        model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(4), verbose=0)
        bags = keras.Input((None, None, 3), ragged=True)
        x_top = keras.layers.BatchNormalization()(BagLayer(2)(BagLayer(2)(bags)))
        wrong = {
            "sum": on_vectors(loss=keras.losses.BinaryCrossentropy(reduction="sum")),
            "adversarial": VirtualAdversarialModel(model, layer="encode"),
            "normalised": compiled_model(bags, x_top),
        }
        wrong["steps"] = on_vectors()
        wrong["steps"].steps_per_execution = 2
        found = {}
        for name, each in wrong.items():
            try:
                each.fit(x, y, batch_size=7, verbose=0)
            except (ValueError, tf.errors.InvalidArgumentError) as error:
                found[name] = str(error)
    return found


class Die(keras.callbacks.Callback):
    """Kills worker 1 in the middle of an epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 2 and batch == 1 and strategy.cluster_resolver.task_id == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def train(folder, resume=False, die=False):
    """A training with checkpoints: the weights of its best model, and the losses of its epochs."""
    x, y, _ = data(on_vectors, CASES[on_vectors])
    model, history = fit_resumable(
        on_vectors,
        x,
        y,
        folder=folder,
        validation_data=(x, y),
        epochs=N_EPOCHS,
        batch_size=BATCH_SIZE,
        resume=resume,
        callbacks=[Die()] if die else [],
        verbose=0,
    )
    losses = [[epoch["loss"], epoch["val_loss"]] for epoch in history]
    return {"weights": flat_weights(model), "losses": losses}


def main():
    if not OPTIONS.worker:
        alone, on_replicas = mirrored()
        write("mirrored", on_replicas)
        write("alone", alone)
        write("refused", refused())
        write("interrupted", interrupted())
        return
    name = f"worker-{strategy.cluster_resolver.task_id}"
    with strategy.scope():
        write(name, {build.__name__: run(build, build is on_records) for build in chosen()})
        if OPTIONS.train or OPTIONS.die or OPTIONS.resume:
            trained = train(f"{OPTIONS.folder}/training", OPTIONS.resume, OPTIONS.die)
            write(f"{name}-trained", trained)


def write(name, results):
    Path(OPTIONS.folder, f"{name}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()

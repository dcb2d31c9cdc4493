"""This library, as a user would write it."""

import keras
import numpy as np
import tensorflow as tf

import keras_mmil
from competitors._tensorflow import signature_of, to_tensors, train_step
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, bag_inputs
from keras_mmil.training import VirtualAdversarialModel

__all__ = ["AdversarialStep", "Step", "build", "inputs_of"]


class Step:
    """A `keras_mmil.Model`; equal instances and sub-bags merged beforehand where that pays."""

    def __init__(self, workload):
        self.batches = [
            to_tensors({**inputs_of(workload, batch), "y": batch.y}) for batch in workload.batches
        ]
        self.step = self.make_step(build(workload), self.batches[0])

    def make_step(self, model, example):
        """The compiled step of a model, for batches such as an example."""

        def forward(batch):
            return model(_without_labels(batch), training=True)

        return train_step(forward, model.trainable_variables, example)

    def __call__(self, i):
        return float(self.step(self.batches[i % len(self.batches)]))


class AdversarialStep(Step):
    """The same trained by a `VirtualAdversarialModel`: a perturbation for each distinct word."""

    def make_step(self, model, example):
        outputs = keras.layers.Activation("sigmoid")(model.outputs[0])
        model = keras_mmil.Model(model.input, outputs)
        model.compile(keras.optimizers.Adam(0.001), "binary_crossentropy")
        self.model = VirtualAdversarialModel(model, "word_vectors")

        @tf.function(input_signature=[signature_of(example)])
        def step(batch):
            return self.model.train_step((_without_labels(batch), batch["y"]))["supervised_loss"]

        return step

    def __call__(self, i):
        self.model.reset_metrics()
        return super().__call__(i)


def _without_labels(batch):
    return {name: x for name, x in batch.items() if name != "y"}


def build(workload, distinct=True):
    """The network of a workload with its weights.

    Args:
        workload: a `Workload`.
        distinct: whether each distinct instance of a batch is computed once, where instances have
            ids; or each as often as it occurs.
    """
    builder = _BUILDERS[workload.encoder] if distinct else _occurrences
    model = builder(workload)
    for name, value in workload.weights.items():
        (variable,) = (v for v in model.trainable_variables if v.path.endswith(_PATHS[name]))
        variable.assign(value)
    return model


def inputs_of(workload, batch, distinct=True):
    """Dict of what the network reads of a `Batch`."""
    sizes = [np.diff(batch.top_splits), np.diff(batch.sub_splits)]
    bags = ragged.from_flat(batch.instances, sizes)
    if distinct and workload.encoder in ("dense", "one-hot"):
        return keras_mmil.Bags.from_ragged(bags).inputs
    return {"bags": bags}


def _images(workload):
    bags = keras.Input((None, None, 28, 28), dtype="uint8", ragged=True, name="bags")
    encoder = keras.Sequential([keras.layers.Reshape((28, 28, 1)), keras.layers.Rescaling(1 / 255)])
    for i, channels in enumerate((32, 64), start=1):
        encoder.add(keras.layers.Conv2D(channels, 5, 2, "same", name=f"encoder_{i}"))
        encoder.add(keras.layers.BatchNormalization())
        encoder.add(keras.layers.ReLU())
        encoder.add(keras.layers.MaxPooling2D(2, padding="same"))
    encoder.add(keras.layers.Flatten())
    encoder.add(keras.layers.Dense(1024, activation="relu", name="encoder_3"))
    x = InstanceWise(encoder)(bags)
    for level in (1, 2):
        x = _bag_layer(workload, level)(x)
    return keras_mmil.Model({"bags": bags}, _output(x))


def _ids(workload):
    """Features, and what is computed of them, once for each distinct id of the batch."""
    window_size = 3 if workload.encoder == "words" else None
    inputs = bag_inputs(2, window_size=window_size)
    ids, sub_bags, top_bags = Distinct()(inputs)
    embed = keras.layers.Embedding(
        *workload.table.shape, weights=[workload.table], trainable=False, name="word_vectors"
    )
    x = embed(ids)
    units = workload.weights["kernel_1"].shape[1]
    x = keras.layers.Dense(units, activation="relu", name="encoder_1")(x)
    x = _bag_layer(workload, 1, window_size=window_size)(x, *sub_bags)
    x = _bag_layer(workload, 2)(x, *top_bags)
    return keras_mmil.Model(inputs, _output(x))


def _one_hot(workload):
    """No features but the ids."""
    inputs = bag_inputs(2)
    ids, words, papers = Distinct()(inputs)
    size = workload.weights["bag_kernel_1"].shape[0]
    x = _bag_layer(workload, 1, vocabulary_size=size)(ids, *words)
    x = _bag_layer(workload, 2)(x, *papers)
    return keras_mmil.Model(inputs, _output(x))


def _occurrences(workload):
    """The same for every occurrence of an instance."""
    ids = workload.batches[0].instances.shape[1:]
    bags = keras.Input((None, None, *ids), dtype="int32", ragged=True, name="bags")
    embedding = keras.layers.Embedding(
        *workload.table.shape, weights=[workload.table], trainable=False
    )
    units = workload.weights["kernel_1"].shape[1]
    encoder = keras.Sequential(
        [
            keras.Input(ids, dtype="int32"),
            embedding,
            keras.layers.Dense(units, activation="relu", name="encoder_1"),
            keras.layers.Flatten(),
        ]
    )
    x = InstanceWise(encoder)(bags)
    for level in (1, 2):
        x = _bag_layer(workload, level)(x)
    return keras_mmil.Model({"bags": bags}, _output(x))


def _bag_layer(workload, level, **arguments):
    return BagLayer(
        workload.weights[f"bag_bias_{level}"].size,
        aggregation=workload.aggregations,
        empty="zeros",  # as in the others, which learn nothing about empty bags
        name=f"bag_layer_{level}",
        **arguments,
    )


def _output(x):
    return keras.layers.Dense(1, name="output")(x)


_BUILDERS = {"convolution": _images, "words": _ids, "dense": _ids, "one-hot": _one_hot}

_PATHS = {
    **{f"{part}_{i}": f"encoder_{i}/{part}" for part in ("kernel", "bias") for i in (1, 2, 3)},
    **{f"bag_{part}_{i}": f"bag_layer_{i}/{part}" for part in ("kernel", "bias") for i in (1, 2)},
    "kernel": "output/kernel",
    "bias": "output/bias",
}

"""This library, as a user would write it."""

import keras
import numpy as np

import keras_mmil
from competitors._tensorflow import to_tensors, train_step
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, bag_inputs

__all__ = ["Step"]


class Step:
    """A `keras_mmil.Model`; equal instances and sub-bags merged beforehand where that pays."""

    def __init__(self, workload):
        model = _BUILDERS[workload.encoder](workload)
        self.batches = [
            to_tensors({**_inputs(workload, batch), "y": batch.y}) for batch in workload.batches
        ]
        variables = model.trainable_variables
        for name, value in workload.weights.items():
            (variable,) = (v for v in variables if v.path.endswith(_PATHS[name]))
            variable.assign(value)

        def forward(batch):
            return model({name: x for name, x in batch.items() if name != "y"}, training=True)

        self.step = train_step(forward, variables, self.batches[0])

    def __call__(self, i):
        return float(self.step(self.batches[i % len(self.batches)]))


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
        x = BagLayer(200, name=f"bag_layer_{level}")(x)
    return keras_mmil.Model({"bags": bags}, _output(x))


def _ids(workload):
    """Features, and what is computed of them, once for each distinct id of the batch."""
    positions = 3 if workload.encoder == "words" else None
    inputs = bag_inputs(2, positions=positions)
    ids, sub_bags, top_bags = Distinct()(inputs)
    x = keras.layers.Embedding(*workload.table.shape, weights=[workload.table], trainable=False)(
        ids
    )
    units = workload.weights["kernel_1"].shape[1]
    x = keras.layers.Dense(units, activation="relu", name="encoder_1")(x)
    both = workload.aggregations
    x = BagLayer(500, aggregation=both, positions=positions, name="bag_layer_1")(x, *sub_bags)
    x = BagLayer(500, aggregation=both, name="bag_layer_2")(x, *top_bags)
    return keras_mmil.Model(inputs, _output(x))


def _output(x):
    return keras.layers.Dense(1, name="output")(x)


_BUILDERS = {"convolution": _images, "words": _ids, "dense": _ids}

_PATHS = {
    **{f"{part}_{i}": f"encoder_{i}/{part}" for part in ("kernel", "bias") for i in (1, 2, 3)},
    **{f"bag_{part}_{i}": f"bag_layer_{i}/{part}" for part in ("kernel", "bias") for i in (1, 2)},
    "kernel": "output/kernel",
    "bias": "output/bias",
}


def _inputs(workload, batch):
    sizes = [np.diff(batch.top_splits), np.diff(batch.sub_splits)]
    bags = ragged.from_flat(batch.instances, sizes)
    if workload.encoder == "dense":
        return keras_mmil.Bags.from_ragged(bags).inputs
    return {"bags": bags}

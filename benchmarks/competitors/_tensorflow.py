"""What the competitors written in plain TensorFlow share."""

import keras
import tensorflow as tf

__all__ = ["TensorFlowStep", "loss_of", "signature_of", "to_tensors", "train_step"]


def train_step(forward, variables, example, unknown_axes=1):
    """A compiled training step.

    Args:
        forward: function of a dict of tensors that returns logits [top-bags, 1].
        variables: what to train.
        example: such a dict, with `y` besides, which tells the shapes.
        unknown_axes: how many of the first axes vary from batch to batch.

    Returns:
        A function of a dict that returns the loss.
    """
    optimizer = keras.optimizers.Adam(0.001)
    optimizer.build(variables)
    signature = signature_of(example, unknown_axes)

    @tf.function(input_signature=[signature])
    def step(batch):
        with tf.GradientTape() as tape:
            loss = loss_of(batch["y"], forward(batch))
        # Of a gather's gradient, Keras 3.15's Adam would sum the squares of a row's occurrences.
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
        optimizer.apply(gradients, variables)
        return loss

    return step


def signature_of(example, unknown_axes=1):
    """What a compiled step reads: see `train_step`."""
    return tf.nest.map_structure(lambda x: _spec_of(x, unknown_axes), example)


def to_tensors(batch):
    """A dict of arrays, tensors and RaggedTensors without the arrays."""
    return {
        name: x if isinstance(x, tf.RaggedTensor) else tf.convert_to_tensor(x)
        for name, x in batch.items()
    }


def loss_of(y, logits):
    """Mean binary cross-entropy of logits [top-bags, 1]."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))


class TensorFlowStep:
    """A training step of a network whose weights are variables by name.

    A child says what it reads of a batch, and computes logits of it.
    """

    unknown_axes = 1

    def __init__(self, workload):
        self.workload = workload
        self.table = None if workload.table is None else tf.constant(workload.table)
        self.weights = {
            name: keras.Variable(value, name=name) for name, value in workload.weights.items()
        }
        self.convolutions = _convolutions() if workload.encoder == "convolution" else []
        for i, layers in enumerate(self.convolutions, start=1):
            for part in ("kernel", "bias"):
                getattr(layers[0], part).assign(self.weights.pop(f"{part}_{i}"))
        layers = [layer for block in self.convolutions for layer in block]
        variables = [w for layer in layers for w in layer.trainable_variables]
        variables += self.weights.values()
        self._batches = [
            to_tensors({**self.read(batch), "y": batch.y}) for batch in workload.batches
        ]
        self._step = self.make_step(variables, self._batches[0])

    def __call__(self, i):
        return float(self._step(self._batches[i % len(self._batches)]))

    def make_step(self, variables, example):
        """The compiled step; see `train_step`."""
        return train_step(self.forward, variables, example, self.unknown_axes)

    def read(self, batch):
        """Dict of arrays or tensors that `forward` reads of a `Batch`."""
        raise NotImplementedError

    def forward(self, batch):
        """Logits [top-bags, 1]."""
        raise NotImplementedError

    def encode(self, x, mask=None):
        """The encoder of the workload on flat instances: [instances, features], or ids as they are.

        Args:
            x: images [instances, 28, 28], or ids [instances, ...].
            mask: bool [instances], what to average over in normalisation; None for all.
        """
        w = self.weights
        if self.convolutions:
            x = tf.cast(x[..., None], tf.float32) / 255
            for convolve, normalise, activate, pool in self.convolutions:
                x = convolve(x)
                here = None
                if mask is not None:
                    here = tf.broadcast_to(mask[:, None, None], tf.shape(x)[:3])
                x = pool(activate(normalise(x, training=True, mask=here)))
            x = tf.reshape(x, [-1, 256])
            return tf.nn.relu(x @ w["kernel_3"] + w["bias_3"])
        if self.workload.encoder == "one-hot":
            return x
        # (instances, features), or (instances, 3, features)
        return self.encode_features(tf.gather(self.table, x))

    def encode_features(self, x):
        """The encoder on the features that the table has of instances."""
        x = tf.nn.relu(tf.tensordot(x, self.weights["kernel_1"], 1) + self.weights["bias_1"])
        return tf.reshape(x, [-1, self.weights["bag_kernel_1"].shape[0]])

    def transform(self, x, level):
        """ρ = ReLU(w x + b) of a bag-layer."""
        kernel, bias = (self.weights[f"bag_{part}_{level}"] for part in ("kernel", "bias"))
        by_id = x.dtype.is_integer
        return tf.nn.relu((tf.gather(kernel, x) if by_id else tf.tensordot(x, kernel, 1)) + bias)

    def output(self, x):
        """The output unit."""
        return x @ self.weights["kernel"] + self.weights["bias"]


def _convolutions():
    """Keras's layers, as in our own network: the comparison is about bags."""
    blocks, shape = [], (None, 28, 28, 1)
    for channels in (32, 64):
        block = (
            keras.layers.Conv2D(channels, 5, 2, "same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.MaxPooling2D(2, padding="same"),
        )
        for layer in block:
            layer.build(shape)
            shape = layer.compute_output_shape(shape)
        blocks.append(block)
    return blocks


def _spec_of(x, unknown_axes):
    if isinstance(x, tf.RaggedTensor):
        shape = [*[None] * (1 + x.ragged_rank), *x.flat_values.shape[1:]]
        return tf.RaggedTensorSpec(shape, x.dtype, x.ragged_rank, x.row_splits.dtype)
    return tf.TensorSpec([None] * min(unknown_axes, x.shape.rank) + x.shape[unknown_axes:], x.dtype)

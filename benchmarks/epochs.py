"""Time of an epoch of `keras-mmil run mnist` beside a plain TensorFlow loop's.

`python benchmarks/epochs.py`: both train the MNIST network on the same top-bags (5,000 for
training, 1,000 for validation), with the same dropout, shifts of images and batches of 20. The loop
is a tf.function over flat instances and segment ids; it neither prints, nor saves, nor decays a
rate. They take turns, an epoch each. Results go to `benchmarks/results/epochs.json`.
"""

import argparse
import contextlib
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf
from interleaved_timing import Worker, mark_memory, serve, take_turns
from records import ratios, write

from keras_mmil import datasets, ragged, training, zoo

BATCH = 20


def main():
    """Time both, print the ratio, and record it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6, help="epochs of each")
    parser.add_argument("--source", choices=("mnist", "digits"), default="mnist")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", choices=("ours", "plain"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        keras.utils.set_random_seed(0)
        {"ours": ours, "plain": plain}[options.worker](options.source)
        return
    names = ("ours", "plain")
    workers = {
        name: Worker(__file__, "--worker", name, "--source", options.source) for name in names
    }
    take_turns(workers.values(), options.epochs)
    ratio = ratios(workers["ours"].seconds, workers["plain"].seconds)
    seconds = {name: round(min(worker.seconds), 2) for name, worker in workers.items()}
    print(f"seconds of an epoch: {seconds}; ratio {ratio['ratio']}, {ratio['median_ratio']} median")
    record = {
        "experiment": "epochs",
        "model": "mnist",
        "variant": "",
        "metric": "step_ratio",
        "reference": "plain loop",
        "mean": ratio["ratio"],
        "median": ratio["median_ratio"],
        "runs": options.epochs,
        "seconds": seconds["ours"],
        "reference_seconds": seconds["plain"],
    }
    if not options.dry:
        write("epochs", [record])


def ours(source):
    """Epochs as `keras-mmil run` makes them: with validation, checkpoints and a log line."""
    (x, y), validation_data, _ = datasets.mnist.load_mmil(source=source)
    model = zoo.mnist_mmil()
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [
            keras.callbacks.LearningRateScheduler(training.cosine_decay(0.001, 100)),
            training.Checkpoint(folder),
        ]
        epochs = iter(range(100))

        def turn():
            epoch = next(epochs)
            with contextlib.redirect_stdout(sys.stderr):
                model.fit(
                    x,
                    y,
                    validation_data=validation_data,
                    initial_epoch=epoch,
                    epochs=epoch + 1,
                    batch_size=BATCH,
                    callbacks=callbacks,
                    verbose=2,
                )

        mark = mark_memory()
        turn()
        serve(turn, mark)


def plain(source):
    """Epochs of a loop over flat instances."""
    train, valid, _ = datasets.mnist.load_mmil(source=source)
    encoder = zoo.mnist_mmil().get_layer("instances").layer
    dense = [keras.layers.Dense(200, activation="relu") for _ in range(2)]
    output = keras.layers.Dense(1, activation="sigmoid")
    optimizer = keras.optimizers.Adam(0.001)
    loss_of = keras.losses.BinaryCrossentropy()
    signature = [
        tf.TensorSpec([None, 28, 28], tf.uint8),
        tf.TensorSpec([None], tf.int64),
        tf.TensorSpec([None], tf.int64),
        tf.TensorSpec([None, 1], tf.float32),
    ]

    def predict(images, sub_ids, top_ids, is_training):
        x = dense[0](encoder(images, training=is_training))
        x = dense[1](tf.math.segment_max(x, sub_ids))
        return output(tf.math.segment_max(x, top_ids))

    variables = None

    @tf.function(input_signature=signature)
    def step(images, sub_ids, top_ids, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, predict(images, sub_ids, top_ids, True))
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    @tf.function(input_signature=signature)
    def evaluate(images, sub_ids, top_ids, y):
        predictions = predict(images, sub_ids, top_ids, False)
        return loss_of(y, predictions), tf.reduce_mean(
            tf.cast((predictions > 0.5) == (y > 0.5), tf.float32)
        )

    first = next(batches(*train, np.arange(BATCH)))
    predict(*first[:3], False)
    variables = [w for layer in (encoder, *dense, output) for w in layer.trainable_variables]
    optimizer.build(variables)
    rng = np.random.default_rng(0)

    def turn():
        losses = [step(*batch) for batch in batches(*train, rng.permutation(len(train[1])))]
        results = [evaluate(*batch) for batch in batches(*valid, np.arange(len(valid[1])))]
        return np.mean(losses), np.mean(results, axis=0)

    mark = mark_memory()
    turn()
    serve(turn, mark)


def batches(x, y, order):
    """Flat images, the sub-bag of each, the top-bag of each sub-bag, and labels, batch by batch."""
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        bags = ragged.take(x, chosen)
        yield (
            bags.flat_values,
            bags.values.value_rowids(),
            bags.value_rowids(),
            y[chosen, None].astype(np.float32),
        )


if __name__ == "__main__":
    main()

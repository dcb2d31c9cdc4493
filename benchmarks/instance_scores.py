"""What explanations say about the instances of top-bags: a number for each, the higher the more."""

import numpy as np
import tensorflow as tf
from removal_curves import sizes

from keras_mmil import ragged
from keras_mmil.layers import BagLayer
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.nesting import expand
from keras_mmil.rules.network.sources import top_bags

__all__ = ["Gradients", "at_random", "attention", "by_rules", "logits_of"]

_AT_ONCE = 32  # top-bags


def by_rules(explainer, x):
    """Those of the explanations by rules: the first of `Explanation.ranking` has the highest."""
    found = []
    for start in range(0, ragged.n_top_bags(x), _AT_ONCE):
        some = ragged.take(x, slice(start, start + _AT_ONCE))
        for i, explanation in enumerate(explainer.explain(some)):
            lengths = some[i].row_lengths().numpy()
            offsets = np.append(0, np.cumsum(lengths))
            scores = np.empty(offsets[-1])
            for rank, part in enumerate(explanation.ranking()):
                _, sub_bag, instance = part.position
                scores[offsets[sub_bag] + instance] = -rank
            found.append(scores)
    return found


def attention(model, x):
    """Those of gated attention: the product of the weights along the path of each instance."""
    network, found = Network(model), []
    for batch in network.batches(top_bags(x, network, _AT_ONCE).batches(), in_order=True):
        shares = np.ones(batch.nestings[-1].n_bags)  # of the top-bags
        levels = zip(network.layers, batch.representations, expand(batch.nestings), strict=True)
        for layer, rows, here in reversed(list(levels)):
            (aggregation,) = layer.aggregations
            bags = np.repeat(np.arange(len(here.row_splits) - 1), np.diff(here.row_splits))
            within = aggregation.attention_weights(
                rows[here.rows], bags, len(here.row_splits) - 1, here.weights[:, None]
            )
            shares = shares[bags] * within.numpy()[:, 0]
        found.append(shares)
    return np.split(np.concatenate(found), np.cumsum(sizes(x))[:-1])


def at_random(x, seed):
    """Random ones."""
    rng = np.random.default_rng(seed)
    return [rng.random(n) for n in sizes(x)]


# Integrated gradients ----------------------------------------------------------------------------


class Gradients:
    """Integrated gradients of the log-odds of the class that a network gives each top-bag.

    The baseline are instances of zeros; the integral along the straight way to them is a sum at the
    middles of equal steps.

    Args:
        features: function from top-bags to what is varied, float [instances, ...].
        logits: function from that, and the top-bags, to log-odds [top-bags].
        steps: number of steps.

    Reference:
        Sundararajan, Taly and Yan, Axiomatic Attribution for Deep Networks, 2017.
    """

    def __init__(self, features, logits, steps=32):
        self.features, self.logits, self.steps = features, logits, steps

    def __call__(self, x):
        """The sums over the features of each instance.

        Returns:
            A list, for each top-bag [instances]; and by how much the sum of each differs from the
            difference of the log-odds to those of the baseline, as a fraction of that, [top-bags].
        """
        found, errors = [], []
        for start in range(0, ragged.n_top_bags(x), _AT_ONCE):
            some = ragged.take(x, slice(start, start + _AT_ONCE))
            features = tf.cast(self.features(some), tf.float32)
            whole, empty = self.logits(features, some), self.logits(0 * features, some)
            signs = tf.where(whole > 0, 1.0, -1.0)
            total = tf.zeros(tf.shape(features)[0])
            for step in range(self.steps):
                at = features * (step + 0.5) / self.steps
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(at)
                    score = tf.reduce_sum(signs * self.logits(at, some))
                slope = tf.reshape(tape.gradient(score, at) * features, [len(total), -1])
                total += tf.reduce_sum(slope, axis=1) / self.steps
            parts = np.split(total.numpy(), np.cumsum(sizes(some))[:-1])
            difference = (signs * (whole - empty)).numpy()
            errors += list(np.abs([part.sum() for part in parts] - difference) / abs(difference))
            found += parts
        return found, np.array(errors)


def logits_of(model):
    """What is varied in a network of the experiments, and how log-odds follow from it.

    Returns:
        Functions for `Gradients`: of a network for images, these; for trigrams, their word vectors,
        each instance with its own.
    """
    bag_layers = [layer for layer in model.layers if isinstance(layer, BagLayer)]
    names = {layer.name for layer in model.layers}
    features, encode = _of_words(model) if "word_vectors" in names else _of_images(model)
    label = model.get_layer("label")

    def logits(values, x):
        h = encode(values, x, bag_layers[0])
        for layer, splits in zip(bag_layers[1:], x.nested_row_splits[-2::-1], strict=True):
            h = layer(tf.RaggedTensor.from_row_splits(h, splits))
        return tf.squeeze(h @ label.kernel + label.bias, axis=1)

    return features, logits


def _of_images(model):
    encoder = model.get_layer("instances").layer

    def encode(images, x, bag_layer):
        for layer in encoder.layers:  # by themselves, as the whole takes integers
            images = layer(images, training=False)
        return bag_layer(tf.RaggedTensor.from_row_splits(images, x.nested_row_splits[-1]))

    return lambda x: x.flat_values, encode


def _of_words(model):
    embedding, words = model.get_layer("word_vectors"), model.get_layer("words")

    def encode(vectors, x, bag_layer):
        n, size = tf.shape(vectors)[0], vectors.shape[1]
        rows = words(tf.reshape(vectors, [-1, vectors.shape[2]]))
        own = tf.reshape(tf.range(n * size), [n, size])
        return bag_layer(rows, tf.RaggedTensor.from_row_splits(own, x.nested_row_splits[-1]))

    return lambda x: embedding(x.flat_values), encode

"""Directions in which a network's outputs are sensitive to the representations of a level."""

from collections.abc import Iterable
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.keras_internals import ordered_nodes
from keras_mmil._support.types import Array, Tensors
from keras_mmil.layers import BagLayer
from keras_mmil.model.run import input_values, moved, outputs_of, rows_of, run_nodes
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.sources import Source
from keras_mmil.rules.network.targets import Target, activation

__all__ = ["Gradients", "projections", "sample"]

_AT_MOST = 2048  # top-bags whose gradients are averaged
_KEPT = 0.999  # share of the mean square gradient that the directions kept make up
_PROBABILITIES = ("sigmoid", "hard_sigmoid", "softmax")
_TINY = 1e-7


def sample(x: Source, seed: int) -> Source:
    """A random sample of top-bags, as many as `projections` needs."""
    return x.sample(_AT_MOST, seed)


@dataclass(frozen=True)
class Gradients:
    """The squares of gradients, from which `projections` follow: a `Step`.

    If the target is about one output, only that one counts.
    """

    target: Target

    def __call__(
        self, network: Network, batches: Iterable[Tensors], first: int
    ) -> list[list[Array]]:
        """For each batch and bag-layer the sum of ∇∇ᵀ over bags and outputs, [units, units]."""
        return [_squares(network, x, self.target.index) for x in map(network.complete, batches)]


def projections(network: Network, squares: Iterable[list[Array]]) -> tuple[Array, ...]:
    """Projections of the rows of each level, after which close rows mean the same to the network.

    Where all rows of a bag move by δ, an output changes by ∇ᵀδ to first order, ∇ being its gradient
    with respect to what the bag-layer makes of the bag. With A Aᵀ = E[∇∇ᵀ], the mean over bags and
    outputs, |Aᵀδ|² is the mean square of that change; so rows are multiplied by A. Outputs that are
    probabilities are taken as log-odds.

    Args:
        network: the trained network.
        squares: the results of `Gradients`, in the order of the batches.

    Returns:
        Matrices A, float32 [units, directions], one for each bag-layer. If a bag-layer makes no
        difference, such as one without rows, it is a column of zeros: all its rows are alike.

    Raises:
        ValueError: if the outputs depend on no bag-layer, as far as gradients tell.

    Reference:
        Constantine, Active Subspaces: Emerging Ideas for Dimension Reduction in Parameter Studies,
        2015.
    """
    sums = [np.zeros(())] * len(network.layers)
    for of_batch in squares:
        sums = [known + each for known, each in zip(sums, of_batch, strict=True)]
    if network.layers and not any(each.any() for each in sums):
        raise ValueError(
            "Expected outputs that depend on some bag-layer, for metric='sensitivity'. Received: "
            f"gradients of zero at layers={[layer.name for layer in network.layers]}"
        )
    return tuple(map(_root, sums))


def _squares(network: Network, batch: Tensors, index: int | None) -> list[Array]:
    """The sums of ∇∇ᵀ over bags and outputs, for each bag-layer."""
    model, values = network.model, input_values(network.model, batch)
    steps: dict[int, tf.Tensor] = {}  # zeros, by which the rows of each bag-layer's output move
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        for node in ordered_nodes(model):
            run_nodes([node], values, training=False)
            if node.operation in network.layers:
                (output,) = node.outputs
                h = values[id(output)]
                step = steps[network.layers.index(node.operation)] = tf.zeros_like(rows_of(h))
                tape.watch(step)
                values[id(output)] = moved(h, step)
        columns = tf.unstack(_scores(model, outputs_of(model, values), index), axis=1)
    squares = [np.zeros(())] * len(network.layers)
    for column in columns:
        gradients = tape.gradient(column, steps, unconnected_gradients="zero")
        for i, layer in enumerate(network.layers):
            rows = _of_rows(tf.cast(gradients[i], tf.float64).numpy(), layer)
            squares[i] = squares[i] + rows.T @ rows
    return squares


def _scores(model: keras.Model, outputs: tf.Tensor, index: int | None) -> tf.Tensor:
    """Outputs [top-bags, n], all or one; log-odds where they are probabilities."""
    parts = [tf.reshape(part, (tf.shape(part)[0], -1)) for part in keras.tree.flatten(outputs)]
    scores = tf.concat(parts, axis=1)
    if len(model.outputs) == 1 and activation(model) in _PROBABILITIES:
        scores = tf.math.log(scores + _TINY) - tf.math.log(1 - scores + _TINY)
    return scores if index is None else scores[:, index : index + 1]


def _of_rows(gradient: Array, layer: BagLayer) -> Array:
    """Gradients with respect to a move of all rows of a bag, [bags, units of ρ]."""
    gradient = gradient.reshape(-1, gradient.shape[-1])
    if layer.units is not None:
        return gradient
    # Each aggregation yields all units, side by side.
    return gradient.reshape(len(gradient), len(layer.aggregations), -1).sum(axis=1)


def _root(square: Array) -> Array:
    """A matrix whose product with its transpose is `square`, up to what is negligible."""
    shares, directions = np.linalg.eigh(square)
    shares, directions = np.maximum(shares[::-1], 0), directions[:, ::-1]
    total = shares.sum()
    if not total > 0:
        return np.zeros((len(square), 1), np.float32)
    shares = shares / total
    n_kept = np.searchsorted(np.cumsum(shares), _KEPT) + 1
    return (directions * np.sqrt(shares))[:, :n_kept].astype(np.float32)

"""Directions in which a network's outputs are sensitive to the representations of a level."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Tensors
from keras_mmil.layers import BagLayer
from keras_mmil.model.run import Cut, moved, rows_of
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
        cuts = [Cut(network.model, layer.name) for layer in network.layers]
        pairs = list(zip(cuts, network.layers, strict=True))
        return [
            [
                _square(_gradients(network.model, cut, x, self.target.index), bags)
                for cut, bags in pairs
            ]
            for x in map(network.complete, batches)
        ]


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


def _square(gradients: Iterable[Array], layer: BagLayer) -> Array:
    """The sum of ∇∇ᵀ over some outputs."""
    rows = [_of_rows(gradient, layer) for gradient in gradients]
    return np.sum([each.T @ each for each in rows], axis=0)


def _gradients(model: keras.Model, cut: Cut, batch: Tensors, index: int | None) -> Iterator[Array]:
    """Of each output, summed over top-bags, with respect to the output of the layer of the cut."""
    h, others = cut.below(batch, training=False)
    step = tf.zeros_like(rows_of(h))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(step)
        scores = _scores(model, cut.above(moved(h, step), others, training=False), index)
        columns = tf.unstack(scores, axis=1)
    for column in columns:
        gradient = tape.gradient(column, step, unconnected_gradients="zero")
        yield tf.cast(gradient, tf.float64).numpy()


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

"""Decision trees as a layer."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.sklearn_internals import boosted
from keras_mmil._support.types import Array, Config, Ints, Shape

__all__ = ["Forest"]


@keras.saving.register_keras_serializable("keras_mmil")
class Forest(RawInputs):
    """A sum of decision trees, which are not trained here: α(b + Σₜ treeₜ(x)).

    `Forest.of` makes one of a forest, or of boosted trees, that scikit-learn has fitted. Its
    predictions are those of scikit-learn, up to rounding of the sum.

    Args:
        n_nodes: of all trees.
        n_trees: number of trees; the first nodes are their roots.
        n_outputs: size of the output.
        depth: of the deepest tree.
        activation: α.

    Input shape:
        Floats [n, features].

    Output shape:
        [n, n_outputs], float32.

    Example:

    >>> trees = ExtraTreesClassifier().fit(x, y)
    >>> keras_mmil.layers.Forest.of(trees)(x)  # as trees.predict_proba(x)
    """

    def __init__(
        self,
        n_nodes: int,
        n_trees: int,
        n_outputs: int,
        depth: int,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=kwargs.pop("trainable", False), **kwargs)
        self.n_nodes = positive_int("n_nodes", n_nodes)
        self.n_trees = positive_int("n_trees", n_trees)
        self.n_outputs = positive_int("n_outputs", n_outputs)
        self.depth = check_int("depth", depth)
        self.activation = keras.activations.get(activation)

    @classmethod
    def of(cls, *forests: Any, columns: Ints | None = None, **kwargs: Any) -> Self:
        """The layer of fitted models of scikit-learn; the mean of several forests.

        Args:
            forests: such as a fitted `ExtraTreesClassifier` or `RandomForestRegressor`; or one
                `HistGradientBoostingClassifier` or `HistGradientBoostingRegressor`.
            columns: of the inputs, in the order in which the models read them; None for all.
            kwargs: name and dtype of the layer.
        """
        offset: Array = np.zeros(1)
        if found := boosted(forests[0]):
            (model,) = forests
            rounds, offset = found
            trees = _of_rounds(rounds)
            is_of_classes = hasattr(model, "classes_")
            several = "softmax" if len(offset) > 1 else "sigmoid"
            kwargs["activation"] = several if is_of_classes else None
        else:
            trees = [_averaged(each.tree_) for forest in forests for each in forest.estimators_]
            trees = [tree._replace(values=tree.values / len(trees)) for tree in trees]
        n_outputs = trees[0].values.shape[1]
        # Roots first, so that all trees start at once.
        sizes = [len(tree.features) - 1 for tree in trees]
        starts = len(trees) + np.cumsum([0, *sizes[:-1]])
        places = [
            np.array([i, *range(start, start + size)])
            for i, (start, size) in enumerate(zip(starts.tolist(), sizes, strict=True))
        ]
        order = np.argsort(np.concatenate(places))
        features, thresholds, children, values = (
            np.concatenate(parts)[order] for parts in zip(*map(_placed, trees, places), strict=True)
        )
        depth = max(map(_depth, trees))
        layer = cls(len(order), len(trees), n_outputs, depth, **kwargs)
        layer.build()
        offset = np.broadcast_to(offset, [n_outputs])
        if columns is not None:
            features = columns[features]
        layer.set_weights([features, thresholds, children, values, offset])
        return layer

    def build(self, inputs_shape: Shape | None = None) -> None:
        def weight(name: str, dtype: str, *shape: int) -> keras.Variable:
            return self.add_weight(
                shape=shape, dtype=dtype, initializer="zeros", trainable=False, name=name
            )

        self.features = weight("features", "int32", self.n_nodes)
        self.thresholds = weight("thresholds", "float32", self.n_nodes)
        self.children = weight("children", "int32", self.n_nodes, 2)
        self.values = weight("values", "float32", self.n_nodes, self.n_outputs)
        self.offset = weight("offset", "float32", self.n_outputs)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        x = tf.cast(inputs, tf.float32)
        features, thresholds, children, values = (
            tf.convert_to_tensor(each)
            for each in (self.features, self.thresholds, self.children, self.values)
        )

        def step(i: tf.Tensor, nodes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            value = tf.gather(x, tf.gather(features, nodes), batch_dims=1)
            is_right = tf.cast(value > tf.gather(thresholds, nodes), tf.int32)
            return i + 1, tf.gather(tf.reshape(children, [-1]), 2 * nodes + is_right)

        nodes = tf.tile(tf.range(self.n_trees)[None], [tf.shape(x)[0], 1])
        _, nodes = tf.while_loop(
            lambda i, _: i < self.depth,
            step,
            (0, nodes),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, self.n_trees])),
        )
        of_trees = tf.gather(values, nodes)  # (n, trees, outputs)
        total = tf.reduce_sum(of_trees, axis=1) + tf.convert_to_tensor(self.offset)
        return tf.stop_gradient(self.activation(total))

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor((inputs.shape[0], self.n_outputs), dtype="float32")

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "n_nodes": self.n_nodes,
            "n_trees": self.n_trees,
            "n_outputs": self.n_outputs,
            "depth": self.depth,
            "activation": keras.activations.serialize(self.activation),
        }


class _Tree(NamedTuple):
    """A tree: what its nodes compare, [nodes], the nodes they lead to, and values [nodes, n]."""

    features: Ints
    thresholds: Array
    left: Ints
    right: Ints
    is_leaf: Array
    values: Array


def _averaged(tree: Any) -> _Tree:
    """A tree of a forest."""
    values = tree.value[:, :, 0] if tree.value.shape[1] > 1 else tree.value[:, 0, :]
    left, right = tree.children_left, tree.children_right
    return _Tree(tree.feature, tree.threshold, left, right, left < 0, values)


def _of_rounds(rounds: Sequence[Sequence[Array]]) -> list[_Tree]:
    """The trees of the rounds of boosting, each of which has one for each output."""
    trees = []
    for of_outputs in rounds:
        for i, nodes in enumerate(of_outputs):
            values = np.zeros([len(nodes), len(of_outputs)])
            values[:, i] = nodes["value"]
            tree = _Tree(
                features=nodes["feature_idx"],
                thresholds=nodes["num_threshold"],
                left=nodes["left"],
                right=nodes["right"],
                is_leaf=nodes["is_leaf"].astype(bool),
                values=values,
            )
            trees.append(tree)
    return trees


def _placed(tree: _Tree, place: Ints) -> tuple[Array, ...]:
    """Features, thresholds, children and values of a tree whose nodes get these places."""
    is_leaf = tree.is_leaf
    both = np.stack([tree.left, tree.right], axis=1).astype(int)
    children = place[np.where(is_leaf[:, None], 0, both)]
    children[is_leaf] = place[is_leaf, None]  # leaves lead to themselves
    return np.where(is_leaf, 0, tree.features), _at_most(tree.thresholds), children, tree.values


def _depth(tree: _Tree) -> int:
    """The number of comparisons on the longest way."""
    depth, nodes = 0, np.array([0])
    while len(nodes := nodes[~tree.is_leaf[nodes]]):
        nodes = np.concatenate([tree.left[nodes], tree.right[nodes]]).astype(int)
        depth += 1
    return depth


def _at_most(thresholds: Sequence[float] | Array) -> Array:
    """The greatest float32 that are at most these: the same comparisons of float32."""
    rounded = np.asarray(thresholds).astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)

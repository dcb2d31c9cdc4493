"""Decision trees as arrays."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from keras_mmil._support.formatting import share
from keras_mmil._support.types import Array, Ints
from keras_mmil.rules.trees.columns import ABSENT, ALL

__all__ = ["Boxes", "Examples", "Shortcut", "Tree", "grow"]

_LEAF = -1
_NODES = ("feature", "threshold", "children", "label")


@dataclass(frozen=True, eq=False)
class Examples:
    """Weighted examples for a tree.

    Attributes:
        bags: feature vectors, float32 [n, k].
        labels: label of each, int [n].
        weights: how many bags each stands for, > 0, [n].
    """

    bags: Array
    labels: Ints
    weights: Array


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes `low < x ≤ high` of feature vectors, each with a label.

    Attributes:
        bounds: low and high, float64 [boxes, 2, features]; infinite where there is no bound.
        depths: how many splits are above that which made the bound, int [boxes, 2, features].
        labels: int [boxes].
    """

    bounds: Array
    depths: Ints
    labels: Ints

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Array) -> "Boxes":
        return Boxes(self.bounds[index], self.depths[index], self.labels[index])


class Shortcut(NamedTuple):
    """What takes the place of a split.

    Attributes:
        split: the node.
        label: of a leaf; None for a subtree.
        child: the root of the subtree.
    """

    split: int
    label: int | None
    child: int = _LEAF


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary decision tree. Node 0 is the root, and children come after their parents.

    Attributes:
        feature: which feature a node compares, int32 [nodes]; -1 for a leaf.
        threshold: `x[feature] <= threshold` goes left, float64 [nodes].
        children: left and right child, int32 [nodes, 2]; -1 for a leaf.
        label: the majority class, int32 [nodes].
        n_features: number of features.
    """

    feature: Ints
    threshold: Array
    children: Ints
    label: Ints
    n_features: int

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int((self.feature == _LEAF).sum())

    def check(self, n_labels: int) -> None:
        """Raise ValueError unless the nodes are a tree, and features and labels in range."""
        n_nodes, nodes = len(self.feature), np.flatnonzero(self.feature != _LEAF)
        children, of_leaves = self.children[nodes], self.children[self.feature == _LEAF]
        if ((children <= nodes[:, None]) | (children >= n_nodes)).any() or (of_leaves != -1).any():
            raise ValueError("children of the tree do not come after their parents")
        if (np.bincount(children.ravel(), minlength=n_nodes)[1:] != 1).any():
            raise ValueError("nodes of the tree have no parent, or several")
        tested = self.feature[nodes]
        if ((tested < 0) | (tested >= self.n_features)).any():
            raise ValueError(f"the tree tests features beyond {self.n_features}")
        if ((self.label < 0) | (self.label >= n_labels)).any():
            raise ValueError(f"the tree has labels beyond {n_labels}")

    def predict(self, features: Array) -> Ints:
        """The class of each feature vector: [n, features] to int32 [n]."""
        return self.label[self.leaves_of(features)]

    def leaves_of(self, features: Array, start: int = 0) -> Ints:
        """The leaf of each feature vector, from a node downwards: [n, features] to int32 [n]."""
        node = np.full(len(features), start, np.int32)
        active = np.flatnonzero(self.feature[node] != _LEAF)
        while len(active):
            at = node[active]
            right = features[active, self.feature[at]] > self.threshold[at]
            node[active] = self.children[at, right.astype(int)]
            active = active[self.feature[node[active]] != _LEAF]
        return node

    def figures(self, examples: Examples) -> tuple[tuple[float, float], ...]:
        """For each leaf the share of the examples that reach it, and of these of its own label."""
        leaves = self.leaves_of(examples.bags)
        is_right = self.label[leaves] == examples.labels
        n_nodes = len(self.feature)
        reached = np.bincount(leaves, examples.weights, minlength=n_nodes)
        right = np.bincount(leaves, examples.weights * is_right, minlength=n_nodes)
        total = examples.weights.sum()
        return tuple(
            (share(reached[leaf], total), share(right[leaf], reached[leaf]))
            for leaf in np.flatnonzero(self.feature == _LEAF)
        )

    def reached(self, leaves: Ints) -> Ints:
        """How many of some examples, whose leaves these are, reach each node: int [nodes]."""
        counts = np.bincount(leaves, minlength=len(self.feature))
        for node in np.flatnonzero(self.feature != _LEAF)[::-1]:  # children before their parents
            counts[node] = counts[self.children[node]].sum()
        return counts

    def sizes(self) -> Ints:
        """The number of leaves below each node, 1 for a leaf: int [nodes]."""
        sizes = np.ones(len(self.feature), int)
        for node in np.flatnonzero(self.feature != _LEAF)[::-1]:
            sizes[node] = sizes[self.children[node]].sum()
        return sizes

    def shortcuts(self, split: int) -> Iterator[Shortcut]:
        """The ways to put a leaf, or one of the two subtrees, in the place of a split."""
        below = self._descendants[split]
        for label in dict.fromkeys(self.label[below & (self.feature == _LEAF)].tolist()):
            yield Shortcut(split, label)
        for child in self.children[split].tolist():
            if self.feature[child] != _LEAF:
                yield Shortcut(split, None, child)

    def after(self, shortcut: Shortcut) -> "Tree":
        """The tree with a shortcut, without splits that then do not change the class."""
        is_leaf = self.feature == _LEAF
        moved = {name: getattr(self, name).copy() for name in _NODES}
        if shortcut.label is None:
            for name in _NODES:
                moved[name][shortcut.split] = moved[name][shortcut.child]
        else:
            is_leaf[shortcut.split], moved["label"][shortcut.split] = True, shortcut.label
        is_leaf = _merged(moved["children"], is_leaf, moved["label"])
        return _pruned(replace(self, **moved), is_leaf)

    def labels_after(self, shortcut: Shortcut, leaves: Ints, features: Array) -> Ints:
        """The class of each feature vector with a shortcut; `leaves` are those without it."""
        labels = self.label[leaves]
        if shortcut.label is not None:
            labels[self._descendants[shortcut.split][leaves]] = shortcut.label
            return labels
        is_moved = self._descendants[shortcut.split] & ~self._descendants[shortcut.child]
        moved = np.flatnonzero(is_moved[leaves])
        labels[moved] = self.label[self.leaves_of(features[moved], shortcut.child)]
        return labels

    def without(self, split: int) -> Iterator["Tree"]:
        """The trees with a leaf, or one of the two subtrees, in place of the node `split`."""
        return map(self.after, self.shortcuts(split))

    @cached_property
    def _descendants(self) -> Array:
        """Which nodes are below each, or itself: bool [nodes, nodes]."""
        below = np.eye(len(self.feature), dtype=bool)
        for node in np.flatnonzero(self.feature != _LEAF)[::-1]:  # children before their parents
            below[node] |= below[self.children[node]].any(axis=0)
        return below

    def boxes(self) -> Boxes:
        """The leaves as `Boxes`, from left to right."""
        shape = (len(self.feature), 2, self.n_features)
        bounds = np.broadcast_to([[-np.inf], [np.inf]], shape).copy()
        depths, depth = np.zeros(shape, int), np.zeros(shape[0], int)
        for node in np.flatnonzero(self.feature != _LEAF):
            for child, side in zip(self.children[node], (1, 0), strict=True):
                bounds[child], depths[child] = bounds[node], depths[node]
                bounds[child, side, self.feature[node]] = self.threshold[node]
                depths[child, side, self.feature[node]] = depth[node]
                depth[child] = depth[node] + 1
        leaves = self.feature == _LEAF
        return Boxes(bounds[leaves], depths[leaves], self.label[leaves])


def grow(
    examples: Examples,
    *,
    is_measured: Array | None = None,
    is_share: Array | None = None,
    columns: Ints | None = None,
    max_depth: int | None = None,
    ccp_alpha: float = 0.0,
    seed: int = 0,
) -> Tree:
    """Fit a decision tree (CART, Gini impurity) to weighted examples.

    Args:
        examples: what to learn from.
        is_measured: which features are measured, bool [features]: the thresholds on these are as
            round as the examples allow. Others stay about halfway between two examples, with as few
            digits as that takes. None for no rounding.
        is_share: which features are shares of clusters in bags with a name, bool [features]: where
            it splits the examples alike, it is asked whether there are any, or whether all are.
        columns: the features that may be tested; None for all.
        max_depth: maximal number of splits on a path.
        ccp_alpha: minimal cost-complexity pruning: a split must lower the impurity, weighted by the
            fraction of the examples below it, by this much for each leaf that it adds.
        seed: decides between equally good splits.

    Returns:
        A `Tree` without splits that do not change the class; one leaf if there are no examples.
    """
    if not len(examples.labels):
        leaf = np.full((1, 3), _LEAF, np.int32)
        n_features = examples.bags.shape[1]
        return Tree(leaf[:, 0], np.zeros(1), leaf[:, 1:], np.zeros(1, np.int32), n_features)
    bags = examples.bags if columns is None else examples.bags[:, columns]
    fitted = DecisionTreeClassifier(
        max_depth=max_depth,
        ccp_alpha=ccp_alpha,
        # Pruning takes time quadratic in the number of leaves: minutes for some hundred thousand
        # bags, if leaves are grown that are far too small to survive it.
        min_weight_fraction_leaf=min(ccp_alpha / 4, 0.5),
        random_state=seed,
    ).fit(bags, examples.labels, sample_weight=examples.weights)
    tree = fitted.tree_
    label = fitted.classes_[tree.value[:, 0].argmax(axis=1)].astype(np.int32)
    children = np.stack([tree.children_left, tree.children_right], axis=1).astype(np.int32)
    is_leaf = _merged(children, children[:, 0] == _LEAF, label)
    feature, threshold = tree.feature.copy(), tree.threshold.copy()
    if columns is not None:
        feature = np.where(feature < 0, _LEAF, columns[feature])
    is_final = np.zeros(len(label), bool)
    if is_share is not None and is_share.any():
        reached = fitted.decision_path(bags).tocsc()
        splits = np.flatnonzero(~is_leaf)
        for split in splits[is_share[feature[splits]]]:
            rows = examples.bags[reached.indices[slice(*reached.indptr[split : split + 2])]]
            found = _in_words(rows, feature[split], threshold[split], is_share)
            if found is not None:
                feature[split], threshold[split], is_swapped = found
                children[split] = children[split][::-1] if is_swapped else children[split]
                is_final[split] = True
    if is_measured is not None:
        for split in np.flatnonzero(~is_leaf & ~is_final):
            values = examples.bags[:, feature[split]].astype(float)
            threshold[split] = _rounded(threshold[split], values, is_measured[feature[split]])
    unpruned = Tree(feature, threshold, children, label, examples.bags.shape[1])
    return _pruned(unpruned, is_leaf)


def _merged(children: Ints, is_leaf: Array, label: Ints) -> Array:
    """Which nodes are leaves once splits into equal leaves are merged; changes `label`."""
    for node in range(len(children))[::-1]:  # children before their parents
        left, right = children[node]
        if not is_leaf[node] and is_leaf[left] and is_leaf[right] and label[left] == label[right]:
            is_leaf[node], label[node] = True, label[left]
    return is_leaf


def _in_words(
    bags: Array, feature: int, threshold: float, is_share: Array
) -> tuple[int, float, bool] | None:
    """A split of the same bags that is said without numbers, of one by the share of a cluster.

    "No orders are v2", or "all orders are v1", and not "more than 90 % of orders are v1".

    Returns:
        The feature, the threshold, and whether the sides are swapped; None if there is none.
    """
    shares = bags[:, feature]
    is_high = shares > threshold
    for at in (feature, *np.flatnonzero(is_share)):
        is_there = bags[:, at] > 0
        for is_swapped in (False, True):
            if np.array_equal(is_there, is_high ^ is_swapped):
                return int(at), 0.0, is_swapped
    return (feature, ALL, False) if (shares[is_high] == 1).all() else None


def _rounded(threshold: float, values: Array, is_measured: bool) -> float:
    """The roundest number that splits the values as a threshold does, and the nearest of these.

    Unless they are measured, it is within a quarter of the gap around the threshold.
    """
    low, high = values[values <= threshold].max(), values[values > threshold].min()
    if low < ABSENT:  # it splits missing from present
        return threshold
    if not is_measured:
        quarter = (high - low) / 4
        low, high = max(low, threshold - quarter), min(high, threshold + quarter)
    largest = math.ceil(math.log10(max(abs(low), abs(high)))) + 1
    for exponent in range(largest, largest - 18, -1):
        step = 10.0**exponent
        at, first, last = threshold / step, math.floor(low / step), math.ceil(high / step)
        neighbours = {round(at), first, first + 1, last - 1, last}
        for n in sorted(neighbours, key=lambda n: abs(n - at)):
            # In float32, like the numbers: else 0.1 itself would be above a bound of 0.1.
            rounded = float(np.float32(f"{n}e{exponent}"))
            if low <= rounded < high:
                return rounded
    return threshold


def _pruned(tree: Tree, is_leaf: Array) -> Tree:
    """A tree in which some nodes, bool [nodes], become leaves."""
    reached = np.zeros(len(is_leaf), bool)
    reached[0] = True
    for node in np.flatnonzero(~is_leaf):
        if reached[node]:
            reached[tree.children[node]] = True
    index = np.cumsum(reached) - 1  # new number of each node that is kept
    return Tree(
        feature=np.where(is_leaf, _LEAF, tree.feature)[reached].astype(np.int32),
        threshold=np.where(is_leaf, 0.0, tree.threshold)[reached],
        children=np.where(is_leaf[:, None], _LEAF, index[tree.children])[reached].astype(np.int32),
        label=tree.label[reached],
        n_features=tree.n_features,
    )

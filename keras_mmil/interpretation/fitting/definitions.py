"""Short definitions of clusters that no rule decides: trees from the fields of rows to them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.fitting.cluster import nearest
from keras_mmil.interpretation.fitting.plan import MEASURED, Plan
from keras_mmil.interpretation.fitting.sample import WeightedRows
from keras_mmil.interpretation.fitting.search import merge, tally
from keras_mmil.interpretation.network.capture import Network
from keras_mmil.interpretation.rules.features import Bag, Space
from keras_mmil.interpretation.rules.fields import Field
from keras_mmil.interpretation.rules.learn import learn_rules
from keras_mmil.interpretation.rules.level import Clusters, Level
from keras_mmil.interpretation.rules.rule_set import Definition
from keras_mmil.interpretation.rules.tree import Examples, Tree, grow

__all__ = ["definable", "define", "with_definitions"]

_DEPTH = 3  # of a tree, unless it takes more for each cluster to have a leaf
_LEAST_GAIN = 2e-3  # accuracy for each leaf: less is not worth a longer definition


def definable(network: Network, plan: Plan) -> dict[int, tuple[Field, ...]]:
    """The fields of the rows whose clusters no rule decides, where they have any.

    Args:
        network: the network.
        plan: which rows trees label.

    Returns:
        Dict from indices of bag-layers to fields.
    """
    found = {i: plan.fields[i] for i in range(len(plan.parents)) if not plan.has_tree[i]}
    if network.named is not None and network.feature_names is not None:
        numbers = (Field(name, "number", is_optional=False) for name in network.feature_names)
        found[network.named] = tuple(numbers)
    return {i: fields for i, fields in found.items() if fields}


def with_definitions(
    levels: Sequence[Level],
    fields: Mapping[int, tuple[Field, ...]],
    train: Sequence[WeightedRows],
    held_out: Sequence[WeightedRows],
    *,
    ccp_alpha: float,
    seed: int,
) -> tuple[Level, ...]:
    """The levels of an explainer, with definitions of clusters.

    Args:
        levels: from the instances upwards.
        fields: what `definable` returned.
        train: rows of the training data with the values of their fields, for each bag-layer; to
            learn from.
        held_out: likewise of the validation data; to measure on.
        ccp_alpha, seed: as for `grow`.
    """

    def defined(clusters: Clusters) -> Clusters:
        i = clusters.level
        if i not in fields:
            return clusters
        labelled = [
            (rows.values, nearest(rows.rows, clusters.centroids), rows.weights)
            for rows in (train[i], held_out[i])
        ]
        found = define(
            fields[i], *labelled, n_clusters=clusters.n_clusters, ccp_alpha=ccp_alpha, seed=seed
        )
        return replace(clusters, definition=found)

    return tuple(
        replace(level, space=replace(level.space, bags=tuple(map(defined, level.clusters))))
        for level in levels
    )


def define(
    fields: tuple[Field, ...],
    train: tuple[Sequence[Array], Ints, Array],
    held_out: tuple[Sequence[Array], Ints, Array],
    *,
    n_clusters: int,
    ccp_alpha: float = 1e-3,
    seed: int = 0,
) -> Definition:
    """Define clusters by a small decision tree.

    Args:
        fields: of the rows.
        train: raw values of these [n] each, clusters int [n], and how often each row occurs [n].
        held_out: likewise of rows to measure the definitions on.
        n_clusters: k.
        ccp_alpha, seed: as for `grow`.
    """
    space: Space[Bag] = Space((), fields)
    values, labels, weights = train
    examples = tally(*merge(space.matrix((), (), values)), labels, weights)
    tree = grow(
        examples,
        is_measured=np.array([column.feature in MEASURED for column in space.columns]),
        max_depth=max(_DEPTH, int(np.ceil(np.log2(n_clusters)))),
        ccp_alpha=ccp_alpha,
        seed=seed,
    )
    tree = _shortened(tree, examples)
    rules = learn_rules(tree, space, level=0, examples=examples)
    values, labels, weights = held_out
    cells = tree.predict(space.matrix((), (), values)) * n_clusters + labels
    table = np.bincount(cells, weights, minlength=n_clusters**2).astype(float)
    return Definition(
        fields=fields,
        cases=tuple(
            tuple(rule.conditions for rule in rules if rule.conclusion == cluster)
            for cluster in range(n_clusters)
        ),
        table=table.reshape(n_clusters, n_clusters),
    )


def _shortened(tree: Tree, examples: Examples) -> Tree:
    """A tree without the splits that make little difference to its accuracy."""

    def right(shorter: Tree) -> float:
        return float(examples.weights @ (shorter.predict(examples.bags) == examples.labels))

    least = _LEAST_GAIN * examples.weights.sum()
    while True:
        before = right(tree)
        splits = np.flatnonzero(tree.feature >= 0).tolist()
        losses = [
            ((before - right(option)) / (tree.n_leaves - option.n_leaves), option)
            for split in splits
            for option in tree.without(split)
        ]
        loss, shorter = min(losses, key=lambda pair: pair[0], default=(np.inf, tree))
        if loss >= least:
            return tree
        tree = shorter

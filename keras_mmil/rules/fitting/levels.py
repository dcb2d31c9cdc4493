"""The levels of an explainer, made of the combination of numbers of clusters that was chosen.

Clusters that no rule decides get short definitions: trees from the fields of rows to clusters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.rules.fitting.cluster import WeightedRows, nearest
from keras_mmil.rules.fitting.label import LabelledBags
from keras_mmil.rules.fitting.plan import MEASURED, Plan, Trees
from keras_mmil.rules.fitting.search import merge, tally
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.nesting import clustered_weights
from keras_mmil.rules.trees.features import Bag, Space
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.learn import learn_rules
from keras_mmil.rules.trees.level import Clusters, Level, level_symbol, level_word
from keras_mmil.rules.trees.rule_set import Definition, RuleSet
from keras_mmil.rules.trees.tree import Examples, Tree, grow

__all__ = ["definable", "define", "make_levels", "with_definitions"]

_DEPTH = 3  # of a tree, unless it takes more for each cluster to have a leaf
_LEAST_GAIN = 2e-3  # accuracy for each leaf: less is not worth a longer definition


def make_levels(
    train: LabelledBags,
    plan: Plan,
    *,
    projections: Sequence[Array | None],
    centroids: Sequence[Array],
    trees: Trees,
    class_names: tuple[str, ...],
) -> tuple[Level, ...]:
    """The levels with their rules, from the instances upwards.

    Args:
        train: the training data, labelled by these centroids.
        plan, trees: which trees there are, and the trees.
        projections: what the rows of each bag-layer were multiplied by, or None.
        centroids: of the clusters of these rows, float32 [k, directions].
        class_names: of the top-bags.
    """
    top, counts = len(plan.parents), tuple(map(len, centroids))
    names = [_cluster_names(i, k) for i, k in enumerate(counts)] + [class_names]
    examples = _examples(train, plan, counts, trees)
    clusters = _clusters(train, plan, centroids, projections)
    needed: dict[int, tuple[bool, ...]] = {top: (True,) * len(class_names)}
    levels: list[Level] = []
    for index, record in reversed(list(enumerate(plan.records))):
        space = Space(tuple(clusters[i] for i in plan.bags_of(record)), plan.fields[record])
        learned = learn_rules(trees[index], space, level=index, examples=examples[index])
        level = Level(
            record=record,
            word=_word(plan, record),
            path=plan.paths[record] if record < len(plan.paths) else "",
            space=space,
            tree=trees[index],
            rules=RuleSet(
                learned, columns=space.columns, names=names[record], needed=needed[record]
            ),
            leaves=trees[index].figures(examples[index]),
        )
        levels.insert(0, level)
        here = zip(level.clusters, level.needed, strict=True)
        needed |= {bag.level: of_clusters for bag, of_clusters in here}
    return tuple(levels)


def _clusters(
    train: LabelledBags,
    plan: Plan,
    centroids: Sequence[Array],
    projections: Sequence[Array | None],
) -> list[Clusters]:
    """The clusters of the rows of each bag-layer."""
    weights = clustered_weights(train.nestings, plan.parents, list(map(bool, plan.fields)))
    found = []
    for i, (points, weight) in enumerate(zip(centroids, weights, strict=True)):
        k = len(points)
        clusters = Clusters(
            level=i,
            feature=plan.features[i],
            names=_cluster_names(i, k),
            members=plan.names[i],
            path=plan.paths[i],
            word=_word(plan, i),
            projection=projections[i],
            centroids=points,
            sizes=np.bincount(train.labels[i][k], weight, minlength=k) / (weight.sum() or 1.0),
        )
        found.append(clusters)
    return found


def _cluster_names(level: int, k: int) -> tuple[str, ...]:
    return tuple(f"{level_symbol(level)}{cluster + 1}" for cluster in range(k))


def _word(plan: Plan, record: int) -> str:
    """The name of one record of a kind."""
    if plan.paths and not any(plan.paths):
        return level_word(record, len(plan.parents))
    return plan.names[record] if record < len(plan.names) else "record"


def _examples(
    train: LabelledBags, plan: Plan, counts: tuple[int, ...], trees: Trees
) -> list[Examples]:
    """The examples of each tree: records whose members the rules below have labelled."""
    labels = train.nearest(counts)
    examples = []
    for record, tree in zip(plan.records, trees, strict=True):
        known = plan.matrix(train, record, labels, counts)
        targets = train.targets(record, counts)
        examples.append(tally(*merge(known), targets, plan.weights[record]))
        if record < len(labels):
            labels[record] = tree.predict(known)
    return examples


def definable(network: Network, plan: Plan) -> dict[int, tuple[Field, ...]]:
    """The fields of rows whose clusters no rule decides, by the index of their bag-layer."""
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
    """The same levels with definitions of clusters.

    Args:
        levels: from the instances upwards.
        fields: the result of `definable`.
        train: rows of the training data with the values of their fields, for each bag-layer.
        held_out: likewise of the validation data, to measure definitions on.
        ccp_alpha, seed: see `grow`.
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
        train: raw values of these [n] each, clusters int [n], and multiplicities [n].
        held_out: likewise of rows to measure the definitions on.
        n_clusters: k.
        ccp_alpha, seed: see `grow`.
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
